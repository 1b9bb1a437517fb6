"""A raw HTTP client, a raw HTTP server and the gateway between them: every byte is in the test's hands."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from midspan.gateway import Gateway
from midspan.http import listen, run_server
from midspan.interception import Denials
from midspan_sdk import Chain, Interceptor, Observer
from tests.patience import PATIENCE

Fields = Sequence[tuple[str, str]]
JSON_HEADERS: Fields = (("content-type", "application/json"), ("accept", "application/json, text/event-stream"))
HANDSHAKE: Fields = (*JSON_HEADERS, ("mcp-protocol-version", "2025-11-25"))
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
STATELESS_META: dict[str, Any] = {VERSION_KEY: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def stateless(method: str, name: str | None = None) -> Fields:
    """Return the headers of a 2026-07-28 request."""
    fields = [*JSON_HEADERS, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]
    return [*fields, ("mcp-name", name)] if name is not None else fields


def call(message_id: object, name: str = "echo", arguments: Mapping[str, Any] | None = None, **params: Any) -> bytes:
    """Return a `tools/call` request."""
    body = {"name": name, "arguments": dict(arguments or {}), **params}
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "method": "tools/call", "params": body}).encode()


def stateless_call(message_id: object, name: str = "echo", arguments: Mapping[str, Any] | None = None) -> bytes:
    """Return a `tools/call` request of 2026-07-28."""
    return call(message_id, name, arguments, _meta=STATELESS_META)


def result(message_id: object, value: Any) -> bytes:
    """Return a successful answer."""
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "result": value}).encode()


def request(message_id: object, method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return a request."""
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "method": method, "params": dict(params or {})}).encode()


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return a notification."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": dict(params or {})}).encode()


@dataclass(kw_only=True)
class Message:
    """A request as the server got it, or a response as the client did.

    Attributes:
        start: the words of the first line.
        fields: names in lower case, in order.
        body: decoded from chunks, nothing else.
    """

    start: list[str]
    fields: list[tuple[str, str]]
    body: bytes = b""

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.start[1])

    @property
    def method(self) -> str:
        """The method of a request."""
        return self.start[0]

    @property
    def target(self) -> str:
        """The target of a request."""
        return self.start[1]

    def header(self, name: str) -> str | None:
        """The value of the only field of this name."""
        found = [value for key, value in self.fields if key == name]
        assert len(found) <= 1, found
        return found[0] if found else None

    def json(self) -> Any:
        """The body as JSON; an empty object when there is none."""
        return json.loads(self.body or b"{}")


async def read_head(reader: asyncio.StreamReader) -> Message:
    """Read a head; the body is left."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Message(start=first.split(" ", 2), fields=fields)


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """Read one chunk of a chunked body; empty at its end."""
    size = int(await reader.readuntil(b"\r\n"), 16)
    data = await reader.readexactly(size + 2)
    return data[:-2]


async def read_body(reader: asyncio.StreamReader, message: Message) -> bytes:
    """Read the body that a head announces."""
    if message.header("transfer-encoding") == "chunked":
        parts: list[bytes] = []
        while chunk := await read_chunk(reader):
            parts.append(chunk)
        return b"".join(parts)
    return await reader.readexactly(int(message.header("content-length") or 0))


def head(first: str, fields: Fields) -> bytes:
    """Write a head."""
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in fields), "", ""]).encode("latin-1")


class Connection:
    """One connection of a client to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self.reader = reader
        self.writer = writer
        self._host = host

    async def start(
        self,
        method: str,
        body: bytes = b"",
        fields: Fields = JSON_HEADERS,
        *,
        path: str = "/mcp",
        host: str | None = None,
    ) -> None:
        """Send a request and wait for nothing."""
        own = [("host", self._host if host is None else host)] if host != "" else []
        if body or method == "POST":
            own.append(("content-length", str(len(body))))
        self.writer.write(head(f"{method} {path} HTTP/1.1", [*own, *fields]) + body)
        await self.writer.drain()

    async def send(self, method: str, body: bytes = b"", fields: Fields = JSON_HEADERS, **options: Any) -> Message:
        """Send a request and read the whole response."""
        await self.start(method, body, fields, **options)
        response = await read_head(self.reader)
        if method != "HEAD":
            response.body = await read_body(self.reader, response)
        return response

    async def post(self, body: bytes, fields: Fields = HANDSHAKE, *, session: str | None = None) -> Message:
        """Post a message and read the whole response."""
        return await self.send("POST", body, [*fields, ("mcp-session-id", session)] if session else fields)

    async def ended(self) -> None:
        """Wait until the gateway closes the connection."""
        while await self.reader.read(65536):
            pass

    async def close(self) -> None:
        """Close."""
        self.writer.close()


class Answer:
    """The server's side of one request.

    Attributes:
        request: what came.
        gone: set when the gateway has closed the connection before the response was complete.
    """

    def __init__(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.writer = writer
        self._reader = reader

    async def send(
        self, body: bytes = b"", *, status: str = "200 OK", fields: Fields = (("content-type", "application/json"),)
    ) -> None:
        """Answer with a whole body."""
        own = [("content-length", str(len(body)))] if not status.startswith("204") else []
        self.writer.write(head(f"HTTP/1.1 {status}", [*own, *fields]) + body)
        await self.writer.drain()

    async def stream(self, *chunks: bytes, fields: Fields = (), end: bool = True) -> None:
        """Answer with a stream of events, in these chunks."""
        own = [("transfer-encoding", "chunked"), ("content-type", "text/event-stream")]
        self.writer.write(head("HTTP/1.1 200 OK", [*own, *fields]))
        for chunk in chunks:
            await self.write(chunk)
        if end:
            await self.end()

    async def write(self, chunk: bytes) -> None:
        """Write one chunk."""
        self.writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        await self.writer.drain()

    async def end(self) -> None:
        """End the stream."""
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def break_off(self) -> None:
        """Close the connection."""
        self.writer.close()

    async def gone(self) -> None:
        """Wait until the gateway closes the connection."""
        assert await self._reader.read(1) == b""


Handler = Callable[[Answer], Awaitable[None]]


class Seen(list[Message]):
    """What a server got."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def note(self, message: Message) -> None:
        """Add a message."""
        self.append(message)
        self._more.set()

    async def reach(self, count: int) -> None:
        """Wait until so many are there."""
        while len(self) < count:
            self._more.clear()
            await self._more.wait()


@dataclass(kw_only=True)
class Link:
    """A running gateway between a raw client and a raw server.

    Attributes:
        url: the gateway's address, `host:port`.
        seen: the requests that the server got.
        gateway: the gateway.
    """

    url: str
    gateway: Gateway
    seen: Seen
    _connections: list[Connection] = field(default_factory=list[Connection])

    async def connect(self) -> Connection:
        """Open another connection."""
        host, _, port = self.url.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=2**27)
        connection = Connection(reader, writer, self.url)
        self._connections.append(connection)
        return connection

    async def post(self, body: bytes, fields: Fields = HANDSHAKE, *, session: str | None = None) -> Message:
        """Post a message on a connection of its own."""
        return await (await self.connect()).post(body, fields, session=session)

    async def send(self, method: str, body: bytes = b"", fields: Fields = JSON_HEADERS, **options: Any) -> Message:
        """Send a request on a connection of its own."""
        return await (await self.connect()).send(method, body, fields, **options)

    def close_all(self) -> None:
        """Close all connections of clients."""
        for connection in self._connections:
            connection.writer.close()


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncGenerator[tuple[str, Seen]]:
    """Run a raw server; yields its URL and what it gets."""
    seen = Seen()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                message = await read_head(reader)
                message.body = await read_body(reader, message)
                seen.note(message)
                await handler(Answer(message, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**27)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp", seen
    finally:
        server.close()
        for writer in writers:
            writer.close()


@asynccontextmanager
async def gateway_to(
    url: str | Sequence[str], chain: Chain | None = None, seen: Seen | None = None, **options: Any
) -> AsyncGenerator[Link]:
    """Run the gateway in front of a URL."""
    app_options = {key: options.pop(key) for key in ("allowed_hosts", "allowed_origins") if key in options}
    gateway = Gateway(url, chain, **options)
    listener = listen("127.0.0.1", 0)
    listener.listen(128)
    stop = asyncio.Event()
    async with gateway:
        app = gateway.asgi_app(**app_options)
        running = asyncio.create_task(run_server(app, listener, stop=stop, stopping=gateway.stop))
        link = Link(url=_address(listener), gateway=gateway, seen=seen if seen is not None else Seen())
        try:
            yield link
        finally:
            link.close_all()
            stop.set()
            await running


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"


@asynccontextmanager
async def relayed(handler: Handler, chain: Chain | None = None, **options: Any) -> AsyncGenerator[Link]:
    """Run a raw server with the gateway in front of it."""
    with anyio.fail_after(PATIENCE):
        async with raw_server(handler) as (url, seen), gateway_to(url, chain, seen, **options) as link:
            yield link


@asynccontextmanager
async def guarded(
    handler: Handler,
    *interceptors: Interceptor[..., Any],
    observers: Iterable[Observer] = (),
    denials: Denials | None = None,
    **options: Any,
) -> AsyncGenerator[Link]:
    """Run a raw server with the gateway in front of it, and a chain of these interceptors in it."""
    chain = Chain(observers=observers, gives=("session", "store", "tools", "ask"))
    chain.add(*interceptors)
    async with chain, relayed(handler, chain, denials=denials, **options) as link:
        yield link


async def events_of(connection: Connection, count: int) -> list[bytes]:
    """Read so many events of a chunked stream, each with its blank line."""
    buffered = b""
    found: list[bytes] = []
    while len(found) < count:
        buffered += await read_chunk(connection.reader)
        while len(found) < count and (end := buffered.find(b"\n\n")) >= 0:
            found.append(buffered[: end + 2])
            buffered = buffered[end + 2 :]
    assert not buffered
    return found
