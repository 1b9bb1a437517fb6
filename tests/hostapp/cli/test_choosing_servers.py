"""Which server `midspan run` and `midspan serve` guard: real processes, and the lines of what cannot be."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan.cli._group import invoke
from tests.hostapp.http.wire import Answer, Connection, raw_server, result
from tests.hostapp.relay.harness import request, send, server_command

pytestmark = pytest.mark.anyio

PATIENCE = 30.0
INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}
WantsConfig = Callable[[str], Path]


@pytest.fixture
def config(tmp_path: Path) -> WantsConfig:
    """Write a config file and return its path."""

    def write(text: str) -> Path:
        file = tmp_path / "midspan.toml"
        file.write_text(text, "utf-8")
        return file

    return write


def table(name: str, command: Sequence[str], more: str = "") -> str:
    """Return the table of a server that is started."""
    return f"[servers.{name}]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(list(command[1:]))}\n{more}\n"


@asynccontextmanager
async def midspan(*arguments: str, **variables: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start a command, and leave nothing of it behind."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "midspan", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **variables},
    )
    try:
        with anyio.fail_after(PATIENCE):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        await process.communicate()


class Client:
    """Talks to `midspan run`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout

    async def call(self, line: bytes) -> dict[str, Any]:
        """Send a request and return the next message."""
        self._to.write(line + b"\n")
        return json.loads(await self._from.readline())


@asynccontextmanager
async def running(*arguments: str, **variables: str) -> AsyncGenerator[Client]:
    """Run `midspan run`, and see it end well after its client."""
    async with midspan("run", *arguments, **variables) as process:
        yield Client(process)
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0


async def mistake(*arguments: str, client: bytes = b"", **variables: str) -> tuple[str, bytes]:
    """Run a command that is the operator's mistake; return its one line, and what the client got."""
    async with midspan(*arguments, **variables) as process:
        out, err = await process.communicate(client)
        assert process.returncode == 2, err
        (line,) = (line for line in err.decode().splitlines() if "relay only" not in line)
        return line.removeprefix("midspan: error: "), out


async def echo(answer: Answer) -> None:
    """Answer every request with the headers that came, and take all else."""
    message = answer.request.json()
    if answer.request.method != "POST":
        await answer.send(status="405 Method Not Allowed")
    elif "id" not in message:
        await answer.send(status="202 Accepted")
    else:
        await answer.send(result(message["id"], dict(answer.request.fields)))


# midspan run


async def test_run_reaches_a_url_with_headers_whose_variables_are_the_environment_s() -> None:
    headers = ("--header", "Authorization: Bearer ${TOKEN}", "--header", "X-Team: ${TEAM:-core}: a")
    async with raw_server(echo) as (url, _), running("--url", url, *headers, TOKEN="t0ken") as client:
        seen = (await client.call(request(1, "ping")))["result"]
        assert (seen["authorization"], seen["x-team"]) == ("Bearer t0ken", "core: a")
        assert seen["content-type"] == "application/json"


async def test_run_reaches_a_url_that_speaks_sse() -> None:
    streams: list[Answer] = []

    async def sse(answer: Answer) -> None:
        if answer.request.method == "GET":
            streams.append(answer)
            await answer.stream(b"event: endpoint\ndata: /post?s=1\n\n", end=False)
            await answer.gone()
            return
        assert answer.request.target == "/post?s=1"
        await answer.send(status="202 Accepted")
        said = result(answer.request.json()["id"], dict(answer.request.fields))
        await streams[0].write(b"event: message\ndata: " + said + b"\n\n")

    options = ("--transport", "sse", "--header", "X-Api-Key: k")
    async with raw_server(sse) as (url, _), running("--url", url, *options) as client:
        assert (await client.call(request(1, "ping")))["result"]["x-api-key"] == "k"
        assert dict(streams[0].request.fields)["x-api-key"] == "k"


async def test_a_variable_that_is_not_set_is_told_on_stderr_and_to_the_client() -> None:
    says = "--header Authorization: needs the environment variable NO_SUCH_TOKEN, which is not set; set it, or write "
    says += "${NO_SUCH_TOKEN:-default}"
    arguments = ("run", "--url", "http://localhost:1/mcp", "--header", "Authorization: Bearer ${NO_SUCH_TOKEN}")
    line, answer = await mistake(*arguments, client=request(1, "initialize", INITIALIZE) + b"\n")
    assert line == says
    assert json.loads(answer) == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": f"midspan: {says}"}}


async def test_run_starts_a_server_of_the_config_with_its_environment_and_folder(
    config: WantsConfig, tmp_path: Path
) -> None:
    command = server_command(tmp_path / "log")
    more = f'cwd = "{tmp_path}"\nenv = {{ TOKEN = "${{SECRET}} of ${{NAME:-nobody}}" }}'
    file = config(table("files", command, more))
    async with running("--config", str(file), "--server", "files", SECRET="s3cr3t") as client:
        await client.call(request(1, "go", None, ("tell", str(tmp_path / "self")), send(result(1, {}))))
    server = json.loads((tmp_path / "self").read_text())
    assert server["cwd"] == str(tmp_path)
    assert server["environment"]["TOKEN"] == "s3cr3t of nobody"
    assert server["environment"]["SECRET"] == "s3cr3t"  # it is added to what midspan has


async def test_run_starts_a_server_of_the_config_anew_when_its_table_says_so(
    config: WantsConfig, tmp_path: Path
) -> None:
    file = config(table("files", server_command(tmp_path / "log"), 'restart = "on-failure"'))
    async with running("--config", str(file), "--server", "files") as client:
        lost = await client.call(request(1, "go", None, ("exit", 3)))
        assert lost["error"] == {"code": -32000, "message": "midspan: the server ended before it answered"}
        assert (await client.call(request(2, "ping")))["result"] == {}


async def test_run_starts_a_command_anew_when_an_option_says_so(tmp_path: Path) -> None:
    command = server_command(tmp_path / "log")
    async with running("--restart", "on-failure", "--", *command) as client:
        await client.call(request(1, "go", None, ("exit", 3)))
        assert (await client.call(request(2, "ping")))["result"] == {}


async def test_run_reaches_a_url_of_the_config_with_its_headers(config: WantsConfig, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    async with raw_server(echo) as (url, _):
        headers = f'{{ Authorization = "Bearer ${{TOKEN}}", X-Api-Key = "file:{tmp_path / "key"}" }}'
        file = config(f'[servers.search]\nurl = "{url}"\nheaders = {headers}\n')
        async with running("--config", str(file), "--server", "search", TOKEN="t0ken") as client:
            seen = (await client.call(request(1, "ping")))["result"]
            assert (seen["authorization"], seen["x-api-key"]) == ("Bearer t0ken", "from a file")


# midspan serve


class Served:
    """A running `midspan serve`."""

    def __init__(self, process: asyncio.subprocess.Process, lines: list[str]) -> None:
        self.process = process
        self.urls = [line.removeprefix("midspan: serving ") for line in lines if "serving" in line]
        self.lines = lines
        self._open: list[Connection] = []

    @property
    def paths(self) -> list[str]:
        """The paths of its endpoints."""
        return ["/" + url.split("/", 3)[3] for url in self.urls]

    async def call(self, path: str, line: bytes, **fields: str) -> Any:
        """Post a request in a session of its own and return the answer."""
        authority = self.urls[0].split("/")[2]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(":")[2]))
        connection = Connection(reader, writer, authority)
        try:
            begun = await connection.send("POST", request(0, "initialize", INITIALIZE), path=path)
            assert begun.status == 200, begun
            session = begun.header("mcp-session-id")
            own = [(name.replace("_", "-"), value) for name, value in fields.items()]
            own += [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
            own += [("mcp-session-id", session)] if session else []
            return (await connection.send("POST", line, own, path=path)).json()
        finally:
            writer.close()


@asynccontextmanager
async def serving(*arguments: str, endpoints: int = 1, **variables: str) -> AsyncGenerator[Served]:
    """Run `midspan serve`, and see it end well after SIGTERM."""
    async with midspan("serve", "--port", "0", *arguments, **variables) as process:
        assert process.stderr is not None
        lines: list[str] = []
        while sum("serving" in line for line in lines) < endpoints:
            line = (await process.stderr.readline()).decode().rstrip()
            assert line, lines
            lines.append(line)
        yield Served(process, lines)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_serve_starts_a_command_for_each_session(tmp_path: Path) -> None:
    async with serving("--", *server_command(tmp_path / "log")) as served:
        assert served.paths == ["/mcp"]
        pids: set[int] = set()
        for name in ("one", "two"):
            tell = ("tell", str(tmp_path / name))
            assert (await served.call("/mcp", request(1, "go", None, tell, send(result(1, {})))))["result"] == {}
            pids.add(json.loads((tmp_path / name).read_text())["pid"])
        assert len(pids) == 2


async def test_serve_serves_all_servers_of_the_config_each_at_its_path(config: WantsConfig, tmp_path: Path) -> None:
    async with raw_server(echo) as (url, _):
        text = table("files", server_command(tmp_path / "log"), 'env = { WHICH = "files" }')
        file = config(f'{text}[servers.search]\nurl = "{url}"\nheaders = {{ X-Api-Key = "k" }}\n')
        async with serving("--config", str(file), endpoints=2) as served:
            assert served.paths == ["/servers/files/mcp", "/servers/search/mcp"]
            go = request(1, "go", None, ("tell", str(tmp_path / "self")), send(result(1, {})))
            assert (await served.call("/servers/files/mcp", go))["result"] == {}
            assert json.loads((tmp_path / "self").read_text())["environment"]["WHICH"] == "files"
            seen = await served.call("/servers/search/mcp", request(1, "ping"), authorization="Bearer client")
            assert (seen["result"]["x-api-key"], seen["result"]["authorization"]) == ("k", "Bearer client")
            with pytest.raises(AssertionError, match="404"):
                await served.call("/mcp", request(1, "ping"))


@pytest.mark.parametrize(
    ("options", "paths"), [([], ["/mcp", "/servers/files/mcp"]), (["--server", "files"], ["/mcp"])], ids=["all", "one"]
)
async def test_a_single_server_is_at_mcp_too(
    config: WantsConfig, tmp_path: Path, options: list[str], paths: list[str]
) -> None:
    file = config(table("files", server_command(tmp_path / "log")))
    async with serving("--config", str(file), *options, endpoints=len(paths)) as served:
        assert served.paths == paths
        for path in paths:
            assert (await served.call(path, request(1, "ping")))["result"] == {}


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (
            '[servers.a]\ncommand = "sh"\n\n[servers.b]\nurl = "http://localhost/mcp"\n'
            'headers = { Authorization = "Bearer ${NO_SUCH_TOKEN}" }\n',
            "6:13: servers.b.headers.Authorization: needs the environment variable NO_SUCH_TOKEN, which is not set; "
            "set it, or write ${NO_SUCH_TOKEN:-default}",
        ),
        (
            '[servers.a]\ncommand = "sh"\nenv = { TOKEN = "file:/no/such/file" }\n',
            "3:9: servers.a.env.TOKEN: the file that it names cannot be read: No such file or directory",
        ),
        (
            '[servers.a]\ncommand = "sh"\n\n[servers.b]\ncommand = "no-such-server"\n',
            "5:1: servers.b.command: cannot start 'no-such-server': not found; install it or give its full path",
        ),
        (
            '[servers.a]\ncommand = "sh"\ncwd = "/no/such/folder"\n',
            "2:1: servers.a.command: cannot start 'sh': its working directory is not there: /no/such/folder",
        ),
    ],
)
async def test_serve_does_not_start_with_a_server_that_cannot_be(config: WantsConfig, tables: str, says: str) -> None:
    file = config(tables)
    line, _ = await mistake("serve", "--port", "0", "--config", str(file))
    assert line == f"{file}:{says}"


# Mistakes


@pytest.mark.parametrize("command", ["run", "serve"])
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--url", "http://h/mcp", "--", "npx"],
            "name one server: a command behind --, --url, or --server",
        ),
        (["--server", "files", "--", "npx"], "name one server: a command behind --, --url, or --server"),
        (["--server", "files", "--url", "http://h/mcp"], "name one server: a command behind --, --url, or --server"),
        (["--header", "A: b", "--", "npx"], "--header belongs to --url"),
        (["--transport", "sse", "--", "npx"], "--transport belongs to --url"),
        (
            ["--header", "A: b", "--server", "files"],
            "--header belongs to --url; for servers of the config, write it into the server's table",
        ),
        (
            ["--transport", "http"],
            "--transport belongs to --url; for servers of the config, write it into the server's table",
        ),
        (
            ["--restart", "always", "--server", "files"],
            "--restart belongs to a command behind --; for servers of the config, write it into the server's table",
        ),
        (["--restart", "always", "--url", "http://h/mcp"], "--restart belongs to a command behind --"),
        (
            ["--url", "npx server --token secret"],
            "--url: give the URL of the server, like http://localhost:8000/mcp; a command goes behind --",
        ),
        (
            ["--url", "http://h/mcp", "--header", "secret"],
            "--header wants 'NAME: VALUE', such as 'Authorization: Bearer ${TOKEN}'",
        ),
        (
            ["--url", "http://h/mcp", "--header", "A: secret", "--header", "a: secret"],
            "--header has one header twice, as 'A' and as 'a'; case makes no difference",
        ),
        (
            ["--url", "http://h/mcp", "--header", "A: 1", "--header", "A: 2"],
            "--header has one header twice, as 'A' and as 'A'; case makes no difference",
        ),
        (
            ["--url", "http://h/mcp", "--header", "Host: x"],
            "--header has the header 'Host', which the connection makes itself; leave it out",
        ),
        (
            ["--url", "http://h/mcp", "--header", "A: $secret"],
            "--header A: must have {NAME} or {NAME:-default} behind a `$`; write `$$` for the character itself",
        ),
        (
            ["--url", "http://h/mcp", "--header", "A: b\nc: d"],
            "--header A: must not have a line break or NUL character in it",
        ),
        (
            ["--server", "files"],
            "there is no server 'files'; there is no config file: write one, name it with --config",
        ),
        (
            ["--", "no-such-server", "--option"],
            "cannot start 'no-such-server': not found; install it or give its full path",
        ),
    ],
)
async def test_what_does_not_go_together_is_one_line(command: str, arguments: list[str], line: str) -> None:
    assert (await mistake(command, *arguments))[0] == line


async def test_no_server_at_all_is_one_line() -> None:
    assert await mistake("run") == ("no server: give its command behind --, or --url, or --server", b"")
    line, _ = await mistake("serve")
    assert line == "no server: give its command behind --, or --url, or add a table [servers.NAME] to the config"


@pytest.mark.parametrize("command", ["run", "serve"])
async def test_a_server_that_the_config_does_not_have_is_told_with_the_nearest_name(
    config: WantsConfig, command: str
) -> None:
    file = config('[servers.files]\ncommand = "npx"\n')
    line, _ = await mistake(command, "--config", str(file), "--server", "fils")
    assert line == f"{file}: there is no server 'fils'; did you mean 'files'?"


async def test_a_command_that_cannot_be_started_is_told_to_the_client() -> None:
    line, answer = await mistake("run", "--", "no-such-server", client=request(1, "initialize", INITIALIZE) + b"\n")
    assert json.loads(answer)["error"]["message"] == f"midspan: {line}"


# Help


@pytest.mark.parametrize("command", ["run", "serve"])
def test_the_help_says_what_every_option_does_in_lines_of_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith(f"Usage: midspan {command} [OPTIONS] [-- COMMAND [ARGS]...]\n")
    options = re.findall(r"^  (--[a-z-]+)(?: \S.*)?$", text, re.MULTILINE)
    assert options[:6] == ["--url", "--transport", "--header", "--server", "--name", "--restart"]
