"""A raw HTTP client, the gateway, and a server that is a command: every byte is in the test's hands."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from midspan.interception import Denials
from midspan_sdk import Chain, Interceptor, Observer
from tests.hostapp.http.wire import (
    HANDSHAKE,
    JSON_HEADERS,
    STATELESS_META,
    Connection,
    Fields,
    Link,
    Message,
    gateway_to,
    read_chunk,
    read_head,
    stateless,
)
from tests.hostapp.relay.harness import Step, poll, program, server_command
from tests.patience import PATIENCE

HOLD: Step = ("read", 0)
"""Does nothing, so that a request stays without an answer."""
JSON_ONLY: Fields = (
    ("content-type", "application/json"),
    ("accept", "application/json"),
    ("mcp-protocol-version", "2025-11-25"),
)


@asynccontextmanager
async def fronted(
    command: Sequence[str] | Path,
    *interceptors: Interceptor[..., Any],
    observers: Iterable[Observer] = (),
    denials: Denials | None = None,
    chain: Chain | None = None,
    **options: Any,
) -> AsyncGenerator[Link]:
    """Run the gateway in front of a command, or of a raw server that logs to a file."""
    words = server_command(command) if isinstance(command, Path) else command
    if interceptors or observers:
        chain = Chain(observers=observers)
        chain.add(*interceptors)
    with anyio.fail_after(PATIENCE):
        if chain is None:
            async with gateway_to(words, None, denials=denials, **options) as link:
                yield link
        else:
            async with chain, gateway_to(words, chain, denials=denials, **options) as link:
                yield link


def lines_seen(log: Path) -> list[bytes]:
    """Return what the servers got, line by line."""
    return log.read_bytes().split(b"\n")[:-1] if log.exists() else []


def seen(log: Path) -> list[dict[str, Any]]:
    """Return what the servers got."""
    return [json.loads(line) for line in lines_seen(log)]


async def seen_reaches(log: Path, count: int) -> list[dict[str, Any]]:
    """Wait until the servers got so many messages."""
    await anyio.to_thread.run_sync(poll, lambda: len(seen(log)) >= count)
    return seen(log)


class Events:
    """The events of a response, as they come.

    Attributes:
        head: the response, without its body.
        last_id: the id of the last event.
        primed: whether an event without data came.
    """

    def __init__(self, connection: Connection, head: Message) -> None:
        self.connection = connection
        self.head = head
        self.last_id: str | None = None
        self.primed = False
        self._buffered = b""
        self._ended = False

    async def raw(self) -> bytes | None:
        """Return the data of the next event that has some; None at the end."""
        while True:
            event, found, rest = self._buffered.partition(b"\n\n")
            if found:
                self._buffered = rest
                lines = dict(line.split(b": ", 1) for line in event.split(b"\n"))
                if b"id" in lines:
                    self.last_id = lines[b"id"].decode()
                if lines.get(b"data"):
                    return lines[b"data"]
                self.primed = self.primed or b"data" in lines
            elif self._ended:
                assert not self._buffered
                return None
            else:
                chunk = await read_chunk(self.connection.reader)
                self._ended = not chunk
                self._buffered += chunk

    async def next(self) -> Any:
        """Return the next message; None at the end."""
        data = await self.raw()
        return None if data is None else json.loads(data)

    async def rest(self) -> list[Any]:
        """Return all further messages."""
        found: list[Any] = []
        while (message := await self.next()) is not None:
            found.append(message)
        return found


async def stream(link: Link, body: bytes, fields: Fields = HANDSHAKE, *, session: str | None = None) -> Events:
    """Post a message whose response is a stream."""
    connection = await link.connect()
    await connection.start("POST", body, [*fields, ("mcp-session-id", session)] if session else fields)
    head = await read_head(connection.reader)
    assert head.header("content-type") == "text/event-stream", head
    return Events(connection, head)


async def listen(link: Link, session: str, last_id: str | None = None, *, version: str = "2025-11-25") -> Events:
    """Open the stream of a session, or go on with one."""
    fields = [("accept", "text/event-stream"), ("mcp-session-id", session), ("mcp-protocol-version", version)]
    connection = await link.connect()
    await connection.start("GET", b"", [*fields, ("last-event-id", last_id)] if last_id else fields)
    return Events(connection, await read_head(connection.reader))


def initialize(*steps: Step) -> bytes:
    """Return the first request of a session."""
    params = {"protocolVersion": "2025-11-25", **({"do": program(*steps)} if steps else {})}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


async def begin(link: Link, *steps: Step, fields: Fields = ()) -> str:
    """Begin a session, and return its id."""
    response = await link.post(initialize(*steps), [*JSON_HEADERS, *fields])
    assert response.status == 200, response
    session = response.header("mcp-session-id")
    assert session is not None
    return session


def telling(message: dict[str, Any], *steps: Step) -> bytes:
    """Return a notification that makes the server do something."""
    params = {**message.get("params", {}), "do": program(*steps)}
    return json.dumps({"jsonrpc": "2.0", **message, "params": params}).encode()


def alone(message_id: bytes | int, *steps: Step, token: bytes | None = None, method: str = "tools/list") -> bytes:
    """Return a request of 2026-07-28, with its id and token as they stand here."""
    meta = json.dumps(STATELESS_META)[1:-1].encode()
    more = b', "progressToken": ' + token if token is not None else b""
    todo = b', "do": "%s"' % program(*steps).encode() if steps else b""
    written = b"%d" % message_id if isinstance(message_id, int) else message_id
    return b'{"jsonrpc": "2.0", "id": %s, "method": "%s", "params": {"_meta": {%s%s}%s}}' % (
        written,
        method.encode(),
        meta,
        more,
        todo,
    )


ALONE = stateless("tools/list")


def bearer(token: str, fields: Fields = ALONE) -> Fields:
    """Return headers with credentials."""
    return [*fields, ("authorization", f"Bearer {token}")]


def progress(token: object, message: str = "") -> bytes:
    """Return a progress notification."""
    params = {"progressToken": token, "progress": 1, "message": message}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode()
