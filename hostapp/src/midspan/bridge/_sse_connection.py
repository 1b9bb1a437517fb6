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

from midspan._web import url_fault
from midspan.bridge._text import LISTEN, message_of, one_line, outlines, requested
from midspan.http import (
    REDIRECTS,
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
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    ConnectError,
    JSONFaultError,
    LineQueue,
    MessageId,
    OversizedLine,
    error_message,
    outline_of_text,
    write,
)

logger = logging.getLogger("midspan.gateway")

_ENDPOINT_WITHIN: Final = 30.0
"""Seconds for the server to name its endpoint."""
_GOODBYE: Final = 1.0
_COMMON: Final = ((b"user-agent", b"midspan"), (b"accept-encoding", b"identity"))
_GET: Final = ((b"accept", b"text/event-stream"), *_COMMON)
_POST: Final = ((b"content-type", b"application/json"), *_COMMON)
_KEPT_GIVEN_UP: Final = 1024


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
        self._subscriptions: set[MessageId] = set()
        self._given_up: dict[MessageId, None] = {}
        self._settled = asyncio.Event()
        self._closing = False
        self._reading: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._left = False

    async def open(self) -> Self:
        """Open the stream and wait for the endpoint.

        Raises:
            ConnectError: there is no such stream.
        """
        try:
            stream = await self._stack.enter_async_context(Upstream(self._url, self._headers))
            self._reading = asyncio.create_task(self._read(stream))
            self._reading.add_done_callback(self._ended)
            try:
                async with asyncio.timeout(_ENDPOINT_WITHIN):
                    endpoint = await asyncio.shield(self._endpoint)
            except TimeoutError:
                raise self._unnamed() from None
            self._posting = await self._stack.enter_async_context(Upstream(endpoint, self._headers))
        except HTTPRelayError as error:
            await self.stop()
            raise ConnectError(str(error)) from error
        except BaseException:
            await self.stop()
            raise
        return self

    def _unnamed(self) -> UpstreamError:
        return UpstreamError(f"{shown_url(self._url)} does not say where to post messages")

    def _ended(self, reading: asyncio.Task[None]) -> None:
        if not reading.cancelled() and (error := reading.exception()) is not None:
            logger.error("the server's stream could not be relayed", exc_info=error)
        if not self._endpoint.done():
            self._endpoint.set_exception(self._unnamed())
            self._endpoint.exception()  # whoever waits gets it; nobody may
        self.from_server.close()
        self._settled.set()

    async def _read(self, stream: Upstream) -> None:
        try:
            async with stream.request("GET", _GET) as response:
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
        if response.status in REDIRECTS:
            location = shown_url(value(response.headers, b"location") or b"")
            raise UpstreamError(f"{shown_url(self._url)} redirects to {location}; use that URL")
        if response.status in (401, 403):
            raise UpstreamError(
                f"{shown_url(self._url)} does not let the client in (HTTP {response.status}); "
                "give credentials with --header"
            )
        if response.status != 200 or media_type(value(response.headers, b"content-type")) != "text/event-stream":
            raise UpstreamError(f"{shown_url(self._url)} is no SSE stream (HTTP {response.status})")

    async def _take(self, event: Event) -> None:
        if isinstance(event, OversizedEvent):
            outline = outline_of_text(event.head, event.tail)
            if outline.is_answer and outline.id is not None:
                self._settle(outline.id)
            await self.from_server.send(OversizedLine(event.head, event.tail))
        elif event.data is None:
            return
        elif event.name == b"endpoint":
            if not self._endpoint.done():
                self._endpoint.set_result(self._same_origin(event.data))
        elif event.name in (b"", b"message") and event.data.strip():
            try:
                await self._give(one_line(event.data))
            except JSONFaultError as fault:
                logger.warning("dropped an event: %s", fault.reason)

    async def _give(self, line: bytes) -> None:
        found = outlines(line)
        if not found:
            raise JSONFaultError("no JSON-RPC message")
        answered = [outline.id for outline in found if not outline.is_call and outline.id is not None]
        if len(found) == len(answered) == 1 and answered[0] in self._given_up:
            del self._given_up[answered[0]]
            return  # it was answered with an error
        for message_id in answered:
            self._settle(message_id)
        await self.from_server.send(line)

    def _settle(self, message_id: MessageId) -> None:
        self._pending.discard(message_id)
        self._subscriptions.discard(message_id)
        self._settled.set()

    def _same_origin(self, endpoint: bytes) -> str:
        """Return the endpoint's URL; credentials must not go to another server because this one says so."""
        try:
            url = urljoin(self._url, endpoint.decode("utf-8").strip())
        except ValueError:
            url = ""
        if url_fault(url) is not None:
            raise UpstreamError(f"{shown_url(self._url)} names an endpoint that is no URL to post to")
        if _origin(url) != _origin(self._url):
            raise UpstreamError(f"{shown_url(self._url)} names an endpoint of another server")
        return url

    @property
    def to_server(self) -> Self:
        """The writer: the object itself."""
        return self

    async def send(self, line: bytes) -> None:
        """Post a message, and wait until the server has it. A request that it does not take is answered with an error.

        Raises:
            BrokenPipeError: the stream is gone, and with it all answers.
        """
        async with self._turn:
            if self._posting is None or self.from_server.closed:
                raise BrokenPipeError
            message = message_of(line)
            ids = requested(line, message)
            self._pending.update(ids)
            if message is not None and message.method == LISTEN:
                self._subscriptions.update(ids)
            for message_id in ids:
                self._given_up.pop(message_id, None)
            if message is not None and (cancelled := message.cancels()) is not None:
                self._settle(cancelled)  # it may stay without an answer
            try:
                async with self._posting.request("POST", _POST, line) as response:
                    status = response.status
            except HTTPRelayError as error:
                logger.warning("a message did not reach the server: %s", error)
                await self._fail(ids, CONNECTION_CLOSED, str(error))
            else:
                if status >= 300:
                    logger.warning("the server did not take a message: HTTP %d", status)
                    await self._fail(ids, INTERNAL_ERROR, f"the server refused the request (HTTP {status})")

    async def _fail(self, ids: list[MessageId], code: int, text: str) -> None:
        """Answer requests that the server did not take; should it answer nevertheless, that is dropped."""
        for message_id in ids:
            if message_id in self._pending:
                self._settle(message_id)
                self._given_up[message_id] = None
                if len(self._given_up) > _KEPT_GIVEN_UP:
                    del self._given_up[next(iter(self._given_up))]
                await self.from_server.send(write(error_message(message_id, code, f"midspan: {text}")))

    async def aclose(self) -> None:
        """Wait for the answers that are owed, then close: nothing else says that the client has no more to say."""
        while self._pending - self._subscriptions and not self.from_server.closed:
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
        await self._leave()
        return 1 if lost else 0

    async def _leave(self) -> None:
        self._left = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await self._stack.aclose()

    def kill(self) -> None:
        """Close the connection at once."""
        self.abort()
        if not self._left:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())


def _origin(url: str) -> tuple[str, str | None, int | None]:
    split = urlsplit(url)
    return split.scheme, split.hostname, split.port or {"http": 80, "https": 443}.get(split.scheme)
