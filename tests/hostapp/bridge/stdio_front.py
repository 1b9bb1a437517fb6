"""A raw stdio client, the gateway in this process, and a raw HTTP server: every byte is in the test's hands."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from midspan.gateway import Gateway, TransportName
from midspan_sdk import Chain, Interceptor
from tests.hostapp.http.wire import Answer, Handler, Message, Seen, notification, raw_server, request, result
from tests.patience import PATIENCE

INITIALIZED = notification("notifications/initialized")
SESSION = (("mcp-session-id", "s-1"),)
JSON = (("content-type", "application/json"),)


def initialize(version: str = "2025-11-25") -> bytes:
    """Return the request that begins a session."""
    return request("init", "initialize", {"protocolVersion": version, "capabilities": {}})


def initialized(version: str = "2025-11-25", message_id: object = "init") -> bytes:
    """Return its answer."""
    return result(
        message_id, {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "raw", "version": "1"}}
    )


def error(message_id: object, code: int, message: str) -> bytes:
    """Return an error as the gateway writes it."""
    body = {"jsonrpc": "2.0", "id": message_id, "error": {"code": code, "message": f"midspan: {message}"}}
    return json.dumps(body, separators=(",", ":")).encode()


def event(data: bytes, **fields: object) -> bytes:
    """Return an event with the data on one line."""
    head = "".join(f"{name}: {value}\n" for name, value in fields.items()).encode()
    return head + b"data: " + data + b"\n\n"


def keys(*pressed: Callable[[Answer], Awaitable[None]]) -> Handler:
    """Return a handler that does one thing after the other, a request each."""
    left = iter(pressed)

    async def handler(answer: Answer) -> None:
        await next(left)(answer)

    return handler


async def shake(answer: Answer, *, session: bool = True, version: str = "2025-11-25") -> bool:
    """Answer what belongs to the beginning and the end of a session; return whether the request did."""
    method = answer.request.json().get("method") if answer.request.method == "POST" else answer.request.method
    if method == "initialize":
        await answer.send(
            initialized(version, answer.request.json()["id"]), fields=(*JSON, *(SESSION if session else ()))
        )
    elif method == "notifications/initialized":
        await answer.send(status="202 Accepted", fields=())
    elif method == "GET":
        await answer.send(status="405 Method Not Allowed", fields=())
    elif method == "DELETE":
        await answer.send(status="200 OK", fields=())
    else:
        return False
    return True


def after_handshake(handler: Handler, *, session: bool = True) -> Handler:
    """Return a handler for what comes beside the handshake."""

    async def handle(answer: Answer) -> None:
        if not await shake(answer, session=session):
            await handler(answer)

    return handle


@dataclass(kw_only=True)
class Front:
    """The client's side of a running gateway.

    Attributes:
        seen: what the server got.
        running: comes to the gateway's exit code.
    """

    seen: Seen
    running: asyncio.Task[int]
    _to: int
    _received: asyncio.StreamReader = field(repr=False)
    _transport: asyncio.ReadTransport
    _open: bool = True

    async def write(self, data: bytes) -> None:
        """Write bytes."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._to, view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._to)

    async def send(self, *lines: bytes) -> None:
        """Write lines in one piece."""
        await self.write(b"".join(line + b"\n" for line in lines))

    async def receive(self) -> bytes:
        """Return the next line; empty at the end."""
        return (await self._received.readline()).removesuffix(b"\n")

    async def read(self) -> Any:
        """Return the next message."""
        return json.loads(await self.receive())

    async def ask(self, line: bytes) -> bytes:
        """Send a request and return the next line."""
        await self.send(line)
        return await self.receive()

    async def shake_hands(self, version: str = "2025-11-25") -> None:
        """Begin a session."""
        assert await self.ask(initialize(version)) == initialized(version)
        await self.send(INITIALIZED)

    async def rest(self) -> list[bytes]:
        """Return all further lines up to the end."""
        return (await self._received.read()).split(b"\n")[:-1]

    def posted(self, method: str) -> list[Message]:
        """Return the requests whose body is a message of this method."""
        return [one for one in self.seen if one.body and one.json().get("method") == method]

    def half_close(self) -> None:
        """Say no more."""
        if self._open:
            self._open = False
            os.close(self._to)

    def die(self) -> None:
        """Close both ends."""
        self.half_close()
        self._transport.close()

    def pause(self) -> None:
        """Stop taking what comes."""
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Take what comes again."""
        self._transport.resume_reading()


@asynccontextmanager
async def to_url(
    url: str,
    seen: Seen | None = None,
    *interceptors: Interceptor[..., Any],
    transport: TransportName = "http",
    headers: Mapping[str, str] | None = None,
    max_message: int = 2**26,
) -> AsyncGenerator[Front]:
    """Run the gateway between a raw client and a URL."""
    chain = Chain()
    chain.add(*interceptors)
    gateway_in, to = os.pipe()
    from_, gateway_out = os.pipe()
    os.set_blocking(to, False)
    received = asyncio.StreamReader(limit=2**27)
    pipe = os.fdopen(from_, "rb", buffering=0)
    transport_in, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(received), pipe
    )
    gateway = Gateway(url, chain, transport=transport, headers=headers, max_message=max_message)
    async with chain:
        running = asyncio.create_task(gateway.run_stdio(streams=(gateway_in, gateway_out)))
        front = Front(
            seen=seen if seen is not None else Seen(),
            running=running,
            _to=to,
            _received=received,
            _transport=transport_in,
        )
        try:
            with anyio.fail_after(PATIENCE):
                yield front
                front.half_close()
                await asyncio.wait({running})
                if not running.cancelled():
                    running.result()
        finally:
            front.die()
            with anyio.CancelScope(shield=True):
                running.cancel()
                await asyncio.wait({running})


@asynccontextmanager
async def fronted(handler: Handler, *interceptors: Interceptor[..., Any], **options: Any) -> AsyncGenerator[Front]:
    """Run a raw server with the gateway in front of it."""
    async with raw_server(handler) as (url, seen), to_url(url, seen, *interceptors, **options) as front:
        yield front
