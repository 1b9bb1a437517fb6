"""Guards that are for some servers only."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest
from mcp import Client, MCPError

from tests.hostapp.cli.processes import INITIALIZE, midspan, mistake, running, serving, table
from tests.hostapp.relay.harness import request, server_command

pytestmark = pytest.mark.anyio

KEY = "AKIA" + "IOSFODNN7EXAMPLE"
GUARDS = """
[plugins.dev]
use = "policy"
enabled = true
servers = ["dev-*"]
config = { deny = ["drop_*"] }

[plugins.prod]
use = "policy"
enabled = true
servers = ["prod-*"]
config = { deny = ["drop_*", "write_*"] }

[plugins.lab]
use = "policy"
enabled = true
servers = ["lab-*"]
config = { denny = ["drop_*"] }

[plugins.secrets]
enabled = true
servers = ["dev-*", "prod-*"]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Three servers, of which one has a guard that cannot work."""
    return written(tmp_path, GUARDS)


def written(folder: Path, guards: str) -> Path:
    file = folder / "midspan.toml"
    tables = [table(name, server_command(folder / name)) for name in ("dev-a", "prod-a", "lab-a")]
    file.write_text(guards + "\n".join(tables))
    return file


def seen_by(server: Path) -> str:
    return server.read_text()


def call(tool: str, **arguments: str) -> bytes:
    return request(1, "tools/call", {"name": tool, "arguments": arguments})


async def test_each_server_is_guarded_by_what_is_for_it_and_a_broken_guard_stops_only_its_own(config: Path) -> None:
    async with serving("--config", str(config), endpoints=2) as served:
        assert served.paths == ["/servers/dev-a/mcp", "/servers/prod-a/mcp"]
        (refused,) = (line for line in served.lines if "lab-a" in line)
        says = f"{config}:18:12: plugins.lab.config.denny: unknown key; did you mean 'deny'?"
        assert refused.startswith("midspan: error: server 'lab-a' is not served: plugin 'policy' as 'lab' (midspan-pol")
        assert says in refused
        assert (await served.call("/servers/dev-a/mcp", call("write_file")))["result"] == {}
        denied = (await served.call("/servers/prod-a/mcp", call("write_file")))["result"]
        assert denied["isError"] is True
        assert denied["_meta"]["midspan/verdict"]["rule"] == "prod.call/deny[1]"
        assert (await served.call("/servers/dev-a/mcp", call("drop_table")))["result"]["isError"] is True
        url = served.urls[0].replace("dev-a", "lab-a")
        for mode in ("legacy", "auto"):
            with pytest.raises((MCPError, ExceptionGroup)) as caught:
                async with Client(url, mode=mode):
                    raise AssertionError("connected")
            told = "".join(traceback.format_exception(caught.value))
            assert "midspan: this server is not served: plugin 'policy' as 'lab'" in told
            assert says in told


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    """`secrets` twice, once with its mutator in audit."""
    text = GUARDS.replace('[plugins.secrets]\nenabled = true\nservers = ["dev-*", "prod-*"]', "")
    for name, mode in (("dev", "audit"), ("prod", "active")):
        text += f'[plugins.secrets-{name}]\nuse = "secrets"\nenabled = true\nservers = ["{name}-*"]\n'
        text += f'[plugins.secrets-{name}.interceptors.redact]\nmode = "{mode}"\n'
    return written(tmp_path, text)


async def test_one_interceptor_can_be_in_audit_for_some_servers(audited: Path, tmp_path: Path) -> None:
    config = audited
    async with serving("--config", str(config), endpoints=2) as served:
        for name in ("dev-a", "prod-a"):
            assert (await served.call(f"/servers/{name}/mcp", call("read", text=KEY)))["result"] == {}
    assert KEY in seen_by(tmp_path / "dev-a")
    assert KEY not in seen_by(tmp_path / "prod-a")


async def test_run_imports_only_what_is_for_its_server(config: Path) -> None:
    async with running("--config", str(config), "--server", "prod-a") as client:
        assert (await client.call(call("write_file")))["result"]["isError"] is True
    async with running("--config", str(config), "--server", "dev-a") as client:
        assert (await client.call(call("write_file")))["result"] == {}


async def test_run_does_not_start_a_server_with_a_broken_guard_and_tells_the_client(config: Path) -> None:
    line, answer = await mistake(
        "run", "--config", str(config), "--server", "lab-a", client=request(1, "initialize", INITIALIZE) + b"\n"
    )
    assert line.startswith(f"plugin 'policy' as 'lab' (midspan-policy 0.1.0): {config}:18:12: plugins.lab.config.denny")
    assert json.loads(answer)["error"]["message"] == f"midspan: {line}"


async def test_serve_does_not_start_when_no_server_is_left(config: Path) -> None:
    line, _ = await mistake("serve", "--port", "0", "--config", str(config), "--server", "lab-a")
    assert line.startswith("plugin 'policy' as 'lab'")


async def test_a_server_of_the_command_line_has_a_name_that_scopes_are_held_against(
    config: Path, tmp_path: Path
) -> None:
    command = server_command(tmp_path / "log")
    async with running("--config", str(config), "--name", "prod-x", "--", *command) as client:
        assert (await client.call(call("write_file")))["result"]["isError"] is True


async def test_guards_that_are_not_for_a_server_without_a_name_are_told(config: Path, tmp_path: Path) -> None:
    command = server_command(tmp_path / "log")
    name = Path(command[0]).name
    async with midspan("run", "--config", str(config), "--", *command) as process:
        _, err = await process.communicate(b"")
    says = "midspan: warning: [plugins.dev], [plugins.prod], [plugins.lab], [plugins.secrets]: not for a server called "
    assert f"{says}{name!r}; if it should be, name the server with --name or --server" in err.decode()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--name", "x", "--server", "dev-a"], "--name belongs to a command behind --, or to --url"),
        (["--name", "", "--", "true"], "--name must be a name"),
    ],
)
async def test_a_name_that_cannot_be_given_is_refused(arguments: list[str], says: str, config: Path) -> None:
    line, _ = await mistake("run", "--config", str(config), *arguments)
    assert line.startswith(says)


UNENTERABLE = """
from contextlib import asynccontextmanager
from midspan_sdk import hookimpl


@hookimpl
@asynccontextmanager
async def midspan_lifespan(instance):
    raise ConnectionError("no route")
    yield
"""


@pytest.mark.parametrize("broken", ["a lifespan", "an interceptor server"])
async def test_what_fails_when_it_is_entered_stops_only_its_own_servers(broken: str, tmp_path: Path) -> None:
    plugin = written_plugin(tmp_path)
    guards = '[plugins.lost]\nenabled = true\nservers = ["lab-*"]\n'
    options = ["--plugin-file", str(plugin)]
    if broken != "a lifespan":
        guards = '[interceptor_servers.lost]\nurl = "http://127.0.0.1:9/mcp"\nservers = ["lab-*"]\n'
        options = []
    config = written(tmp_path, guards + GUARDS[: GUARDS.index("[plugins.lab]")])
    async with serving("--config", str(config), *options, endpoints=2) as served:
        assert served.paths == ["/servers/dev-a/mcp", "/servers/prod-a/mcp"]
        (refused,) = (line for line in served.lines if "lab-a" in line)
        assert refused.startswith("midspan: error: server 'lab-a' is not served: ")
        assert ("no route" if broken == "a lifespan" else "cannot be reached") in refused
        assert (await served.call("/servers/dev-a/mcp", call("write_file")))["result"] == {}
        with pytest.raises(AssertionError, match="this server is not served"):
            await served.call("/servers/lab-a/mcp", call("write_file"))


def written_plugin(folder: Path) -> Path:
    path = folder / "lost.py"
    path.write_text(UNENTERABLE)
    return path
