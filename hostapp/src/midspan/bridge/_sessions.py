"""A session of the handshake revisions over HTTP, with a connection of lines to the server behind it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
from dataclasses import dataclass
from typing import Final

from midspan.bridge._stream import Stream
from midspan.bridge._text import one_line, outlined
from midspan.http import REQUEST_CANCELLED, RefusedError
from midspan.relay import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    Aside,
    Connection,
    JSONFaultError,
    Judge,
    LineQueue,
    Message,
    MessageId,
    as_id,
    error_message,
    object_or_empty,
    read,
    relay,
    write,
)

logger = logging.getLogger("midspan.gateway")

_KEPT_STREAMS: Final = 64
_KEPT_BYTES: Final = 8 * 1024 * 1024
"""How many finished streams can still be resumed, and how many bytes they have together."""
_MOST_PENDING: Final = 1000
"""How many requests of a session may wait for their answers."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that waits for its answer."""

    stream: Stream
    token: MessageId | None


class Session:
    """One client's session.

    Args:
        connection: the server's; the session ends it.
        judge: decides on each message.
        state: names what interceptors keep for the session.

    Attributes:
        id: what the client knows it by.
        state: as above.
        standalone: what the server says that answers nothing.
        using: how many HTTP requests are part of it right now.
        over: whether nothing more is taken: the server is gone, or going.
        running: done when the server is gone.
    """

    def __init__(self, connection: Connection, judge: Judge, state: str) -> None:
        self.id = secrets.token_hex(16).encode()
        self.state = state
        self.standalone = Stream(0)
        self.using = 0
        self.over = False
        self._connection = connection
        self._inbox = LineQueue()
        self._numbers = itertools.count(1)
        self._streams: dict[int, Stream] = {}
        self._pending: dict[MessageId, _Asked] = {}
        self._tokens: dict[MessageId, MessageId] = {}
        self.running = asyncio.create_task(self._run(judge))

    async def _run(self, judge: Judge) -> None:
        server = self._connection
        try:
            with contextlib.suppress(BrokenPipeError):
                await relay(self._inbox, self, server.to_server, server.from_server, judge)
        finally:
            # The clients first: a server may take its time to end.
            self.over = True
            self._inbox.close()
            self._finish()
            try:
                await server.stop()
            finally:
                server.kill()

    def _finish(self) -> None:
        for message_id in list(self._pending):
            self._fail(message_id, CONNECTION_CLOSED, "midspan: the session has ended")
        self.standalone.finish()

    async def end(self) -> None:
        """End the session, and the server with it."""
        if not self.over:
            self.running.cancel()
        await asyncio.wait({self.running})

    # From the client

    async def ask(self, message: Message, line: bytes, *, takes_events: bool) -> Stream:
        """Take a request. Return the stream that ends with its answer.

        Raises:
            RefusedError: its id is in use, or too many wait already.
            BrokenPipeError: the server is gone.
        """
        assert message.id is not None
        if message.id in self._pending:
            raise RefusedError(400, INVALID_REQUEST, "the id is already in use")
        if len(self._pending) >= _MOST_PENDING:
            raise RefusedError(429, INVALID_REQUEST, "too many requests of the session wait for their answers")
        if self._inbox.closed:
            raise BrokenPipeError
        stream = Stream(next(self._numbers), takes_events=takes_events)
        token = as_id(object_or_empty(message.params_or_empty().get("_meta")).get("progressToken"))
        self._pending[message.id] = _Asked(stream, token)
        self._streams[stream.number] = stream
        if token is not None:
            self._tokens[token] = message.id
        await self._inbox.send(line)
        return stream

    async def tell(self, message: Message, line: bytes) -> None:
        """Take what is not answered.

        Raises:
            BrokenPipeError: the server is gone.
        """
        await self._inbox.send(line)
        cancelled = message.cancels()
        if cancelled is not None:
            self._fail(cancelled, REQUEST_CANCELLED, "Request cancelled")

    def stream(self, number: int) -> Stream | None:
        """Return a stream that can be resumed; 0 is what answers no request."""
        return self._streams.get(number) if number else self.standalone

    def forget_streams(self) -> None:
        """Forget the finished streams that nobody can resume, and the oldest when there are too many."""
        done = [stream for stream in self._streams.values() if stream.finished and stream.reader is None]
        resumable = [stream for stream in done if stream.resumable]
        size = sum(stream.size for stream in resumable)
        count = len(resumable)
        for stream in done:
            if not stream.resumable:
                del self._streams[stream.number]
            elif count > _KEPT_STREAMS or (size > _KEPT_BYTES and count > 1):
                del self._streams[stream.number]
                size -= stream.size
                count -= 1

    # To the client: the session is where the relay writes to

    async def send(self, line: bytes) -> None:
        """Give a message to the stream that it belongs to."""
        if isinstance(line, Aside):
            await self._give_aside(line)
            return
        for part in line.split(b"\n"):  # a refused batch has several answers
            await self._give(part)

    async def _give(self, line: bytes) -> None:
        outline = outlined(line)
        if outline is None:
            logger.warning("dropped a line from the server that is no message")
        elif outline.is_call:
            try:
                params = object_or_empty(object_or_empty(read(line).value).get("params"))
            except JSONFaultError as fault:
                logger.warning("dropped a message from the server: %s", fault.reason)
            else:
                await self._where(as_id(params.get("progressToken"))).send(one_line(line))
        elif outline.id is None or (stream := self._close(outline.id)) is None:
            logger.debug("dropped an answer to a request that nobody waits for")
        else:
            try:
                stream.put(one_line(line), last=True)
            except JSONFaultError as fault:
                text = f"midspan: the answer is {fault.reason}"
                stream.put(write(error_message(outline.id, CONNECTION_CLOSED, text)), last=True)

    async def _give_aside(self, line: Aside) -> None:
        """Give what the gateway itself says to the stream of the request that it is about."""
        asked = self._pending.get(line.about) if line.about is not None else None
        stream = asked.stream if asked is not None and asked.stream.takes_events else self._where(None)
        await stream.send(line)

    def _fail(self, message_id: MessageId, code: int, text: str) -> None:
        if (stream := self._close(message_id)) is not None:
            stream.put(write(error_message(message_id, code, text)), last=True)

    def _close(self, message_id: MessageId) -> Stream | None:
        asked = self._pending.pop(message_id, None)
        if asked is None:
            return None
        if asked.token is not None and self._tokens.get(asked.token) == message_id:
            del self._tokens[asked.token]
        return asked.stream

    def _where(self, token: MessageId | None) -> Stream:
        """Return the stream for what the server says by itself, with a progress token or without.

        Progress belongs to the request whose token it has. Of the rest nothing tells to which request it belongs; a
        server says most of it while it works on one, and the newest is the likeliest. What nobody reads now goes where
        the client will look for it.
        """
        if token is not None and (owner := self._tokens.get(token)) is not None:
            asked = self._pending[owner]
            if asked.stream.takes_events:
                return asked.stream
        newest = [asked.stream for asked in reversed(self._pending.values()) if asked.stream.takes_events]
        for stream in newest:
            if stream.reader is not None:
                return stream
        if self.standalone.reader is not None:
            return self.standalone
        return next((stream for stream in newest if stream.resumable), self.standalone)

    async def aclose(self) -> None:
        """Do nothing: the streams end with the session."""

    def abort(self) -> None:
        """Do nothing: the streams end with the session."""
