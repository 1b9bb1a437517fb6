"""`midspan serve`: the address it prints, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from tests.patience import PATIENCE

from .wire import Answer, Connection, call, raw_server, read_head, result

pytestmark = pytest.mark.anyio

DENIES = """
from typing import Any
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
def nothing(payload: dict[str, Any]) -> str:
    return "nothing runs"

@hookimpl
def midspan_interceptors() -> list[Any]:
    return [nothing]
"""


class Process:
    """A running `midspan serve`."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, lines: list[str]) -> None:
        self.process = process
        self.port = port
        self.lines = lines
        self._connections: list[Connection] = []

    async def connect(self) -> Connection:
        """Connect to it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        connection = Connection(reader, writer, f"localhost:{self.port}")
        self._connections.append(connection)
        return connection

    def close_all(self) -> None:
        """Close all connections to it."""
        for connection in self._connections:
            connection.writer.close()

    async def stop(self, number: int) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return await self.process.wait()


async def start(*arguments: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "midspan", "serve", *arguments]
    return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)


@asynccontextmanager
async def serving(*arguments: str) -> AsyncGenerator[Process]:
    with anyio.fail_after(PATIENCE):
        process = await start("--port", "0", *arguments)
        assert process.stderr is not None
        lines: list[str] = []
        try:
            while not (lines and lines[-1].startswith("midspan: serving ")):
                line = (await process.stderr.readline()).decode().rstrip()
                assert line, lines
                lines.append(line)
            served = Process(process, int(lines[-1].rpartition(":")[2].removesuffix("/mcp")), lines)
            try:
                yield served
            finally:
                served.close_all()
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def echo(answer: Answer) -> None:
    if answer.request.method == "GET":
        await answer.stream(b": here\n\n", end=False)
        await answer.gone()
        return
    await answer.send(result(answer.request.json()["id"], {}))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_says_where_it_serves_and_a_signal_stops_it_cleanly(number: signal.Signals) -> None:
    async with raw_server(echo) as (url, _), serving("--url", url) as served:
        assert served.lines[0] == "midspan: relay only, no interceptor is enabled"
        assert served.lines[1] == f"midspan: serving http://127.0.0.1:{served.port}/mcp"
        connection = await served.connect()
        assert (await connection.post(call(1))).json()["result"] == {}
        stream = await served.connect()
        await stream.start("GET", fields=[])
        await read_head(stream.reader)
        with anyio.fail_after(2):  # an open stream does not hold it up
            assert await served.stop(number) == 0
        assert served.process.stderr is not None
        assert await served.process.stderr.read() == b""


async def test_a_plugin_file_decides(tmp_path: Path) -> None:
    plugin = tmp_path / "denies.py"
    plugin.write_text(DENIES)
    async with raw_server(echo) as (url, seen), serving("--url", url, "--plugin-file", str(plugin)) as served:
        assert len(served.lines) == 1
        response = await (await served.connect()).post(call(1))
        assert response.json()["result"]["isError"] is True
        assert seen == []


def status_of(pid: int) -> dict[str, int]:
    """Return the numbers in what the kernel says of a process; sizes in KiB."""
    fields = ((line + " -").split()[:2] for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name.removesuffix(":"): int(value) for name, value in fields if value.isdigit()}


async def test_idle_it_uses_no_time_and_little_memory() -> None:
    async with raw_server(echo) as (url, _), serving("--url", url) as served:
        await (await served.connect()).post(call(1))
        stream = await served.connect()
        await stream.start("GET", fields=[])
        await read_head(stream.reader)
        await anyio.sleep(0.3)

        before = status_of(served.process.pid)
        await anyio.sleep(1.0)  # what is measured is a time in which nothing happens
        after = status_of(served.process.pid)
        assert after["voluntary_ctxt_switches"] - before["voluntary_ctxt_switches"] <= 3
        assert after["VmRSS"] < 90_000


async def test_it_does_not_import_the_mcp_sdk() -> None:
    script = """
import sys
from midspan.cli import main
import midspan.http, midspan.http._serving, midspan.gateway, midspan.plugins._assembly
assert not [name for name in sys.modules if name.split(".")[0] in ("mcp", "mcp_types")]
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await process.wait() == 0


async def test_the_stdio_gateway_does_not_import_http() -> None:
    script = """
import sys
import midspan, midspan.cli.run, midspan.plugins._assembly, midspan.interception, midspan.relay
assert not {name.split(".")[0] for name in sys.modules} & {"aiohttp", "uvicorn", "httptools", "yarl"}
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await process.wait() == 0


async def refused(*arguments: str) -> str:
    """Run it, expect that it is the operator's mistake, and return the line."""
    with anyio.fail_after(PATIENCE):
        process = await start(*arguments)
        _, err = await process.communicate()
    lines = [line for line in err.decode().splitlines() if "relay only" not in line]
    assert process.returncode == 2, err
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--url", "http://127.0.0.1:1/mcp", "--port", "0", "--host", "0.0.0.0"], "add --insecure"),
        (["--url", "http://127.0.0.1:1/mcp", "--port", "0", "--host", "::"], "add --insecure"),
        (["--url", "ftp://x/mcp"], "give the URL of the server"),
        (["--url", "localhost:8000/mcp"], "give the URL of the server"),
        (["--url", "http://user:secret@localhost/mcp"], "credentials in the URL"),
        (["--url", "http://localhost/mcp", "--port", "70000"], "70000"),
        (["--url", "http://localhost/mcp", "--host", "no.such.name.invalid"], "cannot listen on no.such.name.invalid"),
        ([], "--url"),
    ],
)
async def test_what_cannot_be_done_is_one_line_and_exit_code_2(arguments: Sequence[str], says: str) -> None:
    line = await refused(*arguments)
    assert says in line
    assert "secret" not in line


async def test_a_port_that_is_taken_is_one_line_and_exit_code_2() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = await refused("--url", "http://localhost:1/mcp", "--port", str(port))
    assert "choose another --port" in line


async def test_with_insecure_it_serves_every_address_but_no_made_up_name() -> None:
    async with raw_server(echo) as (url, _), serving("--url", url, "--host", "0.0.0.0", "--insecure") as served:
        assert served.lines[-1] == f"midspan: serving http://0.0.0.0:{served.port}/mcp"
        connection = await served.connect()
        assert (await connection.send("POST", call(1), host=f"10.1.2.3:{served.port}")).status == 200
        assert (await connection.send("POST", call(1), host="evil.example")).status == 421


async def test_hosts_and_origins_can_be_allowed() -> None:
    options = ["--allow-host", "api.example", "--allow-origin", "https://app.example"]
    async with raw_server(echo) as (url, _), serving("--url", url, *options) as served:
        connection = await served.connect()
        fields = [("origin", "https://app.example")]
        assert (await connection.send("POST", call(1), fields, host="api.example")).status == 200
        assert (await connection.send("POST", call(1), [("origin", "https://x.example")])).status == 403


async def test_a_head_without_end_is_refused() -> None:
    def answer_to_a_head_without_end(port: int) -> bytes:
        # A blocking socket can still be read once sending has failed, as a stream of asyncio cannot:
        # the gateway answers and closes while this still sends.
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"GET /mcp HTTP/1.1\r\n")
                for _ in range(1000):
                    client.sendall(b"x: " + b"y" * 8000 + b"\r\n")
            return client.recv(65536)

    async with raw_server(echo) as (url, _), serving("--url", url) as served:
        answer = await asyncio.to_thread(answer_to_a_head_without_end, served.port)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert served.process.returncode is None
