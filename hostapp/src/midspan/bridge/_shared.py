"""One connection to a server that several requests of 2026-07-28 share.

In that era a request stands alone, and over HTTP its answer comes on its own response. A server behind lines has one
line for all of them. So ids and progress tokens are replaced on the way there, and restored on the way back; a
subscription's id is its request's.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from typing import Final, Self

from midspan.bridge._splice import Span, spans, splice
from midspan.bridge._stamps import Stamps
from midspan.bridge._text import LISTEN, outlined
from midspan.relay import (
    CANCELLED,
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    Connection,
    JSONFaultError,
    LineQueue,
    MessageId,
    OversizedLine,
    classify,
    error_message,
    object_or_empty,
    outline_of_text,
    read,
    write,
)
from midspan_sdk.events import TOOLS_LIST

logger = logging.getLogger("midspan.gateway")

_ID: Final = ("id",)
_TOKEN: Final = ("params", "_meta", "progressToken")
_PROGRESS: Final = ("params", "progressToken")
_CANCELLED_ID: Final = ("params", "requestId")
_SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
_SUBSCRIPTIONS: Final = (("params", "_meta", _SUBSCRIPTION_KEY), ("result", "_meta", _SUBSCRIPTION_KEY))
_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
_LOGGED: Final = "notifications/message"
_MOST_SAYING: Final = 64
"""How many messages of the gateway's own may wait for a server that does not read."""
_MOST_UNREAD: Final = 16 * 1024 * 1024
"""Bytes that may wait for a client that does not read."""


class SharedRequest:
    """One request, as a connection of its own.

    Attributes:
        from_server: what the server says to it; ends with the answer.
        number: its id towards the server, once it was sent.
        method: what it asks for.
        wants_logs: whether it asks for log messages.
        id: its id, as the client wrote it.
        token: its progress token, as the client wrote it.
    """

    def __init__(self, shared: SharedConnection) -> None:
        self.from_server = LineQueue()
        self.number: int | None = None
        self.method = ""
        self.wants_logs = False
        self.id = b"null"
        self.token = b"null"
        self._shared = shared

    @property
    def to_server(self) -> Self:
        """The writer: the object itself."""
        return self

    async def send(self, line: bytes) -> None:
        """Send the request, or what else is said.

        Raises:
            BrokenPipeError: the server is gone.
        """
        await self._shared.send(self, line)

    async def aclose(self) -> None:
        """Say that no more is sent. What was not sent is not answered."""
        if self.number is None:
            self.from_server.close()

    def abort(self) -> None:
        """Take no more."""
        self.from_server.abort()

    def cancel(self) -> None:
        """Tell the server that nobody waits for the answer any more, if it owes one."""
        self._shared.cancel(self)


class SharedConnection:
    """The connection.

    Args:
        connection: the server's; this object ends it.

    Attributes:
        stamps: know which arguments stand in headers, from the listings that passed.
        reading: done when the server has said all.
    """

    def __init__(self, connection: Connection) -> None:
        self.stamps = Stamps()
        self._connection = connection
        self._numbers = itertools.count(1)
        self._requests: dict[int | float, SharedRequest] = {}
        self._over = False
        self._saying: set[asyncio.Task[None]] = set()
        self.reading = asyncio.create_task(self._read())

    @property
    def over(self) -> bool:
        """Whether the server is gone."""
        return self._over

    @property
    def busy(self) -> bool:
        """Whether a request waits for an answer."""
        return bool(self._requests)

    def request(self) -> SharedRequest:
        """Return a connection for one request."""
        return SharedRequest(self)

    # To the server

    async def send(self, request: SharedRequest, line: bytes) -> None:
        """Send a request's message.

        Raises:
            BrokenPipeError: the server is gone.
        """
        if self._over:
            raise BrokenPipeError
        ids = spans(line, *_ID)
        if not ids:
            await self._connection.to_server.send(line)
            return
        tokens = spans(line, *_TOKEN)
        message = object_or_empty(read(line).value)
        meta = object_or_empty(object_or_empty(message.get("params")).get("_meta"))
        request.method = str(message.get("method"))
        request.wants_logs = _LOG_LEVEL in meta
        request.id = line[slice(*ids[-1])]
        if tokens:
            request.token = line[slice(*tokens[-1])]
        request.number = next(self._numbers)
        self._requests[request.number] = request
        number = b"%d" % request.number
        await self._connection.to_server.send(splice(line, [(span, number) for span in (*ids, *tokens)]))

    def cancel(self, request: SharedRequest) -> None:
        """Tell the server that a request is cancelled, if it waits for an answer."""
        if request.number is not None and self._requests.pop(request.number, None) is not None:
            self._say({"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": request.number}})

    def _say(self, message: dict[str, object]) -> None:
        """Send a message without waiting: the server may not read before somebody reads what it says."""
        if len(self._saying) >= _MOST_SAYING:
            logger.error("the server does not read; a message to it is dropped")
            return
        task = asyncio.create_task(self._said(write(message)))
        self._saying.add(task)
        task.add_done_callback(self._saying.discard)

    async def _said(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the server is gone, and waits for nothing
            await self._connection.to_server.send(line)

    # From the server

    async def _read(self) -> None:
        try:
            async for line in self._connection.from_server:
                try:
                    self._take(line)
                except Exception:  # one odd message must not end what others wait for
                    logger.exception("dropped a message from the server that could not be passed on")
        finally:
            self._over = True
            for request in self._requests.values():
                self._fail(request, "the server ended before it answered")
            self._requests.clear()

    def _take(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            outline = outline_of_text(line.head, line.tail)
            if outline.is_answer and (request := self._answered(outline.id)) is not None:
                self._fail(request, "the answer is longer than the limit")
            else:
                logger.error("dropped a message from the server: longer than the limit")
            return
        outline = outlined(line)
        if outline is None:
            logger.warning("dropped a line from the server that is no message")
        elif not outline.is_call:
            self._answer(line, outline.id)
        elif outline.id is not None:
            # This era has no requests of servers; one that waits for an answer would wait for ever.
            self._say(error_message(outline.id, METHOD_NOT_FOUND, "midspan: clients of this era take no requests"))
        else:
            self._notify(line)

    def _known(self, number: object) -> SharedRequest | None:
        return self._requests.get(number) if isinstance(number, int | float) and number is not True else None

    def _answered(self, number: object) -> SharedRequest | None:
        request = self._known(number)
        if request is not None and request.number is not None:
            del self._requests[request.number]
        return request

    def _answer(self, line: bytes, message_id: MessageId | None) -> None:
        request = self._answered(message_id)
        if request is None:
            logger.debug("dropped an answer to a request that nobody waits for")
            return
        if request.method == TOOLS_LIST:
            self.stamps.learn(line)
        replaced = [(span, request.id) for span in spans(line, *_ID)]
        self._deliver(request, splice(line, [*replaced, *_subscriptions(line, request)]), last=True)

    def _notify(self, line: bytes) -> None:
        try:
            message = classify(read(line).value)
        except JSONFaultError as fault:
            logger.warning("dropped a message from the server: %s", fault.reason)
            return
        params = message.params_or_empty()
        subscription: object = object_or_empty(params.get("_meta")).get(_SUBSCRIPTION_KEY)
        replaced: list[tuple[Span, bytes]] = []
        if "progressToken" in params:
            request = self._known(params["progressToken"])
            if request is not None:
                replaced = [(span, request.token) for span in spans(line, *_PROGRESS)]
        elif message.method == CANCELLED:
            request = self._answered(params.get("requestId"))
            if request is not None:
                replaced = [(span, request.id) for span in spans(line, *_CANCELLED_ID)]
        elif subscription is not None:
            request = self._known(subscription)
        else:
            request = self._newest(wants_logs=message.method == _LOGGED)
        if request is None:
            logger.debug("dropped a notification of the server that nobody waits for")
            return
        line = splice(line, [*replaced, *_subscriptions(line, request)])
        self._deliver(request, line, last=message.method == CANCELLED)

    def _newest(self, *, wants_logs: bool) -> SharedRequest | None:
        """Return whom a message goes to that does not say to whom; all who share the connection are one principal."""
        open_ones = [one for one in reversed(self._requests.values()) if one.method != LISTEN]
        return next((one for one in open_ones if one.wants_logs or not wants_logs), None)

    def _deliver(self, request: SharedRequest, line: bytes, *, last: bool = False) -> None:
        """Hand a message over. A client that does not read must not hold what the others wait for."""
        if request.from_server.closed:
            return
        unread = request.from_server.put(line) - len(line)
        if last:
            request.from_server.close()
        elif unread > _MOST_UNREAD:
            logger.error("gave up a request whose client does not read")
            request.from_server.close()
            self.cancel(request)

    def _fail(self, request: SharedRequest, text: str) -> None:
        error = write(error_message(None, CONNECTION_CLOSED, f"midspan: {text}"))
        self._deliver(request, splice(error, [(span, request.id) for span in spans(error, *_ID)]), last=True)

    # The end

    async def stop(self) -> None:
        """End the connection in an orderly way."""
        try:
            await self._connection.stop()
        finally:
            tasks = [self.reading, *self._saying]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _subscriptions(line: bytes, request: SharedRequest) -> list[tuple[Span, bytes]]:
    """Return where a message names the request as its subscription."""
    if _SUBSCRIPTION_KEY.encode() not in line:
        return []
    number = b"%d" % (request.number or 0)
    found = [span for path in _SUBSCRIPTIONS for span in spans(line, *path)]
    return [(span, request.id) for span in found if line[slice(*span)] == number]
