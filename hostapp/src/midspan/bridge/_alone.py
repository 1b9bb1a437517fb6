"""Requests of 2026-07-28: each stands alone, and all of a principal share one connection to the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio

from midspan.bridge._opening import IDLE, MOST, Opening
from midspan.bridge._reading import check_alone, status_of
from midspan.bridge._respond import accepts_events, respond
from midspan.bridge._shared import SharedConnection, SharedRequest
from midspan.bridge._stream import Stream
from midspan.bridge._text import LISTEN, one_line, outlined
from midspan.http import (
    HEADER_MISMATCH,
    Client,
    DisagreementError,
    Headers,
    IdleMap,
    RefusedError,
    principal_of,
)
from midspan.relay import (
    CANCELLED,
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    Connection,
    JSONFaultError,
    Judge,
    LineQueue,
    Message,
    MessageId,
    error_message,
    relay,
    write,
)
from midspan_sdk import Principal

logger = logging.getLogger("midspan.gateway")

_MOST_STATES: Final = 10_000
"""Principals whose state is kept at once."""


class AloneFront:
    """Serves requests that stand alone.

    Args:
        opening: opens the connections.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._shared = IdleMap[SharedConnection](
            idle=IDLE, most=MOST, forget=self._forget, is_busy=lambda shared: shared.busy
        )
        self._states = IdleMap[str](idle=IDLE, most=_MOST_STATES, forget=opening.end_state)
        self._connecting: dict[Principal, asyncio.Task[SharedConnection]] = {}
        self._listening: set[anyio.CancelScope] = set()
        self._stopping = False

    def start(self) -> None:
        """Begin, perhaps anew."""
        self._stopping = False

    def stop(self) -> None:
        """End the streams of subscriptions."""
        self._stopping = True
        for scope in self._listening:
            scope.cancel()

    def close(self) -> None:
        """End all connections."""
        self._shared.clear()
        self._states.clear()

    def not_allowed(self, client: Client) -> Callable[[], Awaitable[None]]:
        """Return what answers a request that carries no message."""
        return partial(client.answer, 405, headers=[(b"allow", b"POST")])

    async def take(self, client: Client, message: Message, line: bytes) -> Callable[[], Awaitable[None]]:
        """Check a message, and find the connection that it goes to. Return what sends it and writes the response.

        Raises:
            RefusedError: it cannot be taken.
        """
        if message.kind in ("result", "error"):
            raise RefusedError(400, INVALID_REQUEST, "clients of this revision answer nothing")
        if message.kind == "notification" and message.method == CANCELLED:
            # Closing the response is what cancels here; by an id that others use too, one could cancel theirs.
            return partial(client.answer, 202)
        check_alone(client.headers, message)
        if message.method == LISTEN:
            if not accepts_events(client):
                raise RefusedError(406, INVALID_REQUEST, "the request does not accept text/event-stream")
            if self._stopping:
                raise RefusedError(503, CONNECTION_CLOSED, "the gateway is stopping")
        principal = principal_of(client.headers)
        shared = await self._shared_by(principal, client.headers)
        try:
            shared.stamps.check(client.headers, message)
        except DisagreementError as error:
            raise RefusedError(400, HEADER_MISMATCH, str(error)) from None
        if principal.id is not None and self._states.get(principal.id) is None:
            self._states.put(principal.id, principal.id)
        exchange = _Exchange(shared.request(), line, message.id)
        judge = self._opening.judge(principal, principal.id, alone=True)
        if message.kind == "notification":
            await exchange.run(judge)
            return partial(client.answer, 202)
        return partial(self._answer, client, exchange, judge, listens=message.method == LISTEN)

    async def _answer(self, client: Client, exchange: _Exchange, judge: Judge, *, listens: bool) -> None:
        exchange.stream.takes_events = accepts_events(client)
        running = asyncio.create_task(exchange.run(judge))
        scope = anyio.CancelScope()
        if listens:
            self._listening.add(scope)
        try:
            work = respond(client, exchange.stream, resumable=False, status_of=status_of)
            await client.unless_gone(work, scope)
        finally:
            self._listening.discard(scope)
            running.cancel()
            try:
                await asyncio.wait({running})
            finally:
                exchange.request.cancel()
        if self._stopping and client.started and not client.finished:
            await client.finish()

    # Connections

    async def _shared_by(self, principal: Principal, headers: Headers) -> SharedConnection:
        known = self._shared.get(principal)
        if known is not None and not known.over:
            return known
        connecting = self._connecting.get(principal)
        if connecting is None:
            connecting = self._opening.connect(headers, partial(self._new, principal))
            self._connecting[principal] = connecting
            connecting.add_done_callback(lambda _: self._connecting.pop(principal, None))
        # Others wait for it too, so it goes on when this request is cancelled.
        await asyncio.wait({connecting})
        return connecting.result()

    def _new(self, principal: Principal, connection: Connection) -> SharedConnection:
        shared = SharedConnection(connection)
        self._shared.put(principal, shared)
        shared.reading.add_done_callback(lambda _: self._gone(principal, shared))
        return shared

    def _gone(self, principal: Principal, shared: SharedConnection) -> None:
        if self._shared.get(principal) is shared:
            self._shared.pop(principal)

    def _forget(self, shared: SharedConnection) -> None:
        self._opening.later(shared.stop())


class _Exchange:
    """One message, and what comes of it.

    Args:
        request: the connection.
        line: the message.
        message_id: its id; None for a notification.

    Attributes:
        request: as above.
        stream: what the client gets. The exchange is where the relay writes to.
    """

    def __init__(self, request: SharedRequest, line: bytes, message_id: MessageId | None) -> None:
        self.request = request
        self.stream = Stream()
        self._message_id = message_id
        self._said = LineQueue()
        self._said.put(line)
        self._said.close()

    async def run(self, judge: Judge) -> None:
        """Relay it until the answer is there."""
        try:
            await relay(self._said, self, self.request.to_server, self.request.from_server, judge)
        except Exception:
            logger.exception("a request could not be relayed")
        finally:
            error = error_message(self._message_id, CONNECTION_CLOSED, "midspan: the server ended before it answered")
            self.stream.put(write(error), last=True)

    async def send(self, line: bytes) -> None:
        """Give a message to the stream, which ends with the answer."""
        outline = outlined(line)
        if outline is None or (outline.is_call and not self.stream.takes_events):
            return
        try:
            text = one_line(line)
        except JSONFaultError as fault:
            logger.warning("dropped a line from the server: %s", fault.reason)
            return
        if outline.is_call:
            await self.stream.send(text)
        else:
            self.stream.put(text, last=True)

    async def aclose(self) -> None:
        """Do nothing: the stream ends with the answer."""

    def abort(self) -> None:
        """Do nothing: the stream ends with the answer."""
