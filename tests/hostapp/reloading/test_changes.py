"""What a changed config does to what runs, and what it leaves as it was. Real processes, real files."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.hostapp.cli.processes import INITIALIZE, Client, Served, midspan, serving, table
from tests.hostapp.relay.harness import request, server_command
from tests.hostapp.reloading.logs import log_line, log_lines

pytestmark = pytest.mark.anyio

READ_AGAIN = "was read again"
NOT_APPLIED = "is not applied"
DENYING = "[plugins.policy]\nenabled = true\nconfig = {{ deny = [{}] }}\n"

LIVING = """
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import BaseModel
from midspan_sdk import hookimpl, validator


class Config(BaseModel):
    log: Path
    word: str = "rm"


@validator(events=["tools/call"], phase="request")
def check(payload, config, lifespan):
    return f"{config.word} {lifespan}" if config.word in payload["name"] else None


@hookimpl
def midspan_config():
    return Config


@hookimpl
@asynccontextmanager
async def midspan_lifespan(config, instance):
    number = len(config.log.read_text().splitlines()) if config.log.exists() else 0
    with config.log.open("a") as log:
        print(f"enter {config.word}", file=log)
    yield number
    with config.log.open("a") as log:
        print(f"leave {config.word}", file=log)


@hookimpl
def midspan_interceptors():
    return [check]
"""

Write = Callable[[str], None]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The config file."""
    return tmp_path / "midspan.toml"


def call(tool: str, number: int = 1) -> bytes:
    return request(number, "tools/call", {"name": tool, "arguments": {}})


@asynccontextmanager
async def guarded(tmp_path: Path, *arguments: str, **variables: str) -> AsyncGenerator[Client]:
    """Run `midspan run` in front of a raw server; the client has begun its session."""
    command = ("--", *server_command(tmp_path / "server.log"))
    async with midspan("run", *arguments, *command, **variables) as process:
        client = Client(process)
        assert (await client.call(request(0, "initialize", INITIALIZE)))["result"] == {}
        yield client


def denied(answer: dict[str, object]) -> bool:
    result = answer["result"]
    assert isinstance(result, dict)
    return "isError" in result


async def test_run_goes_over_to_a_changed_file_and_back(file: Path, tmp_path: Path) -> None:
    file.write_text(DENYING.format('"drop"'))  # noqa: ASYNC240 - before anything runs
    async with guarded(tmp_path, "--config", str(file)) as client:
        assert denied(await client.call(call("drop")))
        await anyio.Path(file).write_text(DENYING.format('"write"'))
        assert await log_line(client.process, READ_AGAIN) == (
            "midspan: the config was read again: python: config of policy"
        )
        assert not denied(await client.call(call("drop")))
        assert denied(await client.call(call("write")))
        await anyio.Path(file).write_text("# no guard any more\n")
        assert "-policy.call -policy.listing" in await log_line(client.process, READ_AGAIN)
        assert not denied(await client.call(call("write")))
        await anyio.Path(file).write_text(DENYING.format('"write"'))
        assert "+policy.call +policy.listing" in await log_line(client.process, READ_AGAIN)
        assert denied(await client.call(call("write")))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("[plugins.policy\n", "midspan.toml:1:"),
        (
            "[plugins.policy]\nenabled = true\nmod = 1\nconfig = 2\n",
            "midspan.toml:3:1: plugins.policy.mod: unknown key",
        ),
        ("[plugins.policy]\nenabled = true\nconfig = { deni = [] }\n", "plugins.policy.config.deni: unknown key; did "),
        ("[plugins.nothing]\nenabled = true\n", "no installed plugin has this id"),
        ("   \n", "midspan.toml: is empty; to apply it nevertheless, send SIGHUP"),
    ],
)
async def test_a_bad_file_changes_nothing_and_says_why(bad: str, says: str, file: Path, tmp_path: Path) -> None:
    file.write_text(DENYING.format('"drop"'))  # noqa: ASYNC240 - before anything runs
    async with guarded(tmp_path, "--config", str(file)) as client:
        await anyio.Path(file).write_text(bad)
        lines = await log_lines(client.process, NOT_APPLIED)
        assert says in lines[0]
        assert lines[0].startswith("midspan: error: ")
        assert denied(await client.call(call("drop")))
        await anyio.Path(file).write_text(DENYING.format('"write"'))
        await log_line(client.process, READ_AGAIN)
        assert denied(await client.call(call("write")))


async def test_sighup_reads_again_what_the_file_refers_to(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "word"
    secret.write_text("drop")
    file.write_text(DENYING.format(f'"file:{secret}"'))  # noqa: ASYNC240 - before anything runs
    async with guarded(tmp_path, "--config", str(file)) as client:
        assert denied(await client.call(call("drop")))
        # In the same folder, so it is noticed; but no file of the config is another one.
        await anyio.Path(secret).write_text("write")
        client.process.send_signal(signal.SIGHUP)
        assert "config of policy" in await log_line(client.process, READ_AGAIN)
        assert not denied(await client.call(call("drop")))
        assert denied(await client.call(call("write")))


async def test_a_lifespan_is_kept_while_its_config_is_the_same_and_left_when_it_is_not(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "living.py").write_text(LIVING)
    log = tmp_path / "living.log"
    table = f'[plugins.living]\nenabled = true\n{{}}\n[plugins.living.config]\nlog = "{log}"\n{{}}\n'
    file.write_text(table.format("", ""))  # noqa: ASYNC240 - before anything runs
    options = ("--config", str(file), "--plugin-file", str(tmp_path / "living.py"))
    async with guarded(tmp_path, *options) as client:
        await anyio.Path(file).write_text(table.format('mode = "audit"', ""))
        assert "~living.check" in await log_line(client.process, READ_AGAIN)
        assert not denied(await client.call(call("rm")))
        assert await anyio.Path(log).read_text() == "enter rm\n"
        await anyio.Path(file).write_text(table.format("", 'word = "drop"'))
        await log_line(client.process, READ_AGAIN)
        assert denied(await client.call(call("drop")))
        await anyio.Path(file).write_text(table.format("", 'word = "rm"'))
        await log_line(client.process, READ_AGAIN)
        assert denied(await client.call(call("rm")))
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert await client.process.wait() == 0
    words = (await anyio.Path(log).read_text()).splitlines()
    assert sorted(words) == sorted(["enter rm", "enter drop", "leave rm", "enter rm", "leave drop", "leave rm"])
    assert words[:2] == ["enter rm", "enter drop"]


async def test_a_file_that_an_include_brings_in_is_noticed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    file.write_text('include = ["conf.d/*.toml"]\n')  # noqa: ASYNC240 - before anything runs
    async with guarded(tmp_path, "--config", str(file)) as client:
        assert not denied(await client.call(call("drop")))
        await anyio.Path(tmp_path / "conf.d" / "policy.toml").write_text(DENYING.format('"drop"'))
        await log_line(client.process, READ_AGAIN)
        assert denied(await client.call(call("drop")))


async def test_serve_follows_the_servers_of_the_file(file: Path, tmp_path: Path) -> None:
    def servers(*names: str, more: str = "") -> str:
        return more + "\n".join(table(name, server_command(tmp_path / f"{name}.log")) for name in names)

    async def serves(served: Served, name: str) -> bool:
        return await served.status(f"/servers/{name}/mcp") == 200

    file.write_text(servers("a", "b"))  # noqa: ASYNC240 - before anything runs
    async with serving("--config", str(file), endpoints=2) as served:
        assert [await serves(served, name) for name in "abc"] == [True, True, False]
        await anyio.Path(file).write_text(servers("b", "c"))
        line = await log_line(served.process, READ_AGAIN)
        assert "c: served, with 0 interceptors" in line
        assert "a: not served any more" in line
        assert [await serves(served, name) for name in "abc"] == [False, True, True]
        lab = '[plugins.policy]\nenabled = true\nservers = ["d"]\nconfig = { x = 1 }\n'
        await anyio.Path(file).write_text(servers("b", "c", "d", more=lab))
        assert "server 'd' is not served: plugin 'policy'" in (await log_lines(served.process, READ_AGAIN))[0]
        with pytest.raises(AssertionError, match="this server is not served: plugin"):
            await served.call("/servers/d/mcp", request(1, "ping"))
        await anyio.Path(file).write_text(servers("b", "c", "d", more=lab.replace("x = 1", "y = 1")))
        await log_line(served.process, READ_AGAIN)
        with pytest.raises(AssertionError, match=r"policy\.config\.y"):
            await served.call("/servers/d/mcp", request(1, "ping"))
        await anyio.Path(file).write_text(servers("b", "c", "d"))
        assert "d: served, with 0 interceptors" in await log_line(served.process, READ_AGAIN)
        assert await serves(served, "d")
        await anyio.Path(file).write_text(servers("b", "c", "d", more=lab.replace('"d"', '"b"')))
        assert "plugins.policy.config.x" in (await log_lines(served.process, NOT_APPLIED))[0]
        assert [await serves(served, name) for name in "bc"] == [True, True]


async def test_a_client_s_path_stays_when_a_second_server_joins(file: Path, tmp_path: Path) -> None:
    file.write_text(table("a", server_command(tmp_path / "a.log")))  # noqa: ASYNC240 - before anything runs
    async with serving("--config", str(file), endpoints=2) as served:
        assert served.paths == ["/mcp", "/servers/a/mcp"]
        both = [table(name, server_command(tmp_path / f"{name}.log")) for name in "ba"]
        await anyio.Path(file).write_text("\n".join(both))
        await log_line(served.process, READ_AGAIN)
        assert (await served.call("/mcp", request(1, "ping")))["result"] == {}
        assert await anyio.Path(tmp_path / "a.log").exists()
        assert not await anyio.Path(tmp_path / "b.log").exists()


async def test_what_is_locked_stays_locked_while_it_runs(file: Path, tmp_path: Path) -> None:
    file.write_text(DENYING.format('"drop"'))  # noqa: ASYNC240 - before anything runs
    async with midspan("plugins", "lock", "--config", str(file)) as process:
        assert await process.wait() == 0
    async with guarded(tmp_path, "--config", str(file), "--locked") as client:
        await anyio.Path(file).write_text(DENYING.format('"drop"') + 'timeout = "3s"\n')
        lines = await log_lines(client.process, NOT_APPLIED)
        assert "--locked: policy.call (midspan-policy 0.1.0): timeout_ms: expected 1000, found 3000" in lines[0]
        assert denied(await client.call(call("drop")))
        # The config of a plugin is the operator's own, and not what is locked.
        await anyio.Path(file).write_text(DENYING.format('"write"'))
        await log_line(client.process, READ_AGAIN)
        assert denied(await client.call(call("write")))
