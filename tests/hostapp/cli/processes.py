"""`midspan run` and `midspan serve` as processes, and their clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from tests.hostapp.http.wire import Connection
from tests.hostapp.relay.harness import request
from tests.patience import PATIENCE

INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}


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
        self.process = process
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

    async def status(self, path: str) -> int:
        """Begin a session, and return the status of the answer."""
        authority = self.urls[0].split("/")[2]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(":")[2]))
        try:
            line = request(0, "initialize", INITIALIZE)
            return (await Connection(reader, writer, authority).send("POST", line, path=path)).status
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

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
            with contextlib.suppress(OSError):
                await writer.wait_closed()


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
