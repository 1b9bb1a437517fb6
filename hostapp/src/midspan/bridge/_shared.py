"""One connection to a server that several requests of 2026-07-28 share.

In that era a request stands alone, and over HTTP its answer comes on its own response. A server behind lines has one
line for all of them. So ids and progress tokens are replaced on the way there, and restored on the way back; a
subscription's id is its request's.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from typing import Any, Final, Self

from midspan.bridge._splice import Span, spans, splice
from midspan.bridge._stamps import Stamps
from midspan.bridge._text import outlined
from midspan.relay import (
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
_CANCELLED: Final = "notifications/cancelled"
_LOGGED: Final = "notifications/message"
_LISTEN: Final = "subscriptions/listen"
_MOST_UNREAD: Final = 16 * 1024 * 1024
"""Bytes that may wait for a client that does not read."""


class SharedRequest:
    """One request, as a connection of its own.

    Attributes:
        from_server: what the server says to it; ends with the answer.
    """

    def __init__(self, shared: SharedConnection) -> None:
        self.from_server = LineQueue()
        self.number: int | None = None
        self.wants_logs = False
        self.method = ""
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

    async def cancel(self) -> None:
        """Tell the server that nobody waits for the answer any more."""
        await self._shared.cancel(self)


class SharedConnection:
    """The connection.

    Args:
        connection: the server's; this object ends it.

    Attributes:
        stamps: know which arguments stand in headers, from the listings that passed.
    """

    def __init__(self, connection: Connection) -> None:
        self.stamps = Stamps()
        self._connection = connection
        self._numbers = itertools.count(1)
        self._requests: dict[int, SharedRequest] = {}
        self._reading = asyncio.create_task(self._read())

    @property
    def over(self) -> bool:
        """Whether the server is gone."""
        return self._reading.done()

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
        if self.over:
            raise BrokenPipeError
        ids = spans(line, *_ID)
        methods = spans(line, "method")
        if not ids or not methods:
            await self._connection.to_server.send(line)
            return
        number = request.number = next(self._numbers)
        tokens = spans(line, *_TOKEN)
        request.id = _text(line, ids)
        request.token = _text(line, tokens)
        params = object_or_empty(object_or_empty(read(line).value).get("params"))
        request.wants_logs = _LOG_LEVEL in object_or_empty(params.get("_meta"))
        request.method = str(json.loads(_text(line, methods)))
        self._requests[number] = request
        mine = b"%d" % number
        await self._connection.to_server.send(splice(line, [(span, mine) for span in (*ids, *tokens)]))

    async def cancel(self, request: SharedRequest) -> None:
        """Tell the server that a request is cancelled, if it waits for an answer."""
        if request.number is not None and self._requests.pop(request.number, None) is not None:
            message = {"jsonrpc": "2.0", "method": _CANCELLED, "params": {"requestId": request.number}}
            try:
                await self._connection.to_server.send(write(message))
            except BrokenPipeError:
                logger.debug("the server is gone; there is nothing to cancel")

    # From the server

    async def _read(self) -> None:
        try:
            async for line in self._connection.from_server:
                await self._take(line)
        finally:
            for request in list(self._requests.values()):
                await self._fail(request, "the server ended before it answered")
            self._requests.clear()

    async def _take(self, line: bytes | OversizedLine) -> None:
        if isinstance(line, OversizedLine):
            outline = outline_of_text(line.head, line.tail)
            request = self._answered(outline.id) if outline.is_answer else None
            if request is None:
                logger.error("dropped a message from the server: longer than the limit")
                return
            error = error_message(
                json.loads(request.id), CONNECTION_CLOSED, "midspan: the answer is longer than the limit"
            )
            await self._deliver(request, write(error), last=True)
            return
        outline = outlined(line)
        if outline is None:
            logger.warning("dropped a line from the server that is no message")
        elif not outline.is_call:
            await self._answer(line, outline.id)
        elif outline.id is not None:
            # This era has no requests of servers; one that waits for an answer would wait for ever.
            refusal = error_message(outline.id, METHOD_NOT_FOUND, "midspan: clients of this era take no requests")
            await self._connection.to_server.send(write(refusal))
        else:
            await self._notify(line)

    def _answered(self, message_id: MessageId | None) -> SharedRequest | None:
        return self._requests.pop(message_id, None) if isinstance(message_id, int) else None

    async def _answer(self, line: bytes, message_id: MessageId | None) -> None:
        request = self._answered(message_id)
        if request is None:
            logger.debug("dropped an answer to a request that nobody waits for")
            return
        if request.method == TOOLS_LIST:
            self.stamps.learn(line)
        replaced = [(span, request.id) for span in spans(line, *_ID)]
        await self._deliver(request, splice(line, [*replaced, *_subscriptions(line, request)]), last=True)

    async def _notify(self, line: bytes) -> None:
        try:
            message = classify(read(line).value)
        except JSONFaultError as fault:
            logger.warning("dropped a message from the server: %s", fault.reason)
            return
        params = message.params_or_empty()
        subscription: object = object_or_empty(params.get("_meta")).get(_SUBSCRIPTION_KEY)
        if "progressToken" in params:
            request = self._known(params["progressToken"])
            replaced = [(span, request.token) for span in spans(line, *_PROGRESS)] if request else []
        elif message.method == _CANCELLED:
            request = self._known(params.get("requestId"))
            replaced = [(span, request.id) for span in spans(line, *_CANCELLED_ID)] if request else []
        elif subscription is not None:
            request = self._known(subscription)
            replaced: list[tuple[Span, bytes]] = []
        else:
            request = self._newest(wants_logs=message.method == _LOGGED)
            replaced = []
        if request is None:
            logger.debug("dropped a notification of the server that nobody waits for")
            return
        last = message.method == _CANCELLED
        if last:
            self._answered(request.number)
        await self._deliver(request, splice(line, [*replaced, *_subscriptions(line, request)]), last=last)

    def _known(self, number: object) -> SharedRequest | None:
        return self._requests.get(number) if isinstance(number, int) and not isinstance(number, bool) else None

    def _newest(self, *, wants_logs: bool) -> SharedRequest | None:
        """Return whom a message goes to that does not say to whom; all who share the connection are one principal."""
        open_ones = [one for one in reversed(self._requests.values()) if one.method != _LISTEN]
        return next((one for one in open_ones if one.wants_logs or not wants_logs), None)

    async def _deliver(self, request: SharedRequest, line: bytes, *, last: bool = False) -> None:
        """Hand a message over. A client that does not read must not hold what the others wait for."""
        if request.from_server.closed:
            return
        waiting = request.from_server.put(line)
        if last:
            request.from_server.close()
        elif waiting > _MOST_UNREAD:
            logger.error("gave up a request whose client does not read")
            request.from_server.close()
            await self.cancel(request)

    async def _fail(self, request: SharedRequest, text: str) -> None:
        error = error_message(json.loads(request.id), CONNECTION_CLOSED, f"midspan: {text}")
        await self._deliver(request, write(error), last=True)

    # The end

    async def stop(self) -> None:
        """End the connection in an orderly way."""
        await self._connection.stop()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    def kill(self) -> None:
        """End the connection at once."""
        self._connection.kill()
        self._reading.cancel()


def _text(line: bytes, found: list[Span]) -> bytes:
    """Return the last of several values, as readers do; null when there is none."""
    return line[slice(*found[-1])] if found else b"null"


def _subscriptions(line: bytes, request: SharedRequest) -> list[tuple[Span, bytes]]:
    if _SUBSCRIPTION_KEY.encode() not in line:
        return []
    mine: Any = b"%d" % (request.number or 0)
    return [(span, request.id) for path in _SUBSCRIPTIONS for span in spans(line, *path) if line[slice(*span)] == mine]
