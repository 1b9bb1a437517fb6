"""From tables to chains: scopes, order, what is contacted when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan.errors import ConfigError, InterceptorServerError, ProblemsError
from midspan.plugins import Builder, Running
from midspan_sdk import InterceptorOverrides, PhasePriorities

from .ways import GUARDS, config, http_app, over_http, processes, served_command, table

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9/mcp"


def names(file: Path, server: str | None) -> list[str]:
    return [one.name for one in Builder(config=file).assembly(server).remotes]


def test_a_scope_says_which_guarded_servers_a_server_s_interceptors_are_for(tmp_path: Path) -> None:
    file = config(
        tmp_path,
        table("interceptor_servers.all", url=NOBODY),
        table("interceptor_servers.prod", url=NOBODY, servers=["prod-*", "echo"]),
        table("interceptor_servers.off", url=NOBODY, enabled=False),
        table("interceptor_servers.lab", url=NOBODY, servers=["lab"]),
    )
    assert names(file, "prod-1") == names(file, "echo") == ["all", "prod"]
    assert names(file, "lab") == ["all", "lab"]
    assert names(file, "other") == ["all"]
    assert names(file, None) == ["all", "prod", "lab"]
    builder = Builder(config=file)
    assert builder.assembly("prod-1") is builder.assembly("echo") is not builder.assembly("other")
    assert [one.servers for one in builder.assembly("echo").remotes] == [None, ("prod-*", "echo")]


def test_a_server_that_cannot_be_read_refuses_those_in_its_scope_and_no_other(tmp_path: Path) -> None:
    secret = {"X-Key": "file:/no/such/file"}
    file = config(tmp_path, table("interceptor_servers.lab", url=NOBODY, headers=secret, servers=["lab"]))
    builder = Builder(config=file)
    with pytest.raises(ConfigError, match=r"interceptor_servers\.lab\.headers\.X-Key"):
        builder.assembly("lab")
    assert builder.assembly("echo").empty


def test_a_mount_that_only_serves_interceptors_has_none(tmp_path: Path) -> None:
    file = config(tmp_path, table("interceptor_servers.all", url=NOBODY))
    assert Builder(config=file, remotes=False).assembly().remotes == ()


def test_what_joins_is_told_without_contacting_anybody_and_without_secrets(tmp_path: Path) -> None:
    file = config(
        tmp_path,
        table("interceptor_servers.web", url=f"{NOBODY}?key=hush", mode="audit", priority=5, headers={"X-Key": "hush"}),
        table("interceptor_servers.web.interceptors.guard", timeout="2s"),
        table("interceptor_servers.own", command="guards", args=["--key=hush"], env={"KEY": "hush"}, prefix=False),
    )
    assembly = Builder(config=file).assembly("echo")
    assert not assembly.empty
    assert assembly.chain.entries == ()
    web, own = assembly.remotes
    assert (web.name, web.shown, web.prefix) == ("web", NOBODY, "web.")
    both = PhasePriorities(request=5, response=5)
    assert web.policy == InterceptorOverrides(mode="audit", priority_hint=both)
    assert web.overrides == {"guard": InterceptorOverrides(timeout_ms=2000)}
    assert (own.name, own.shown, own.prefix) == ("own", "guards", "")
    assert "hush" not in repr(assembly)


async def test_entries_stand_behind_those_of_plugins_in_the_order_of_the_file(tmp_path: Path) -> None:
    async with over_http(http_app()) as port:
        file = config(
            tmp_path,
            table("interceptor_servers.slow", **served_command(tmp_path)),
            table("interceptor_servers.fast", url=f"http://127.0.0.1:{port}/mcp"),
        )
        assembly = Builder(config=file, plugin_files=[GUARDS]).assembly("echo")
        async with assembly.running() as chain:
            own = ["no_rm", "no_sudo", "environment", "redact"]
            before = ("guards.", "slow.guards.", "fast.")
            assert [entry.name for entry in chain.entries] == [f"{one}{name}" for one in before for name in own]
            assert {entry.server for entry in chain.entries} == {None, "slow", "fast"}
    assert assembly.remotes


WAITS = """
import pathlib, time
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
def guard() -> None: ...

@hookimpl
def midspan_interceptors():
    return [guard]

here = pathlib.Path(__file__)
here.with_suffix(".up").touch()
until = time.monotonic() + 20
while not all(here.with_name(f"{name}.up").exists() for name in ("one", "two")) and time.monotonic() < until:
    time.sleep(0.01)
if time.monotonic() >= until:
    raise SystemExit(1)
"""


async def test_servers_are_contacted_side_by_side_also_those_of_several_chains(tmp_path: Path) -> None:
    tables: list[str] = []
    for name in ("one", "two"):
        plugin = tmp_path / f"{name}.py"
        plugin.write_text(WAITS)  # each is up only when the other has been started
        tables.append(table(f"interceptor_servers.{name}", servers=[name], **served_command(tmp_path, plugin)))
    builder = Builder(config=config(tmp_path, *tables))
    first, second = builder.assembly("one"), builder.assembly("two")
    with anyio.fail_after(60):
        async with Running() as running:
            await running.enter([first, second])
            assert [entry.name for entry in first.chain.entries] == ["one.one.guard"]
            assert [entry.name for entry in second.chain.entries] == ["two.two.guard"]


async def test_what_cannot_join_leaves_nothing_entered_and_can_be_tried_again(tmp_path: Path) -> None:
    tables = [table(f"interceptor_servers.{name}", url=NOBODY, servers=[name]) for name in ("one", "two")]
    builder = Builder(config=config(tmp_path, *tables))
    assemblies = [builder.assembly("one"), builder.assembly("two"), builder.assembly("other")]
    async with Running() as running:
        for _ in range(2):
            with pytest.raises(ProblemsError) as caught:
                await running.enter(assemblies)
            assert [one.message.partition("(")[0] for one in caught.value.problems] == [
                "interceptor server 'one' ",
                "interceptor server 'two' ",
            ]
        await running.enter(assemblies[2:])


async def test_after_one_that_cannot_join_the_others_can_be_entered_without_it(tmp_path: Path) -> None:
    file = config(
        tmp_path,
        table("interceptor_servers.good", servers=["good"], **served_command(tmp_path)),
        table("interceptor_servers.bad", servers=["bad"], url=NOBODY),
    )
    builder = Builder(config=file)
    good, bad = builder.assembly("good"), builder.assembly("bad")
    call: dict[str, Any] = {"event": "tools/call", "phase": "request", "payload": {"name": "rm -rf"}}
    async with Running() as running:
        with pytest.raises(InterceptorServerError):
            await running.enter([good, bad])
        await running.enter([good])
        assert len(good.chain.entries) == 4
        assert (await good.chain.execute(**call)).status == "validation_failed"
        assert len(processes(tmp_path)) == 2


async def test_a_server_that_is_away_when_its_chain_is_entered_again_is_named(tmp_path: Path) -> None:
    async with over_http(http_app()) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        assembly = Builder(config=config(tmp_path, table("interceptor_servers.central", url=url))).assembly("echo")
        async with assembly.running():
            pass
    with pytest.raises(InterceptorServerError, match=r"server 'central' \(http://.*/mcp\): cannot be reached"):
        async with assembly.running():
            pass


def test_the_mcp_sdk_is_imported_for_those_only_that_have_such_a_server(tmp_path: Path) -> None:
    file = config(tmp_path, table("interceptor_servers.lab", url=NOBODY, servers=["lab"]))
    program = f"""
import asyncio, sys
from pathlib import Path
from midspan.errors import InterceptorServerError
from midspan.plugins import Builder
builder = Builder(config=Path({str(file)!r}))
async def enter(name):
    async with builder.assembly(name).running():
        pass
asyncio.run(enter("other"))
assert "mcp" not in sys.modules
try:
    asyncio.run(enter("lab"))
except InterceptorServerError:
    assert "mcp" in sys.modules
    print("as expected")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "as expected\n"
