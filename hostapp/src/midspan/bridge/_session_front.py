"""Requests of the handshake revisions: each is part of a session, which has a connection to the server of its own."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio

from midspan.bridge._opening import IDLE, MOST, Opening
from midspan.bridge._reading import error_of
from midspan.bridge._respond import accepts_events, respond, write_events
from midspan.bridge._sessions import Session
from midspan.bridge._stream import Stream
from midspan.http import SESSION_HEADER, Client, Headers, IdleMap, RefusedError, principal_of, value
from midspan.relay import CONNECTION_CLOSED, INVALID_REQUEST, Connection, Message
from midspan_sdk.events import INITIALIZE

Answering = Callable[[], Awaitable[None]]
"""Writes the response to a request that was handed on."""

_EVENT_ID: Final = re.compile(rb"([0-9]{1,15})-([0-9]{1,15})")


class SessionFront:
    """Serves sessions.

    Args:
        opening: opens their connections.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._sessions = IdleMap[Session](
            idle=IDLE, most=MOST, forget=self._forget, is_busy=lambda session: session.using > 0
        )
        self._listening: set[anyio.CancelScope] = set()
        self._stopping = False

    def start(self) -> None:
        """Begin, perhaps anew."""
        self._stopping = False

    def stop(self) -> None:
        """End the streams that answer no request."""
        self._stopping = True
        for scope in self._listening:
            scope.cancel()

    def close(self) -> None:
        """End all sessions."""
        self._sessions.clear()

    def _forget(self, session: Session) -> None:
        self._opening.later(self._end(session))

    async def _end(self, session: Session) -> None:
        await session.end()
        self._opening.end_state(session.state)

    def _session_of(self, client: Client) -> Session:
        session_id = value(client.headers, SESSION_HEADER)
        if session_id is None:
            raise RefusedError(400, INVALID_REQUEST, "the request names no session; begin with initialize")
        session = self._sessions.get(session_id)
        if session is None or session.over:
            raise RefusedError(404, INVALID_REQUEST, "there is no such session; begin with initialize")
        return session

    # Messages

    async def take(self, client: Client, message: Message, line: bytes) -> Answering:
        """Hand a message on.

        Raises:
            RefusedError: it belongs to no session, or cannot be taken.
        """
        if message.method == INITIALIZE and message.kind == "request" and value(client.headers, SESSION_HEADER) is None:
            return await self._begin(client, message, line)
        session = self._session_of(client)
        try:
            if message.kind != "request":
                await session.tell(message, line)
                return partial(client.answer, 202)
            stream = await session.ask(message, line, takes_events=accepts_events(client))
        except BrokenPipeError:
            raise RefusedError(404, INVALID_REQUEST, "the session has ended; begin with initialize") from None
        return partial(self._answer, client, session, stream)

    async def _begin(self, client: Client, message: Message, line: bytes) -> Answering:
        connecting = self._opening.connect(client.headers, partial(self._new, client.headers))
        await asyncio.wait({connecting})
        session = connecting.result()
        stream = await session.ask(message, line, takes_events=accepts_events(client))
        return partial(self._answer_first, client, session, stream)

    def _new(self, headers: Headers, connection: Connection) -> Session:
        state = uuid.uuid4().hex
        session = Session(connection, self._opening.judge(principal_of(headers), state), state)
        self._sessions.put(session.id, session)
        session.running.add_done_callback(lambda _: self._sessions.pop(session.id))
        return session

    async def _answer_first(self, client: Client, session: Session, stream: Stream) -> None:
        try:
            await self._answer(client, session, stream, headers=[(SESSION_HEADER, session.id)])
        finally:
            # Without an answer nobody knows the session, and one that was refused is none.
            if not client.started or error_of(stream.answer() or b""):
                self._sessions.pop(session.id)

    async def _answer(self, client: Client, session: Session, stream: Stream, *, headers: Headers = ()) -> None:
        session.using += 1
        try:
            # A client that is gone has not cancelled: it may come back for the rest.
            work = respond(client, stream, headers=headers, resumable=True, status_of=lambda _: 200)
            await client.unless_gone(work, anyio.CancelScope())
        finally:
            self._leave(session)

    def _leave(self, session: Session) -> None:
        session.using -= 1
        session.forget_streams()
        self._sessions.get(session.id)  # idle from now on

    # Requests without a message

    def take_empty(self, client: Client) -> Answering:
        """Take a GET or a DELETE.

        Raises:
            RefusedError: it belongs to no session, or cannot be taken.
        """
        session = self._session_of(client)
        if client.method == "DELETE":
            self._sessions.pop(session.id)
            return partial(client.answer, 200)
        if not accepts_events(client):
            raise RefusedError(406, INVALID_REQUEST, "the request does not accept text/event-stream")
        if self._stopping:
            raise RefusedError(503, CONNECTION_CLOSED, "the gateway is stopping")
        stream, after = _wanted(client, session)
        stream.attach(client, after)
        return partial(self._listen, client, session, stream)

    async def _listen(self, client: Client, session: Session, stream: Stream) -> None:
        scope = anyio.CancelScope()
        self._listening.add(scope)
        session.using += 1
        try:
            await client.unless_gone(write_events(client, stream, resumable=True), scope)
        finally:
            self._listening.discard(scope)
            stream.detach(client)
            self._leave(session)
        if self._stopping and client.started and not client.finished:
            await client.finish()


def _wanted(client: Client, session: Session) -> tuple[Stream, int]:
    """Return the stream that a GET asks for, and the number of the last event that the client has of it."""
    last = value(client.headers, b"last-event-id")
    if last is None:
        if session.standalone.reader is not None:
            raise RefusedError(409, INVALID_REQUEST, "the session has such a stream already")
        return session.standalone, session.standalone.read
    event = _EVENT_ID.fullmatch(last)
    stream = session.stream(int(event[1])) if event else None
    if event is None or stream is None:
        raise RefusedError(400, INVALID_REQUEST, "there is no such event to go on from")
    return stream, int(event[2])
