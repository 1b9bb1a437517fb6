"""One request of a client, and the response to it, over ASGI."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Final

import anyio

from midspan.http._budget import Budget, Reservation
from midspan.http._errors import ClientGoneError, RefusedError
from midspan.http._headers import Headers, content_length, end_to_end, value
from midspan.relay import INVALID_REQUEST, MessageId, error_message, outline_of, write

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON_TYPE: Final = (b"content-type", b"application/json")
_STALLED: Final = 60.0
"""Seconds without a byte of a body that has begun."""
_WITHOUT_LENGTH: Final = frozenset({204, 304})


class Client:
    """A client's request.

    Args:
        scope: of the ASGI connection.
        receive: as ASGI has it.
        send: as ASGI has it.

    Attributes:
        method: the HTTP method.
        query: the query string, without the question mark.
        headers: what goes on: without the fields that belong to this connection alone.
        started: whether the response has begun.
        finished: whether it is complete.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._raw: Headers = scope["headers"]
        self.method: str = scope["method"]
        self.query: bytes = scope.get("query_string", b"")
        self.headers = end_to_end(self._raw, without=(b"host", b"content-length", b"expect"))
        self.started = False
        self.finished = False

    @property
    def host(self) -> bytes:
        """What the client dialled."""
        return value(self._raw, b"host") or b""

    async def body(self, limit: int, budget: Budget, reservation: Reservation) -> bytes:
        """Read the whole body.

        Args:
            limit: the longest body in bytes.
            budget: shared by all bodies.
            reservation: what this one takes of the budget; the caller gives it back.

        Raises:
            RefusedError: it is too long, or stalls.
            ClientGoneError: the client is gone.
        """
        declared = content_length(self._raw)
        if declared is not None and declared > limit:
            raise RefusedError(413, INVALID_REQUEST, f"the body is longer than {limit} bytes")
        # A body without a length may become as long as the limit; waiting for room with half of it read could wait
        # for ever for others that do the same.
        await budget.reserve(reservation, declared if declared is not None else (limit if self._is_chunked else 0))
        message = await (self._next() if reservation.held else self._receive())
        first: bytes = _chunk_of(message)
        if not message.get("more_body", False):
            return _within(first, limit)
        body = bytearray(first)
        while message.get("more_body", False):
            message = await self._next()
            body += _chunk_of(message)
            _within(body, limit)
        return bytes(body)

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(_STALLED):
                return await self._receive()
        except TimeoutError:
            raise RefusedError(408, INVALID_REQUEST, "the body did not come") from None

    @property
    def _is_chunked(self) -> bool:
        return value(self._raw, b"transfer-encoding") is not None

    async def unless_gone(self, work: Coroutine[Any, Any, None], scope: anyio.CancelScope) -> None:
        """Do something; cancel it as soon as the client is gone. To be called when the body was read.

        Args:
            work: what to do.
            scope: is cancelled then; whoever else cancels it stops the work too.
        """
        with scope:
            watching = asyncio.create_task(self._watch(scope))
            try:
                await work
            finally:
                watching.cancel()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while (await self._receive())["type"] != "http.disconnect":
                pass
            scope.cancel()

    async def start(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body; returns when there is room for more."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish(self, chunk: bytes = b"") -> None:
        """Send the last piece of the body."""
        self.finished = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def answer(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """Send a whole response.

        Args:
            status: the HTTP status.
            body: the whole body.
            headers: without `Content-Length`; by default they say that a body is JSON.
        """
        fields: list[tuple[bytes, bytes]] = list(headers) if headers is not None else [JSON_TYPE] * bool(body)
        if status not in _WITHOUT_LENGTH:
            fields.append((b"content-length", b"%d" % len(body)))
        await self.start(status, fields)
        await self.finish(body)

    async def refuse(self, status: int, code: int, reason: str, message_id: MessageId | None = None) -> None:
        """Send a JSON-RPC error."""
        await self.answer(status, write(error_message(message_id, code, f"midspan: {reason}")))


def id_in(body: bytes) -> MessageId | None:
    """Return the id of the request in a body, where it is certain."""
    outline = outline_of(body)
    return outline.id if outline.is_call else None


def _chunk_of(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    return message.get("body", b"")


def _within(body: Any, limit: int) -> Any:
    if len(body) > limit:
        raise RefusedError(413, INVALID_REQUEST, f"the body is longer than {limit} bytes")
    return body
