"""A session of the handshake revisions over HTTP, with a connection of lines to the server behind it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import OrderedDict
from typing import Final

from midspan.bridge._stream import Stream
from midspan.bridge._text import one_line, outlined
from midspan.relay import (
    CONNECTION_CLOSED,
    Connection,
    JSONFaultError,
    Judge,
    LineQueue,
    Message,
    MessageId,
    classify,
    error_message,
    object_or_empty,
    read,
    relay,
    write,
)

logger = logging.getLogger("midspan.gateway")

_KEPT_STREAMS: Final = 64
"""How many finished streams can still be resumed."""

Token = str | int | float


class Session:
    """One client's session.

    Args:
        connection: the server's; the session ends it.
        judge: decides on each message.

    Attributes:
        standalone: what the server says that answers nothing.
        using: how many HTTP requests are part of it right now.
    """

    def __init__(self, connection: Connection, judge: Judge) -> None:
        self.standalone = Stream(0)
        self.using = 0
        self._connection = connection
        self._inbox = LineQueue()
        self._numbers = itertools.count(1)
        self._streams: OrderedDict[int, Stream] = OrderedDict()
        self._pending: dict[MessageId, Stream] = {}
        self._tokens: dict[Token, MessageId] = {}
        self._running = asyncio.create_task(self._run(judge))

    @property
    def over(self) -> bool:
        """Whether the server is gone."""
        return self._running.done()

    async def _run(self, judge: Judge) -> None:
        server = self._connection
        try:
            with contextlib.suppress(BrokenPipeError):
                await relay(self._inbox, self, server.to_server, server.from_server, judge)
        finally:
            self._inbox.close()
            try:
                await server.stop()
            finally:
                server.kill()
                await self._finish()

    async def _finish(self) -> None:
        for message_id, stream in self._pending.items():
            await stream.send(write(error_message(message_id, CONNECTION_CLOSED, "midspan: the session has ended")))
        for stream in (*self._streams.values(), self.standalone):
            stream.finish()
        self._pending.clear()

    async def end(self) -> None:
        """End the session, and the server with it."""
        self._running.cancel()
        await asyncio.wait({self._running})

    # From the client

    def is_pending(self, message_id: MessageId) -> bool:
        """Tell whether a request with this id waits for its answer."""
        return message_id in self._pending

    async def ask(self, message: Message, line: bytes, *, takes_events: bool) -> Stream:
        """Take a request. Return the stream that ends with its answer.

        Raises:
            BrokenPipeError: the server is gone.
        """
        assert message.id is not None
        stream = Stream(next(self._numbers), takes_events=takes_events)
        self._pending[message.id] = stream
        self._streams[stream.number] = stream
        self._forget_streams()
        token: object = object_or_empty(message.params_or_empty().get("_meta")).get("progressToken")
        if isinstance(token, str | int | float):
            self._tokens[token] = message.id
        await self._inbox.send(line)
        return stream

    async def tell(self, line: bytes) -> None:
        """Take what is not answered.

        Raises:
            BrokenPipeError: the server is gone.
        """
        await self._inbox.send(line)

    def stream(self, number: int) -> Stream | None:
        """Return a stream that can be resumed."""
        return self._streams.get(number) if number else self.standalone

    def _forget_streams(self) -> None:
        finished = [number for number, stream in self._streams.items() if stream.finished]
        for number in finished[: max(0, len(finished) - _KEPT_STREAMS)]:
            del self._streams[number]

    # To the client: the session is where the relay writes to

    async def send(self, line: bytes) -> None:
        """Give a message to the stream that it belongs to."""
        for part in line.split(b"\n"):  # a refused batch has several answers
            await self._give(part)

    async def _give(self, line: bytes) -> None:
        outline = outlined(line)
        try:
            if outline is None:
                raise JSONFaultError("no message")
            text = one_line(line)
        except JSONFaultError as fault:
            if outline is None or outline.is_call or outline.id is None:
                logger.warning("dropped a line from the server: %s", fault.reason)
                return
            text = write(error_message(outline.id, CONNECTION_CLOSED, f"midspan: the answer is {fault.reason}"))
        if outline.is_call:
            await self._where(text).send(text)
            return
        stream = self._pending.pop(outline.id, None) if outline.id is not None else None
        if stream is None:
            logger.warning("dropped an answer to a request that nobody waits for")
            return
        self._tokens = {token: asker for token, asker in self._tokens.items() if asker != outline.id}
        await stream.send(text)
        stream.finish()

    def _where(self, line: bytes) -> Stream:
        """Return the stream for what the server says by itself.

        Progress belongs to the request whose token it has. Of the rest nothing tells to which request it belongs; a
        server says most of it while it works on one, and the newest is the likeliest.
        """
        if b"progressToken" in line and (owner := self._pending.get(self._owner(line))) and owner.takes_events:
            return owner
        waiting = (stream for stream in reversed(self._pending.values()) if stream.takes_events and stream.reader)
        return next(waiting, self.standalone)

    def _owner(self, line: bytes) -> MessageId:
        try:
            token: object = classify(read(line).value).params_or_empty().get("progressToken")
        except JSONFaultError:
            return ""
        return self._tokens.get(token, "") if isinstance(token, str | int | float) else ""

    async def aclose(self) -> None:
        """Do nothing: the streams end with the session."""

    def abort(self) -> None:
        """Do nothing: the streams end with the session."""
