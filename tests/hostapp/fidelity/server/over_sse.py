"""The awkward server over the transport of 2024-11-05: one stream of events from it, and POSTs to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from tests.hostapp.http.wire import Answer, raw_server

from .asked import Channel, Peer
from .server import Server


class _Stream:
    """Speaks in one stream, whatever a message belongs to."""

    def __init__(self, answer: Answer, server: Server) -> None:
        self._answer = answer
        self._singly = server.form == "single bytes"
        self._writing = anyio.Lock()

    async def begin(self, endpoint: str) -> None:
        """Tell where messages are to be posted."""
        await self._answer.stream(b"event: endpoint\ndata: " + endpoint.encode() + b"\n\n", end=False)

    async def send(self, message: bytes, *, last: bool = False, status: str = "200 OK") -> None:
        """Write an event."""
        event = b"event: message\ndata: " + message + b"\n\n"
        async with self._writing:
            for start in range(0, len(event), size := 1 if self._singly else len(event)):
                await self._answer.write(event[start : start + size])

    async def end(self) -> None:
        """Nothing shows that a request is over."""


class _Endpoint:
    def __init__(self, server: Server, group: TaskGroup) -> None:
        self._server = server
        self._group = group
        self._streams: dict[str, tuple[Peer, Channel]] = {}

    async def __call__(self, answer: Answer) -> None:
        path, _, session = answer.request.target.partition("?session=")
        if answer.request.method == "GET":
            await self._listen(answer)
        elif path != "/messages" or session not in self._streams:
            self._server.complaints.append(f"a POST to {answer.request.target}")
            await answer.send(status="404 Not Found", fields=[])
        else:
            await answer.send(b"Accepted", status="202 Accepted", fields=[("content-type", "text/plain")])
            peer, channel = self._streams[session]
            asked = self._server.hear(answer.request.body, peer, channel, dict(answer.request.fields))
            if asked is not None:
                self._group.start_soon(self._server.act, asked)

    async def _listen(self, answer: Answer) -> None:
        session = str(len(self._streams))
        stream = _Stream(answer, self._server)
        peer = self._server.new_peer()
        self._streams[session] = peer, stream
        await stream.begin(f"/messages?session={session}")
        peer.listens_at(stream)
        await answer.gone()


@asynccontextmanager
async def serve_sse(server: Server) -> AsyncGenerator[str]:
    """Serve; yields the URL of the stream."""
    async with anyio.create_task_group() as group:
        async with raw_server(server.watched(_Endpoint(server, group))) as (url, _):
            yield url.removesuffix("/mcp") + "/sse"
        group.cancel_scope.cancel()
