"""A raw client, the real command, and a scripted server behind it: over stdio, over HTTP, and from one to the other."""

from __future__ import annotations

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from tests.hostapp.http.wire import (
    HANDSHAKE,
    JSON_HEADERS,
    STATELESS_META,
    Answer,
    Connection,
    Fields,
    raw_server,
    read_body,
    read_chunk,
    read_head,
    stateless,
)
from tests.patience import PATIENCE

from .scripted_back import Script, talk, waits

BACK: Final = Path(__file__).with_name("scripted_back.py")
Era = Literal["handshake", "stateless"]
Way = Literal["run", "run url", "serve", "serve url"]
"""The command, and whether the server behind it is reached by a URL or is a command."""
ERAS: Final[Sequence[Era]] = ("handshake", "stateless")
EACH_WAY: Final[Sequence[tuple[Way, Sequence[Era]]]] = (
    ("run", ("handshake",)),
    ("run", ("stateless",)),
    ("run url", ("handshake",)),
    ("run url", ("stateless",)),
    ("serve", ERAS),
    ("serve url", ERAS),
)
"""All ways, with the eras of the clients of one gateway."""

Json = dict[str, Any]
Replies = Mapping[str, Mapping[str, Any]]
"""What the client answers the server's requests with, by method: members of the message, such as `result`."""


class RawClient(ABC):
    """A client that reads nothing into what arrives.

    Attributes:
        era: which requests it sends.
        received: every byte that it got.
        asked: the server's requests that it got.
    """

    def __init__(self, era: Era) -> None:
        self.era: Era = era
        self.received = bytearray()
        self.asked: list[Json] = []
        self._last = 0

    async def open(self, capabilities: Json | None = None) -> Json:
        """Say hello in the era's way, and return the server's answer."""
        given = capabilities or {"elicitation": {}, "sampling": {}, "roots": {}}
        if self.era == "stateless":
            (answer,) = await self.ask("server/discover", {})
            return answer
        hello = {"protocolVersion": "2025-11-25", "capabilities": given, "clientInfo": {"name": "c", "version": "1"}}
        (answer,) = await self.ask("initialize", hello)
        await self.tell("notifications/initialized")
        return answer

    async def ask(
        self, method: str, params: Mapping[str, Any], *, replies: Replies | None = None, token: str | None = None
    ) -> list[Json]:
        """Send a request and return all that comes up to its answer, which is the last."""
        self._last += 1
        meta: Json = dict(STATELESS_META) if self.era == "stateless" else {}
        if token is not None:
            meta["progressToken"] = token
        body = {**params, "_meta": {**params.get("_meta", {}), **meta}} if meta else dict(params)
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": body}
        arrived: list[Json] = []
        async for one in self._exchange(message):
            arrived.append(one)
            if waits(one):
                self.asked.append(one)
                reply = (replies or {}).get(one["method"], {"error": {"code": -32601, "message": "no"}})
                await self._send({"jsonrpc": "2.0", "id": one["id"], **reply})
            elif one.get("id") == self._last and "method" not in one:
                break
        return arrived

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": dict(params or {})})

    async def works(self) -> None:
        """Assert that a good call still gets its answer."""
        (answer,) = await self.ask("tools/call", {"name": "good", "arguments": {}})
        assert answer["result"]["content"] == [{"type": "text", "text": "good"}]

    @abstractmethod
    async def _send(self, message: Json) -> None: ...

    @abstractmethod
    def _exchange(self, message: Json) -> AsyncIterator[Json]: ...


GOOD: Final[Script] = {
    "tools/call good": [{"result": {"content": [{"type": "text", "text": "good"}], "resultType": "complete"}}]
}
"""What `RawClient.works` needs of a script."""


class StdioClient(RawClient):
    """A client over the pipes of `midspan run`."""

    def __init__(self, era: Era, process: asyncio.subprocess.Process) -> None:
        super().__init__(era)
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin, process.stdout

    async def write(self, line: bytes) -> None:
        """Send a line as it is."""
        self._to.write(line + b"\n")
        await self._to.drain()

    async def read(self) -> bytes:
        """Return the next line; empty at the end."""
        line = await self._from.readline()
        self.received += line
        return line

    async def finish(self) -> None:
        """Say no more, and take what still comes."""
        self._to.close()
        while await self.read():
            pass

    async def _send(self, message: Json) -> None:
        await self.write(json.dumps(message).encode())

    async def _exchange(self, message: Json) -> AsyncIterator[Json]:
        await self._send(message)
        while line := await self.read():
            yield json.loads(line)


class HTTPClient(RawClient):
    """A client of `midspan serve`, with a connection for each message.

    Attributes:
        port: where it is.
        session: the id of its session.
    """

    def __init__(self, era: Era, port: int) -> None:
        super().__init__(era)
        self.port = port
        self.session: str | None = None
        self._connections: list[Connection] = []

    async def connect(self) -> Connection:
        """Open a connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        connection = Connection(reader, writer, f"localhost:{self.port}")
        self._connections.append(connection)
        return connection

    def close_all(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.writer.close()

    def fields(self, message: Json) -> Fields:
        """Return the headers of a message."""
        if self.era == "stateless":
            params = message.get("params", {})
            return stateless(message.get("method", ""), params.get("name", params.get("uri")))
        if self.session is not None:
            return [*HANDSHAKE, ("mcp-session-id", self.session)]
        return JSON_HEADERS

    async def _send(self, message: Json) -> None:
        answer = await (await self.connect()).post(json.dumps(message).encode(), self.fields(message))
        self.received += answer.body
        assert answer.status == 202, answer

    async def _exchange(self, message: Json) -> AsyncIterator[Json]:
        connection = await self.connect()
        await connection.start("POST", json.dumps(message).encode(), self.fields(message))
        response = await read_head(connection.reader)
        self.received += repr((response.start, response.fields)).encode()
        self.session = response.header("mcp-session-id") or self.session
        if response.header("content-type") != "text/event-stream":
            body = await read_body(connection.reader, response)
            self.received += body
            yield json.loads(body)
            return
        waiting = b""
        while chunk := await read_chunk(connection.reader):
            self.received += chunk
            *events, waiting = (waiting + chunk.replace(b"\r\n", b"\n")).split(b"\n\n")
            for event in events:
                data = [line[5:] for line in event.split(b"\n") if line.startswith(b"data:")]
                if b"".join(data).strip():
                    yield json.loads(b"\n".join(data))


class HTTPBack:
    """A scripted server over HTTP: calls are answered with streams, all else with one message."""

    def __init__(self, scripts: Mapping[str, Script], log: Path) -> None:
        self._scripts = scripts
        self._log = log
        self._answers: dict[object, asyncio.Event] = {}

    async def handle(self, answer: Answer) -> None:
        """Answer one request."""
        if answer.request.method != "POST":
            await answer.send(status="405 Method Not Allowed")
            return
        async with await anyio.open_file(self._log, "ab") as log:
            await log.write(answer.request.body + b"\n")
        message: Json = answer.request.json()
        if "method" not in message or "id" not in message:
            if "method" not in message:
                self._answers.setdefault(message["id"], asyncio.Event()).set()
            await answer.send(status="202 Accepted", fields=[])
            return
        session = [("mcp-session-id", "s1")] if message["method"] == "initialize" else []
        if message["method"] != "tools/call":
            (said,) = talk(self._scripts, message)
            await answer.send(json.dumps(said).encode(), fields=[("content-type", "application/json"), *session])
            return
        await answer.stream(end=False)
        for said in talk(self._scripts, message):
            await answer.write(b"event: message\ndata: " + json.dumps(said).encode() + b"\n\n")
            if waits(said):
                await self._answers.setdefault(said["id"], asyncio.Event()).wait()
                del self._answers[said["id"]]
        await answer.end()


@asynccontextmanager
async def served(*arguments: str, **options: Any) -> AsyncGenerator[int]:
    """Run `midspan serve` on a free port, which it yields.

    Args:
        arguments: of the command.
        options: of the process.
    """
    command = [sys.executable, "-m", "midspan", "serve", "--port", "0", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, **options)
    assert process.stderr is not None
    try:
        line = b""
        while not line.startswith(b"midspan: serving "):
            line = await process.stderr.readline()
            assert line, "midspan serve ended"
        rest = asyncio.create_task(process.stderr.read())  # one that cannot write its log stands still
        yield int(line.rpartition(b":")[2].partition(b"/")[0])
        process.terminate()
        await process.wait()
        await rest
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def run(era: Era, *arguments: str, **options: Any) -> AsyncGenerator[StdioClient]:
    """Run `midspan run` with a raw client at its pipes.

    Args:
        era: of the client.
        arguments: of the command.
        options: of the process.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "midspan",
        "run",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2**24,
        **options,
    )
    try:
        client = StdioClient(era, process)
        yield client
        await client.finish()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Link:
    """A running gateway between raw clients and a scripted server.

    Attributes:
        clients: one for each era.
    """

    def __init__(self, clients: Sequence[RawClient], log: Path) -> None:
        self.clients = clients
        self._log = log

    def reached(self) -> list[Json]:
        """Return the messages that reached the server. Exact once an answer to a later request is here."""
        return [json.loads(line) for line in self._log.read_bytes().splitlines()]


@asynccontextmanager
async def linked(
    way: Way, eras: Sequence[Era], folder: Path, script_of: Callable[[Era], Script], *options: str
) -> AsyncGenerator[Link]:
    """Run the command with these options between raw clients and a server that follows a script.

    Args:
        way: how the clients reach the server.
        eras: of the clients.
        folder: an empty one.
        script_of: returns the script for an era, as in `scripted_back`.
        options: of the command.
    """
    scripts: dict[str, Script] = {era: {**GOOD, **script_of(era)} for era in ERAS}
    log, file = folder / "back.log", folder / "script.json"
    file.write_text(json.dumps(scripts))
    command = ("--", sys.executable, "-I", "-S", str(BACK), str(file), str(log))
    with anyio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            if way.endswith("url"):
                url, _ = await stack.enter_async_context(raw_server(HTTPBack(scripts, log).handle))
                command = ("--url", url)
            if way.startswith("run"):
                (era,) = eras
                yield Link([await stack.enter_async_context(run(era, *options, *command))], log)
                return
            port = await stack.enter_async_context(served(*options, *command))
            clients = [HTTPClient(era, port) for era in eras]
            for client in clients:
                stack.callback(client.close_all)
            yield Link(clients, log)
