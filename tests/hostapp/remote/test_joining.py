"""What interceptor servers do to traffic: their interceptors stand in the chain like those of plugins."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from midspan_sdk import mutator

from .ways import (
    GUARDS,
    Way,
    behind_token,
    blocked_by,
    client_of,
    config,
    failed_start,
    http_app,
    over_http,
    say,
    seen,
    served_command,
    table,
    text_of,
)

pytestmark = pytest.mark.anyio

CENTRAL = "interceptor_servers.central"


@asynccontextmanager
async def server(kind: str, folder: Path) -> AsyncGenerator[tuple[dict[str, Any], str]]:
    """Serve the guards; yields the keys of a table, and what their names begin with."""
    if kind == "stdio":
        yield served_command(folder), "central.guards"
        return
    async with over_http(http_app(transport=kind)) as port:
        path = "sse" if kind == "sse" else "mcp"
        yield {"url": f"http://127.0.0.1:{port}/{path}", "transport": kind}, "central"


@pytest.mark.parametrize("way", ["run", "serve"])
@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_a_remote_validator_denies_and_a_remote_mutator_redacts(tmp_path: Path, way: Way, kind: str) -> None:
    async with server(kind, tmp_path) as (keys, prefix):
        file = config(tmp_path, table(CENTRAL, **keys))
        async with client_of(way, file) as client:
            assert text_of(await say(client, "a s3cret")) == "a ***"
            assert blocked_by(await say(client, "rm -rf /")) == f"{prefix}.no_rm"
            assert text_of(await say(client, "fine")) == "fine"
    assert seen(tmp_path) == ["a s3cret", "fine"]
    assert "relay only" not in file.with_suffix(".stderr").read_text()


async def test_the_table_s_policy_is_for_all_and_a_name_s_own_wins(tmp_path: Path) -> None:
    policy = table(CENTRAL, **served_command(tmp_path), mode="audit", timeout="20s")
    own = table(f'{CENTRAL}.interceptors."guards.no_rm"', mode="active")
    async with client_of("run", config(tmp_path, policy, own)) as client:
        assert blocked_by(await say(client, "rm -rf /")) == "central.guards.no_rm"
        assert text_of(await say(client, "sudo s3cret")) == "sudo s3cret"  # audited, and left as it was


async def test_without_the_prefix_names_are_the_server_s_own(tmp_path: Path) -> None:
    async with client_of("run", config(tmp_path, table(CENTRAL, **served_command(tmp_path), prefix=False))) as client:
        assert blocked_by(await say(client, "rm -rf /")) == "guards.no_rm"


def test_a_name_that_is_in_the_chain_already_stops_the_start(tmp_path: Path) -> None:
    file = config(tmp_path, table(CENTRAL, prefix=False, **served_command(tmp_path)))
    line = failed_start("run", file, "--plugin-file", str(GUARDS))
    assert line == (
        f"{file}:2:1: interceptor_servers.central.prefix: its interceptor 'guards.no_rm' has the name of another in the "
        "chain; leave `prefix = false` out, or disable one of the two"
    )


APPENDS = """
from midspan_sdk import hookimpl, mutator

@mutator(events=["tools/call"], phase="request")
def local(payload):
    return {**payload, "arguments": {"text": payload["arguments"]["text"] + " local"}}

@hookimpl
def midspan_interceptors():
    return [local]
"""


@mutator(events=["tools/call"], phase="request")
def remote(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "arguments": {"text": payload["arguments"]["text"] + " remote"}}


@pytest.mark.parametrize(("priority", "expected"), [(-1, "x remote local"), (1, "x local remote")])
async def test_priorities_order_remote_mutators_among_local_ones(tmp_path: Path, priority: int, expected: str) -> None:
    plugin = tmp_path / "appends.py"
    plugin.write_text(APPENDS)
    async with over_http(http_app(remote)) as port:
        file = config(tmp_path, table(CENTRAL, url=f"http://127.0.0.1:{port}/mcp", priority=priority))
        async with client_of("run", file, "--plugin-file", str(plugin)) as client:
            await say(client, "x")
    assert seen(tmp_path) == [expected]


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_header_comes_from_a_file_and_its_secret_is_shown_nowhere(tmp_path: Path, transport: str) -> None:
    secret = tmp_path / "token"
    path = "sse" if transport == "sse" else "mcp"
    async with over_http(http_app(transport=transport), guard=lambda app: behind_token(app, "t0ps3cret")) as port:
        url = f"http://127.0.0.1:{port}/{path}"
        keys = {"url": f"{url}?key=hush", "transport": transport, "headers": {"X-Token": f"file:{secret}"}}
        file = config(tmp_path, table(CENTRAL, **keys))
        secret.write_text("t0ps3cret\n")
        async with client_of("run", file) as client:
            assert blocked_by(await say(client, "rm -rf /")) == "central.no_rm"

        secret.write_text("wr0ng")
        line = await anyio.to_thread.run_sync(failed_start, "run", file)
        assert line == (
            f"interceptor server 'central' ({url}): cannot be reached: it answers with the status 401 Unauthorized; "
            "to start without it: enabled = false in [interceptor_servers.central]"
        )


async def test_a_command_has_the_gateway_s_environment_and_what_its_table_adds(tmp_path: Path) -> None:
    keys = served_command(tmp_path)
    keys["env"] |= {"OWN": "${GIVEN:-none}-1", "BOTH": "table"}
    denials = table("gateway", denial_detail="reason")
    file = config(tmp_path, denials, table(CENTRAL, **keys))
    async with client_of("run", file, GIVEN="given", BOTH="gateway") as client:
        for name, value in {"OWN": "given-1", "BOTH": "table", "GIVEN": "given", "NOWHERE": "None"}.items():
            assert f"<{value}>" in text_of(await say(client, f"env:{name}"))
