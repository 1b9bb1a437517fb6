"""The raw client over streamable HTTP: every message on a connection of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from tests.hostapp.fidelity.eras import Era, dig, key_of
from tests.hostapp.fidelity.pipes import LONGEST
from tests.hostapp.fidelity.sse import Events
from tests.hostapp.http.wire import JSON_HEADERS, Connection, Message, read_body, read_chunk, read_head

from .link import Link

_TARGETS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Posts:
    """Opens connections to one address, and closes them in the end."""

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self.path = split.path
        self._host, self._port = split.hostname or "", split.port or 80
        self._connections: set[Connection] = set()

    async def connect(self) -> Connection:
        """Open a connection."""
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=LONGEST)
        connection = Connection(reader, writer, f"{self._host}:{self._port}")
        self._connections.add(connection)
        return connection

    def release(self, connection: Connection) -> None:
        """Close a connection."""
        self._connections.discard(connection)
        connection.writer.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._connections):
            self.release(connection)


async def events_in(connection: Connection, head: Message) -> AsyncIterator[tuple[str, bytes]]:
    """Yield name and data of every event of a response."""
    assert head.status == 200, head
    assert (head.header("content-type") or "").startswith("text/event-stream"), head
    events = Events()
    while chunk := await read_chunk(connection.reader):
        for event in events.feed(chunk):
            yield event


class HTTPLink(Link):
    """Speaks streamable HTTP."""

    carrier = "http"

    def __init__(self, era: Era, url: str, group: TaskGroup) -> None:
        super().__init__(era)
        self._posts = Posts(url)
        self._group = group
        self._session: str | None = None
        self._open: dict[tuple[str, object], Connection] = {}
        self._cancelled: set[tuple[str, object]] = set()

    def _headers(self, message: Mapping[str, Any]) -> list[tuple[str, str]]:
        headers = list(JSON_HEADERS)
        method = message.get("method")
        if self._session is not None:
            headers.append(("mcp-session-id", self._session))
        if method != "initialize":
            headers.append(("mcp-protocol-version", self.version))
        if self.era is Era.STATELESS and method is not None:
            headers.append(("mcp-method", method))
            if method in _TARGETS and (target := dig(message, "params", _TARGETS[method])) is not None:
                headers.append(("mcp-name", _encoded(target)))
        return headers

    async def send(self, raw: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        self.sent.append(raw)
        message = json.loads(raw)
        connection = await self._posts.connect()
        fields = [*self._headers(message), *(headers or {}).items()]
        await connection.start("POST", raw, fields, path=self._posts.path)
        if "method" in message and "id" in message:
            self._open[key_of(message["id"])] = connection
            self._group.start_soon(self._receive, connection, message["id"])
            return
        head = await read_head(connection.reader)
        assert head.status == 202, (head, await read_body(connection.reader, head))
        self._posts.release(connection)

    async def _receive(self, connection: Connection, message_id: object) -> None:
        key = key_of(message_id)
        try:
            head = await read_head(connection.reader)
            if (session := head.header("mcp-session-id")) is not None:
                self._session = session
            if (head.header("content-type") or "").startswith("text/event-stream"):
                async for _, data in events_in(connection, head):
                    self.arrive(data, message_id, head.status)
            else:
                body = await read_body(connection.reader, head)
                assert (head.header("content-type") or "").startswith("application/json"), (head, body)
                self.arrive(body, message_id, head.status)
        except (asyncio.IncompleteReadError, ConnectionError):
            if key not in self._cancelled:
                raise
        finally:
            if self._open.get(key) is connection:
                del self._open[key]
            self._posts.release(connection)

    async def cancel(self, message_id: object) -> None:
        if self.era is Era.HANDSHAKE:
            await self.notify("notifications/cancelled", {"reason": "r", "requestId": message_id, "future": 1.0})
            return
        key = key_of(message_id)
        self._cancelled.add(key)
        self._posts.release(self._open.pop(key))

    async def listen(self) -> None:
        connection = await self._posts.connect()
        fields = [("accept", "text/event-stream"), *self._headers({})[len(JSON_HEADERS) :]]
        await connection.start("GET", fields=fields, path=self._posts.path)
        head = await read_head(connection.reader)
        self._group.start_soon(self._take, connection, head)

    async def _take(self, connection: Connection, head: Message) -> None:
        async for _, data in events_in(connection, head):
            self.arrive(data)

    async def close(self) -> None:
        """End the session, and then all connections."""
        if self._session is not None:
            connection = await self._posts.connect()
            ended = await connection.send("DELETE", fields=self._headers({}), path=self._posts.path)
            assert ended.status in (200, 202, 204), ended

    def drop(self) -> None:
        """Close all connections."""
        self._posts.close()


def _encoded(value: str) -> str:
    """Return a value as a header can carry it."""
    if re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


@asynccontextmanager
async def http_link(era: Era, url: str) -> AsyncGenerator[HTTPLink]:
    """Make a client of a URL."""
    async with anyio.create_task_group() as group:
        link = HTTPLink(era, url, group)
        try:
            yield link
            await link.close()
        finally:
            group.cancel_scope.cancel()
            link.drop()
