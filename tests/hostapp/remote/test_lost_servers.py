"""Interceptor servers that go away and come back while traffic flows."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from .ways import blocked_by, client_of, config, http_app, over_http, say, seen, served_command, table, until_passed

pytestmark = pytest.mark.anyio

CENTRAL = "interceptor_servers.central"


async def test_a_server_that_dies_fails_closed_and_is_started_anew(tmp_path: Path) -> None:
    async with client_of("run", config(tmp_path, table(CENTRAL, **served_command(tmp_path)))) as client:
        assert blocked_by(await say(client, "end your process")) is not None
        await until_passed(client)
        assert blocked_by(await say(client, "rm -rf /")) == "central.guards.no_rm"
    assert "end your process" not in seen(tmp_path)
    assert "interceptor server 'central'" in (tmp_path / "midspan.stderr").read_text()


async def test_with_fail_open_what_a_dead_server_would_judge_passes(tmp_path: Path) -> None:
    file = config(tmp_path, table(CENTRAL, **served_command(tmp_path), fail_open=True))
    async with client_of("run", file) as client:
        assert blocked_by(await say(client, "rm -rf /")) == "central.guards.no_rm"
        assert blocked_by(await say(client, "end your process")) is None
    assert seen(tmp_path) == ["end your process"]


@pytest.mark.parametrize("fail_open", [False, True])
async def test_a_server_over_http_that_is_away_for_a_while(tmp_path: Path, fail_open: bool) -> None:
    async with AsyncExitStack() as first:
        port = await first.enter_async_context(over_http(http_app()))
        file = config(tmp_path, table(CENTRAL, url=f"http://127.0.0.1:{port}/mcp?key=hush", fail_open=fail_open))
        async with client_of("run", file) as client:
            assert blocked_by(await say(client, "rm -rf /")) == "central.no_rm"
            await first.aclose()
            assert (blocked_by(await say(client, "rm -rf / while away")) is None) is fail_open
            async with over_http(http_app(), port=port):
                if not fail_open:
                    await until_passed(client)
                while blocked_by(await say(client, "rm -rf / again")) is None:
                    pass
                assert blocked_by(await say(client, "rm -rf / again")) == "central.no_rm"
    assert ("rm -rf / while away" in seen(tmp_path)) is fail_open
    said = file.with_suffix(".stderr").read_text()
    assert "interceptor server 'central'" in said
    assert "hush" not in said
