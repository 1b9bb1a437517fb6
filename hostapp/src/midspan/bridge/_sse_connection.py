"""A server that speaks the HTTP+SSE transport of 2024-11-05, as a connection of lines.

One stream carries all that the server says; its first event names the URL to which the client posts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import AsyncExitStack
from typing import Final, Self
from urllib.parse import urljoin, urlsplit

from midspan.bridge._text import one_line
from midspan.http import (
    Event,
    EventSplitter,
    Headers,
    HTTPRelayError,
    OversizedEvent,
    Upstream,
    UpstreamError,
    UpstreamResponse,
    media_type,
    shown_url,
    value,
)
from midspan.relay import (
    ConnectError,
    JSONFaultError,
    LineQueue,
    MessageId,
    Outline,
    OversizedLine,
    outline_of,
    outline_of_text,
)

logger = logging.getLogger("midspan.gateway")

_ENDPOINT_WITHIN: Final = 30.0
"""Seconds for the server to name its endpoint."""
_GOODBYE: Final = 1.0


class SSEConnection:
    """One client's connection.

    Args:
        url: where the stream is.
        headers: for every request.
        limit: the longest message in bytes.
    """

    def __init__(self, url: str, headers: Headers, *, limit: int) -> None:
        self.from_server = LineQueue()
        self._url = url
        self._headers = headers
        self._limit = limit
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._posting: Upstream | None = None
        self._pending: set[MessageId] = set()
        self._settled = asyncio.Event()
        self._closing = False
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> Self:
        """Open the stream and wait for the endpoint.

        Raises:
            ConnectError: there is no such stream.
        """
        try:
            stream = await self._stack.enter_async_context(Upstream(self._url, self._headers))
            self._reading = asyncio.create_task(self._read(stream))
            self._reading.add_done_callback(lambda _: self._ended())
            try:
                async with asyncio.timeout(_ENDPOINT_WITHIN):
                    endpoint = await asyncio.shield(self._endpoint)
            except TimeoutError:
                raise UpstreamError(f"{shown_url(self._url)} does not say where to post messages") from None
            self._posting = await self._stack.enter_async_context(Upstream(endpoint, self._headers))
        except HTTPRelayError as error:
            await self.stop()
            raise ConnectError(str(error)) from error
        return self

    def _ended(self) -> None:
        if not self._endpoint.done():
            self._endpoint.set_exception(UpstreamError(f"{shown_url(self._url)} does not say where to post messages"))
            self._endpoint.exception()  # whoever waits gets it; nobody may
        self.from_server.close()
        self._settled.set()

    async def _read(self, stream: Upstream) -> None:
        try:
            async with stream.request("GET", [(b"accept", b"text/event-stream")]) as response:
                self._check(response)
                splitter = EventSplitter(self._limit)
                async for chunk in response.chunks:
                    for event in splitter.feed(chunk):
                        await self._take(event)
        except HTTPRelayError as error:
            if not self._endpoint.done():
                self._endpoint.set_exception(error)
                self._endpoint.exception()
            elif not self._closing:
                logger.warning("%s", error)
        except BrokenPipeError:
            pass

    def _check(self, response: UpstreamResponse) -> None:
        if response.status != 200 or media_type(value(response.headers, b"content-type")) != "text/event-stream":
            raise UpstreamError(f"{shown_url(self._url)} is no SSE stream (HTTP {response.status})")

    async def _take(self, event: Event) -> None:
        if isinstance(event, OversizedEvent):
            await self.from_server.send(OversizedLine(event.head, event.tail))
            self._settle(outline_of_text(event.head, event.tail))
        elif event.data is None:
            return
        elif event.name == b"endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(self._same_origin(event.data))
        elif event.name in (b"", b"message") and event.data.strip():
            try:
                line = one_line(event.data)
            except JSONFaultError as fault:
                logger.warning("dropped an event: %s", fault.reason)
                return
            await self.from_server.send(line)
            self._settle(outline_of(line))

    def _settle(self, outline: Outline) -> None:
        if not outline.is_call and outline.id is not None:
            self._pending.discard(outline.id)
            self._settled.set()

    def _same_origin(self, endpoint: bytes) -> str:
        """Return the endpoint's URL; credentials must not go to another server because this one says so."""
        url = urljoin(self._url, endpoint.decode("utf-8", "replace").strip())
        if urlsplit(url)[:2] != urlsplit(self._url)[:2]:
            raise UpstreamError(f"{shown_url(self._url)} names an endpoint of another server")
        return url

    @property
    def to_server(self) -> Self:
        """The writer: the object itself."""
        return self

    async def send(self, line: bytes) -> None:
        """Post a message, and wait until the server has it.

        Raises:
            BrokenPipeError: the stream is gone, and with it all answers.
        """
        async with self._turn:
            if self._posting is None or self.from_server.closed:
                raise BrokenPipeError
            outline = outline_of(line)
            if outline.is_call and outline.id is not None:
                self._pending.add(outline.id)
            headers = [(b"content-type", b"application/json")]
            try:
                async with self._posting.request("POST", headers, line) as response:
                    if response.status >= 400:
                        logger.error("the server did not take a message: HTTP %d", response.status)
                        self._fail()
            except HTTPRelayError as error:
                logger.error("a message did not reach the server: %s", error)
                self._fail()

    def _fail(self) -> None:
        """Give the connection up: a request that did not arrive must not be waited for."""
        if self._reading is not None:
            self._reading.cancel()

    async def aclose(self) -> None:
        """Wait for the answers that are owed, then close: nothing else says that the client has no more to say."""
        while self._pending and not self.from_server.closed:
            self._settled.clear()
            await self._settled.wait()
        self.abort()

    def abort(self) -> None:
        """Close the connection."""
        self._closing = True
        if self._reading is not None:
            self._reading.cancel()

    def signal(self, number: int) -> None:
        """Do nothing: the server is no process of this machine."""

    async def stop(self, *, signalled: bool = False) -> int:
        """Close the connection. Returns 0, or 1 when it was lost before."""
        lost = self.from_server.closed and not self._closing
        self.abort()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await self._stack.aclose()
        return 1 if lost else 0

    def kill(self) -> None:
        """Close the connection at once."""
        self.abort()
