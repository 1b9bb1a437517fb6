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

from midspan.bridge._stamps import Stamps, version_of
from midspan.bridge._text import one_line
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
    EDGE,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    JSONFaultError,
    LineQueue,
    Message,
    MessageId,
    OversizedLine,
    as_id,
    classify,
    error_message,
    object_or_empty,
    outline_of,
    outline_of_text,
    read,
    write,
)
from midspan_sdk.events import INITIALIZE, TOOLS_LIST

logger = logging.getLogger("midspan.gateway")

_POST: Final = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
_GET: Final = ((b"accept", b"text/event-stream"),)
_EVENT_STREAM: Final = "text/event-stream"
_RETRY: Final = 1.0
"""Seconds before a stream is resumed, when the server does not say."""
_LONGEST_RETRY: Final = 30.0
_RESUMES: Final = 5
"""How often in a row resuming may fail."""
_GOODBYE: Final = 1.0
"""Seconds for telling the server that the session is over."""
_CANCELLED: Final = "notifications/cancelled"
_INITIALIZED: Final = "notifications/initialized"


class _Cursor:
    """How far a stream was read."""

    def __init__(self) -> None:
        self.last: bytes | None = None
        self.retry = _RETRY
        self.answered = False

    def note(self, event: Event) -> None:
        """Note an event's id, and when to come back."""
        for field, text in event.fields():
            if field == b"id" and b"\0" not in text:
                self.last = text
            elif field == b"retry" and text.isdigit():
                self.retry = min(int(text[:9]) / 1000, _LONGEST_RETRY)


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
        self._posts: set[asyncio.Task[None]] = set()
        self._requests: dict[MessageId, asyncio.Task[None]] = {}
        self._listening: asyncio.Task[None] | None = None
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
            await self._ready.wait()
            if self._lost or self.from_server.closed:
                raise BrokenPipeError
            message = _message(line)
            if message is not None and message.method == _CANCELLED and self._is_stateless(message):
                self._abandon(message)
            elif (request_id := _request_id(message, line)) is not None:
                await self._begin(line, message, request_id)
            else:
                await self._tell(line, message)

    def _is_stateless(self, message: Message) -> bool:
        """Tell whether a message is of the era in which closing the response's stream is what cancels a request.

        A notification may name no version there; then the session tells, which that era does not have.
        """
        version = version_of(message)
        return version not in HANDSHAKE_VERSIONS if version is not None else self._version is None

    def _abandon(self, message: Message) -> None:
        cancelled = as_id(message.params_or_empty().get("requestId"))
        if cancelled is not None and (task := self._requests.get(cancelled)) is not None:
            task.cancel()

    async def _begin(self, line: bytes, message: Message | None, request_id: MessageId) -> None:
        sent = asyncio.Event()
        initializes = message is not None and message.method == INITIALIZE
        if initializes:
            self._ready.clear()
        task = self._spawn(self._request(line, message, request_id, sent))
        self._requests[request_id] = task
        task.add_done_callback(lambda _: self._ended(request_id, task, sent, initializes=initializes))
        await sent.wait()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        return task

    def _ended(
        self, request_id: MessageId, task: asyncio.Task[None], sent: asyncio.Event, *, initializes: bool
    ) -> None:
        sent.set()
        if initializes:
            self._ready.set()
        if self._requests.get(request_id) is task:
            del self._requests[request_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a message could not be relayed", exc_info=error)

    async def _request(self, line: bytes, message: Message | None, request_id: MessageId, sent: asyncio.Event) -> None:
        """Post a request and take its answer; without one, give an error."""
        cursor = _Cursor()
        try:
            async with self._upstream.request("POST", self._fields(message), line, when_sent=sent.set) as response:
                await self._take(response, cursor, message, request_id)
            await self._resume(cursor, request_id)
        except (HTTPRelayError, DisagreementError) as error:
            await self._give_error(request_id, INTERNAL_ERROR, str(error))
        except JSONFaultError as fault:
            await self._give_error(request_id, INTERNAL_ERROR, f"the server's answer is {fault.reason}")
        except BrokenPipeError:
            pass

    def _fields(self, message: Message | None) -> Headers:
        stamps = self._stamps.of(message) if message is not None else []
        return [*_POST, *self._session_fields(with_version=not stamps), *stamps]

    def _session_fields(self, *, with_version: bool = True) -> list[tuple[bytes, bytes]]:
        fields: list[tuple[bytes, bytes]] = []
        if self._session is not None:
            fields.append((SESSION_HEADER, self._session))
        if self._version is not None and with_version:
            fields.append((VERSION_HEADER, self._version))
        return fields

    async def _tell(self, line: bytes, message: Message | None) -> None:
        """Post what is not answered, and wait until the server has it."""
        try:
            async with self._upstream.request("POST", self._fields(message), line) as response:
                if response.status >= 400:
                    logger.warning("the server did not take a message: HTTP %d", response.status)
                    await self._check_session(response.status)
        except (HTTPRelayError, DisagreementError) as error:
            logger.warning("a message did not reach the server: %s", error)
        if message is not None and message.method == _INITIALIZED and self._session is not None:
            self._listening = self._spawn(self._listen())

    # From the server

    async def _take(
        self, response: UpstreamResponse, cursor: _Cursor, message: Message | None, request_id: MessageId
    ) -> None:
        method = message.method if message is not None else ""
        if method == INITIALIZE and response.status < 400:
            self._session = value(response.headers, SESSION_HEADER)
        if response.status in REDIRECTS:
            raise UpstreamError(
                f"the server redirects to {shown_url(value(response.headers, b'location') or b'')}; use that URL"
            )
        kind = media_type(value(response.headers, b"content-type"))
        if response.status < 400 and kind == _EVENT_STREAM:
            await self._events(response, cursor, method)
            return
        body, tail = await self._body(response)
        if response.status >= 400:
            await self._refused(response.status, body, request_id)
        elif tail is not None:
            await self._give_oversized(body, tail, request_id)
        elif kind == "application/json" and body.strip():
            await self._give(one_line(body), method)
        else:
            raise UpstreamError(f"the server gave no answer (HTTP {response.status})")
        cursor.answered = True

    async def _body(self, response: UpstreamResponse) -> tuple[bytes, bytes | None]:
        """Read a whole body, or of one that is too long its two ends."""
        body = bytearray()
        tail: bytes | None = None
        async for chunk in response.chunks:
            if tail is not None:
                tail = (tail + chunk[-EDGE:])[-EDGE:]
                continue
            body += chunk
            if len(body) > self._limit:
                tail = bytes(body[-EDGE:])
                del body[EDGE:]
        return bytes(body), tail

    async def _refused(self, status: int, body: bytes, request_id: MessageId) -> None:
        """Give the error of a refused request: the server's own, or what its status says."""
        try:
            error: object = object_or_empty(read(body).value).get("error")
        except JSONFaultError:
            error = None
        if isinstance(error, dict):
            message = object_or_empty(read(body).value)
            named = message.get("id") is not None
            await self._give(one_line(body) if named else write({**message, "id": request_id}), "")
        elif status == 404 and self._session is None:
            await self._give_error(request_id, METHOD_NOT_FOUND, "the server does not know the method (HTTP 404)")
        elif status in (401, 403):
            await self._give_error(
                request_id,
                INTERNAL_ERROR,
                f"the server does not let the client in (HTTP {status}); give credentials with --header",
            )
        else:
            await self._give_error(request_id, INTERNAL_ERROR, f"the server refused the request (HTTP {status})")
        await self._check_session(status)

    async def _check_session(self, status: int) -> None:
        if status == 404 and self._session is not None:
            logger.error("the server has ended the session")
            self._lost = True
            self._session = None
            self.from_server.close()

    async def _events(
        self, response: UpstreamResponse, cursor: _Cursor, method: str = "", *, up_to_answer: bool = True
    ) -> None:
        """Give what a stream says, up to an answer or until it breaks off."""
        splitter = EventSplitter(self._limit)
        try:
            async for chunk in response.chunks:
                for event in splitter.feed(chunk):
                    cursor.note(event)
                    cursor.answered = await self._event(event, method) or cursor.answered
                if cursor.answered and up_to_answer:
                    return
        except UpstreamError as error:
            logger.debug("%s", error)

    async def _event(self, event: Event, method: str) -> bool:
        """Give what an event says. Return whether that is an answer."""
        if isinstance(event, OversizedEvent):
            await self.from_server.send(OversizedLine(event.head, event.tail))
            return outline_of_text(event.head, event.tail).is_answer
        if event.data is None or not event.data.strip() or event.name not in (b"", b"message"):
            return False
        try:
            line = one_line(event.data)
        except JSONFaultError as fault:
            logger.warning("dropped an event: %s", fault.reason)
            return False
        answers = _is_answer(line)
        await self._give(line, method if answers else "")
        return answers

    async def _give(self, line: bytes, method: str) -> None:
        if method == INITIALIZE:
            self._note_version(line)
        elif method == TOOLS_LIST:
            self._stamps.learn(line)
        await self.from_server.send(line)

    def _note_version(self, answer: bytes) -> None:
        with contextlib.suppress(JSONFaultError):
            result = object_or_empty(object_or_empty(read(answer).value).get("result"))
            version: object = result.get("protocolVersion")
            if isinstance(version, str):
                self._version = encode(version)

    async def _give_error(self, request_id: MessageId, code: int, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            await self.from_server.send(write(error_message(request_id, code, f"midspan: {text}")))

    async def _give_oversized(self, head: bytes, tail: bytes, request_id: MessageId) -> None:
        if outline_of_text(head, tail).id is not None:
            await self.from_server.send(OversizedLine(head, tail))
        else:
            await self._give_error(request_id, INTERNAL_ERROR, "the answer is longer than the limit")

    # Streams that break off

    async def _resume(self, cursor: _Cursor, request_id: MessageId) -> None:
        """Go on with a stream that ended before the answer, as long as the server lets it be resumed."""
        failures = 0
        while not cursor.answered:
            if cursor.last is None or failures >= _RESUMES:
                await self._give_error(request_id, CONNECTION_CLOSED, "the server's stream ended before the answer")
                return
            await asyncio.sleep(cursor.retry)
            before = cursor.last
            try:
                await self._get(cursor, up_to_answer=True)
            except UpstreamError as error:
                logger.debug("%s", error)
            failures = failures + 1 if cursor.last == before else 0

    async def _get(self, cursor: _Cursor, *, up_to_answer: bool) -> int:
        """Open a stream and give what it says. Return the HTTP status."""
        resumed = [(b"last-event-id", cursor.last)] if cursor.last is not None else []
        fields = [*_GET, *self._session_fields(), *resumed]
        async with self._upstream.request("GET", fields) as response:
            kind = media_type(value(response.headers, b"content-type"))
            if response.status < 400 and kind == _EVENT_STREAM:
                await self._events(response, cursor, up_to_answer=up_to_answer)
            return response.status

    async def _listen(self) -> None:
        """Keep the stream open on which the server says what answers nothing."""
        cursor = _Cursor()
        failures = 0
        while True:
            status = 0
            before = asyncio.get_running_loop().time()
            with contextlib.suppress(UpstreamError):
                status = await self._get(cursor, up_to_answer=False)
            if 400 <= status < 500:
                return  # the server has no such stream, or the session is over
            lasted = asyncio.get_running_loop().time() - before > _LONGEST_RETRY
            failures = 0 if lasted or status else failures + 1
            await asyncio.sleep(min(cursor.retry * 2**failures, _LONGEST_RETRY))

    # The end

    async def aclose(self) -> None:
        """Let what is under way finish: the client has no more to say."""
        if self._listening is not None:
            self._listening.cancel()
        while self._posts:
            await asyncio.wait(self._posts)
        self.from_server.close()

    def abort(self) -> None:
        """Drop what is under way."""
        for task in self._posts:
            task.cancel()
        self.from_server.close()

    def signal(self, number: int) -> None:
        """Do nothing: the server is no process of this machine."""

    async def stop(self, *, signalled: bool = False) -> int:
        """Drop what is under way, and end the session."""
        lost = self._lost
        self.abort()
        await asyncio.gather(*self._posts, return_exceptions=True)
        if self._session is not None:
            with contextlib.suppress(TimeoutError, HTTPRelayError):
                async with asyncio.timeout(_GOODBYE):
                    async with self._upstream.request("DELETE", [*self._session_fields()]):
                        pass
            self._session = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                await self._upstream.__aexit__()
        return 1 if lost else 0

    def kill(self) -> None:
        """Drop everything at once."""
        self.abort()


def _message(line: bytes) -> Message | None:
    try:
        return classify(read(line).value)
    except JSONFaultError:
        return None


def _request_id(message: Message | None, line: bytes) -> MessageId | None:
    """Return the id of a request; None for what is not answered. What cannot be read is judged by its ends."""
    if message is not None:
        return message.id if message.kind == "request" else None
    outline = outline_of(line)
    return outline.id if outline.is_call else None


def _is_answer(line: bytes) -> bool:
    outline = outline_of(line)
    if outline.is_call or outline.is_answer:
        return not outline.is_call
    message = _message(line)
    return message is not None and message.kind in ("result", "error")
