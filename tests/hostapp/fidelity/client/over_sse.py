"""The raw client over the transport of 2024-11-05."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio

from tests.hostapp.fidelity.eras import Era
from tests.hostapp.http.wire import JSON_HEADERS, read_body, read_head

from .link import Link
from .over_http import Posts, events_in


class SSELink(Link):
    """Posts messages, and listens to one stream."""

    carrier = "sse"

    def __init__(self, era: Era, posts: Posts) -> None:
        super().__init__(era)
        self._posts = posts

    async def send(self, raw: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        self.sent.append(raw)
        connection = await self._posts.connect()
        await connection.start("POST", raw, JSON_HEADERS, path=self._posts.path)
        head = await read_head(connection.reader)
        assert head.status == 202, (head, await read_body(connection.reader, head))
        self._posts.release(connection)

    async def cancel(self, message_id: object) -> None:
        await self.notify("notifications/cancelled", {"reason": "r", "requestId": message_id, "future": 1.0})

    async def take(self, events: AsyncIterator[tuple[str, bytes]]) -> None:
        """Take what comes."""
        async for name, data in events:
            assert name == "message", (name, data)
            self.arrive(data)

    async def listen(self) -> None:
        pass  # it comes where all else comes

    async def close(self) -> None:
        self._posts.close()


@asynccontextmanager
async def sse_link(era: Era, url: str) -> AsyncGenerator[SSELink]:
    """Connect to a stream."""
    posts = Posts(url)
    connection = await posts.connect()
    await connection.start("GET", fields=[("accept", "text/event-stream")], path=posts.path)
    events = events_in(connection, await read_head(connection.reader))
    name, endpoint = await anext(events)
    assert name == "endpoint", name
    posts.path = endpoint.decode()
    link = SSELink(era, posts)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(link.take, events)
            yield link
            group.cancel_scope.cancel()
    finally:
        await link.close()
