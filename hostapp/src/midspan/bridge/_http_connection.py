"""A server that speaks streamable HTTP, as a connection of lines.

Each line is posted, and each message of a response becomes a line. What an HTTP client owes the server is done here:
session and version headers, the stream for what the server may want to say, resumption, and the end of the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any, Final, Self

from midspan.bridge._exchange import Exchange, readdressed
from midspan.bridge._stamps import Stamps, version_of
from midspan.bridge._text import LISTEN, message_of, one_line, outlines, requested
from midspan.http import (
    HANDSHAKE_VERSIONS,
    REDIRECTS,
    SESSION_HEADER,
    VERSION_HEADER,
    DisagreementError,
    Event,
    EventSplitter,
    Headers,
    HTTPRelayError,
    OversizedEvent,
    Upstream,
    UpstreamError,
    UpstreamResponse,
    encode,
    media_type,
    shown_url,
    value,
)
from midspan.relay import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    JSONFaultError,
    LineQueue,
    Message,
    MessageId,
    OversizedLine,
    error_message,
    object_or_empty,
    outline_of_text,
    read,
    write,
)
from midspan_sdk.events import INITIALIZE, TOOLS_LIST

logger = logging.getLogger("midspan.gateway")

_COMMON: Final = ((b"user-agent", b"midspan"), (b"accept-encoding", b"identity"))
_POST: Final = (
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
    *_COMMON,
)
_GET: Final = ((b"accept", b"text/event-stream"), *_COMMON)
_EVENT_STREAM: Final = "text/event-stream"
_RETRY: Final = 1.0
"""Seconds before a stream is resumed, when the server does not say."""
_LONGEST_RETRY: Final = 30.0
"""Seconds to which waiting grows while the server cannot be reached."""
_LONGEST_ASKED: Final = 3600.0
"""Seconds that a server may ask to wait."""
_RESUMES: Final = 5
"""How often in a row resuming may fail."""
_LINGER: Final = 1.0
"""Seconds in which a stream may end after its answer; cut off before its end it takes the connection with it."""
_GOODBYE: Final = 1.0
"""Seconds for telling the server that the session is over."""
_INITIALIZED: Final = "notifications/initialized"
"""Is answered when the client ends it."""
_UNREACHABLE: Final = 503
_TRY_LATER: Final = frozenset({408, 409, 425, 429})
"""Client errors that pass: 409 is what a server says that has not noticed the end of the stream before."""


class _Cursor:
    """How far a stream was read.

    Attributes:
        last: the id of the last event, to go on after; None when the server gives none.
        retry: seconds after which to come back.
    """

    def __init__(self) -> None:
        self.last: bytes | None = None
        self.retry = _RETRY

    def note(self, event: Event) -> None:
        """Note an event's id, and when to come back."""
        for field, text in event.fields():
            if field == b"id" and b"\0" not in text:
                self.last = text or None
            elif field == b"retry" and text.isdigit():
                self.retry = min(int(text[:12]) / 1000, _LONGEST_ASKED)


class HTTPConnection:
    """One client's connection.

    Args:
        upstream: the server, entered by whoever opens the connection; left here.
        limit: the longest message in bytes.
    """

    def __init__(self, upstream: Upstream, *, limit: int) -> None:
        self.from_server = LineQueue()
        self._upstream = upstream
        self._limit = limit
        self._session: bytes | None = None
        self._version: bytes | None = None
        self._stamps = Stamps()
        self._turn = asyncio.Lock()
        self._ready = asyncio.Event()
        self._ready.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._exchanges: dict[MessageId, Exchange] = {}
        self._settled = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._left = False
        self._lost = False

    @property
    def to_server(self) -> Self:
        """The writer: the object itself."""
        return self

    # To the server

    async def send(self, line: bytes) -> None:
        """Post a message. Returns when it was written, so that what follows cannot overtake it.

        Raises:
            BrokenPipeError: the connection is closed, or the server has ended the session.
        """
        async with self._turn:
            message = message_of(line)
            if message is None or message.kind not in ("result", "error"):
                await self._ready.wait()
            if self._lost or self.from_server.closed:
                raise BrokenPipeError
            cancelled = message.cancels() if message is not None else None
            if message is not None and cancelled is not None and self._abandoned(cancelled, message):
                return
            if ids := requested(line, message):
                await self._begin(Exchange(line, message, ids))
            else:
                await self._tell(line, message)

    def _abandoned(self, cancelled: MessageId, message: Message) -> bool:
        """Note that nobody waits for an answer any more. Return whether the server knows by that already.

        So it does since 2026-07-28: closing the response's stream is what cancels a request. What does not tell its
        version itself is of the request's; without one, the session tells, which that era does not have.
        """
        exchange = self._exchanges.get(cancelled)
        version = version_of(message)
        if version is None and exchange is not None and exchange.message is not None:
            version = version_of(exchange.message)
        closes = version not in HANDSHAKE_VERSIONS if version is not None else self._version is None
        if exchange is not None:
            self._forget(exchange, cancelled)
            if closes and exchange.task is not None:
                exchange.task.cancel()
        return closes

    async def _begin(self, exchange: Exchange) -> None:
        if exchange.method == INITIALIZE:
            self._ready.clear()
            self._version = None  # it is negotiated anew
        for message_id in exchange.owed:
            if (older := self._exchanges.get(message_id)) is not None:
                self._forget(older, message_id)  # who uses an id again waits for the newer answer
            self._exchanges[message_id] = exchange
        exchange.task = task = self._spawn(self._request(exchange))
        task.add_done_callback(lambda _: self._over(exchange))
        await exchange.sent.wait()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _over(self, exchange: Exchange) -> None:
        exchange.sent.set()
        for message_id in list(exchange.owed):
            self._forget(exchange, message_id)
        self._noted(exchange)

    def _forget(self, exchange: Exchange, message_id: MessageId) -> None:
        """Note that a request needs no answer any more."""
        exchange.owed.pop(message_id, None)
        if self._exchanges.get(message_id) is exchange:
            del self._exchanges[message_id]
        self._noted(exchange)

    def _noted(self, exchange: Exchange) -> None:
        if not exchange.owed:
            self._settled.set()
            if exchange.method == INITIALIZE:
                self._ready.set()

    async def _request(self, exchange: Exchange) -> None:
        """Post a request and take its answer; without one, give an error."""
        try:
            exchange.fields = self._fields(exchange.message)
            cursor = _Cursor()
            async with self._upstream.request(
                "POST", exchange.fields, exchange.line, when_sent=exchange.sent.set
            ) as response:
                await self._take(response, cursor, exchange)
            await self._resume(cursor, exchange)
        except (HTTPRelayError, DisagreementError) as error:
            await self._fail(exchange, INTERNAL_ERROR, str(error))
        except JSONFaultError as fault:
            await self._fail(exchange, INTERNAL_ERROR, f"the server's answer is {fault.reason}")
        except BrokenPipeError:
            pass
        except Exception:
            logger.exception("a message could not be relayed")
            await self._fail(exchange, INTERNAL_ERROR, "the message could not be relayed")

    def _fields(self, message: Message | None) -> Headers:
        if message is None:
            return [*_POST, *self._session_fields()]
        if message.method == INITIALIZE:  # begins a session; nothing is negotiated yet
            return _POST
        if stamps := self._stamps.of(message, in_session=self._version is not None):
            return [*_POST, *stamps]
        return [*_POST, *self._session_fields()]

    def _session_fields(self) -> list[tuple[bytes, bytes]]:
        fields: list[tuple[bytes, bytes]] = []
        if self._session is not None:
            fields.append((SESSION_HEADER, self._session))
        if self._version is not None:
            fields.append((VERSION_HEADER, self._version))
        return fields

    async def _tell(self, line: bytes, message: Message | None) -> None:
        """Post what is not answered, and wait until the server has it."""
        try:
            fields = self._fields(message)
            async with self._upstream.request("POST", fields, line) as response:
                if response.status >= 300:
                    logger.warning("the server did not take a message: HTTP %d", response.status)
                    self._check_session(response.status, fields)
        except (HTTPRelayError, DisagreementError) as error:
            logger.warning("a message did not reach the server: %s", error)
        if message is not None and message.method == _INITIALIZED and self._session is not None:
            if self._listening is not None:
                self._listening.cancel()
            self._listening = self._spawn(self._listen())

    # From the server

    async def _take(self, response: UpstreamResponse, cursor: _Cursor, exchange: Exchange) -> None:
        if exchange.method == INITIALIZE and response.status < 300:
            self._session = value(response.headers, SESSION_HEADER)
        if response.status in REDIRECTS:
            raise UpstreamError(
                f"the server redirects to {shown_url(value(response.headers, b'location') or b'')}; use that URL"
            )
        kind = media_type(value(response.headers, b"content-type"))
        if response.status < 300 and kind == _EVENT_STREAM:
            await self._events(response, cursor, exchange)
            return
        body, tail = await response.read(self._limit)
        if response.status >= 300:
            await self._refused(response.status, body, exchange)
        elif tail is not None:
            await self._oversized(OversizedLine(body, tail), exchange)
        elif kind == "application/json" and body.strip():
            await self._give(one_line(body), exchange)
        await self._fail(exchange, INTERNAL_ERROR, f"the server gave no answer (HTTP {response.status})")

    async def _refused(self, status: int, body: bytes, exchange: Exchange) -> None:
        """Give the error of a refused request: the server's own, or what its status says."""
        own: dict[str, Any] = {}
        with contextlib.suppress(JSONFaultError):
            own = object_or_empty(object_or_empty(read(body).value).get("error"))
            if own:
                await self._give(one_line(body), exchange)
        code, text = INTERNAL_ERROR, f"the server refused the request (HTTP {status})"
        if status == 404 and value(exchange.fields, SESSION_HEADER) is None:
            code, text = METHOD_NOT_FOUND, "the server does not know the method (HTTP 404)"
        elif status == 404:
            code, text = CONNECTION_CLOSED, "the server has ended the session (HTTP 404)"
        elif status in (401, 403):
            text = f"the server does not let the client in (HTTP {status}); give credentials with --header"
        await self._fail(exchange, code, text)
        if own.get("code") != METHOD_NOT_FOUND:
            self._check_session(status, exchange.fields)

    def _check_session(self, status: int, sent: Headers) -> None:
        """Note the end of the session, which a server tells by refusing a message of it as unknown."""
        session = value(sent, SESSION_HEADER)
        if status == 404 and session is not None and session == self._session:
            logger.error("the server has ended the session")
            self._lost = True
            self._session = None
            text = "midspan: the server has ended the session"
            for message_id in self._exchanges:
                self.from_server.put(write(error_message(message_id, CONNECTION_CLOSED, text)))
            self._exchanges.clear()
            self.from_server.close()

    async def _events(self, response: UpstreamResponse, cursor: _Cursor, exchange: Exchange | None) -> None:
        """Give what a stream says, to its end, or not long after the answer, or until it breaks off."""
        splitter = EventSplitter(self._limit)
        try:
            async with asyncio.timeout(None) as patience:
                async for chunk in response.chunks:
                    for event in splitter.feed(chunk):
                        cursor.note(event)
                        await self._event(event, exchange)
                    if exchange is not None and exchange.answered and patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + _LINGER)
        except UpstreamError as error:
            logger.debug("%s", error)
        except TimeoutError:
            logger.debug("the server keeps a stream open behind its answer")

    async def _event(self, event: Event, exchange: Exchange | None) -> None:
        if isinstance(event, OversizedEvent):
            await self._oversized(OversizedLine(event.head, event.tail), exchange)
        elif event.data is not None and event.data.strip() and event.name in (b"", b"message"):
            try:
                await self._give(one_line(event.data), exchange)
            except JSONFaultError as fault:
                logger.warning("dropped an event: %s", fault.reason)

    async def _give(self, line: bytes, exchange: Exchange | None) -> None:
        """Give a message to the client.

        Args:
            line: the message.
            exchange: whose stream or body it came in, if that is one's.

        Raises:
            JSONFaultError: it is no message.
        """
        found = outlines(line)
        if not found:
            raise JSONFaultError("no JSON-RPC message")
        for outline in found:
            if outline.is_call:
                continue
            owner = self._exchanges.get(outline.id) if outline.id is not None else None
            if owner is not None and outline.id is not None:
                self._note(owner, line)
                exchange_id = outline.id
            elif exchange is not None and len(found) == len(exchange.owed) == 1 and line.lstrip().startswith(b"{"):
                # A server that refuses a request before it has read it does not know the id.
                owner = exchange
                exchange_id = next(iter(exchange.owed))
                line = readdressed(line, exchange)
            else:
                continue
            self._forget(owner, exchange_id)
            owner.answered = not owner.owed
        await self.from_server.send(line)

    def _note(self, exchange: Exchange, answer: bytes) -> None:
        """Note what later messages need of an answer."""
        if exchange.method == INITIALIZE:
            with contextlib.suppress(JSONFaultError, DisagreementError):
                result = object_or_empty(object_or_empty(read(answer).value).get("result"))
                version: object = result.get("protocolVersion")
                if isinstance(version, str):
                    self._version = encode(version)
        elif exchange.method == TOOLS_LIST:
            self._stamps.learn(answer)

    async def _oversized(self, line: OversizedLine, exchange: Exchange | None) -> None:
        outline = outline_of_text(line.head, line.tail)
        owner = self._exchanges.get(outline.id) if outline.id is not None and not outline.is_call else None
        if owner is not None and outline.id is not None:
            self._forget(owner, outline.id)
            owner.answered = not owner.owed
            await self.from_server.send(line)
        elif exchange is not None and outline.is_answer and not outline.is_call:
            await self._fail(exchange, INTERNAL_ERROR, "the answer is longer than the limit")
            exchange.answered = True
        else:
            await self.from_server.send(line)

    async def _fail(self, exchange: Exchange, code: int, text: str) -> None:
        """Answer whatever has no answer yet with an error."""
        with contextlib.suppress(BrokenPipeError):
            for message_id in list(exchange.owed):
                self._forget(exchange, message_id)
                await self.from_server.send(write(error_message(message_id, code, f"midspan: {text}")))

    # Streams that break off

    async def _resume(self, cursor: _Cursor, exchange: Exchange) -> None:
        """Go on with a stream that ended before the answer, as long as the server lets it be resumed."""
        failures = 0
        while exchange.owed:
            if cursor.last is None or failures >= _RESUMES:
                await self._fail(exchange, CONNECTION_CLOSED, "the server's stream ended before the answer")
                return
            await asyncio.sleep(cursor.retry)
            before = cursor.last
            with contextlib.suppress(UpstreamError):
                status = await self._get(cursor, exchange)
                if _is_final(status):
                    text = f"the server's stream ended before the answer, and cannot be resumed (HTTP {status})"
                    await self._fail(exchange, CONNECTION_CLOSED, text)
            failures = failures + 1 if cursor.last == before else 0

    async def _get(self, cursor: _Cursor, exchange: Exchange | None) -> int | None:
        """Open a stream and give what it says. Return None, or the HTTP status when there was no stream."""
        resumed = [(b"last-event-id", cursor.last)] if cursor.last is not None else []
        async with self._upstream.request("GET", [*_GET, *self._session_fields(), *resumed]) as response:
            kind = media_type(value(response.headers, b"content-type"))
            if response.status != 200 or kind != _EVENT_STREAM:
                return response.status
            await self._events(response, cursor, exchange)
            return None

    async def _listen(self) -> None:
        """Keep the stream open on which the server says what answers nothing."""
        cursor = _Cursor()
        failures = 0
        try:
            while True:
                status: int | None = _UNREACHABLE
                with contextlib.suppress(UpstreamError):
                    status = await self._get(cursor, None)
                if _is_final(status):
                    return  # the server has no such stream, or the session is over
                failures = 0 if status is None else min(failures + 1, 10)
                longest = max(cursor.retry, _LONGEST_RETRY)
                await asyncio.sleep(min(cursor.retry * 2**failures, longest))
        except HTTPRelayError as error:
            logger.warning("gave up listening to the server: %s", error)
        except BrokenPipeError:
            pass

    # The end

    async def aclose(self) -> None:
        """Let what is under way finish: the client has no more to say."""
        while any(exchange.method != LISTEN for exchange in self._exchanges.values()):
            self._settled.clear()
            await self._settled.wait()
        self.from_server.close()

    def abort(self) -> None:
        """Drop what is under way."""
        for task in self._tasks:
            task.cancel()
        self.from_server.close()

    def signal(self, number: int) -> None:
        """Do nothing: the server is no process of this machine."""

    async def stop(self, *, signalled: bool = False) -> int:
        """Drop what is under way, and end the session. Returns 1 when the server has ended it before, else 0."""
        self.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            fields = [*_COMMON, *self._session_fields()]
            self._session = None
            with contextlib.suppress(TimeoutError, HTTPRelayError):
                async with asyncio.timeout(_GOODBYE), self._upstream.request("DELETE", fields):
                    pass
        await self._leave()
        return 1 if self._lost else 0

    async def _leave(self) -> None:
        self._left = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await self._upstream.__aexit__()

    def kill(self) -> None:
        """Drop everything at once."""
        self.abort()
        if not self._left:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())


def _is_final(status: int | None) -> bool:
    """Tell whether a status in the place of a stream means that asking again is in vain."""
    return status is not None and status < 500 and status not in _TRY_LATER
