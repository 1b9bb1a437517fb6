"""The endpoint of an HTTP front whose server is reached over lines: a command, an older transport, a server object."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import uuid
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Final, Self

import anyio

from midspan.bridge._respond import accepts_events, respond, write_events
from midspan.bridge._sessions import Session
from midspan.bridge._shared import SharedConnection, SharedRequest
from midspan.bridge._stream import Stream
from midspan.bridge._text import one_line, outlined
from midspan.http import (
    HEADER_MISMATCH,
    METHOD_HEADER,
    NAME_HEADER,
    SESSION_HEADER,
    TARGETS,
    Budget,
    Catalogs,
    Client,
    ClientGoneError,
    DisagreementError,
    Headers,
    IdleMap,
    RefusedError,
    Reservation,
    check,
    id_in,
    is_stateless,
    media_type,
    principal_of,
    value,
    values,
)
from midspan.interception import (
    PROTOCOL_VERSION_KEY,
    ChainJudge,
    ConnectionContext,
    Deciding,
    Denials,
    LearntTools,
    acts,
    learns_tools,
)
from midspan.relay import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NEVER,
    Backend,
    ConnectError,
    JSONFaultError,
    Judge,
    LineQueue,
    Message,
    PassAll,
    RestartPolicy,
    Supervised,
    classify,
    object_or_empty,
    read,
    relay,
)
from midspan_sdk import Principal
from midspan_sdk.events import INITIALIZE

logger = logging.getLogger("midspan.gateway")

_BUDGETS: Final = 4
_IDLE: Final = 3600.0
"""Seconds after which a session without a request under way is ended, and its server with it."""
_MOST: Final = 1000
"""Sessions, and connections of principals, that are kept at once; each may be a process."""
_METHODS: Final = ("GET", "POST", "DELETE")
_CANCELLED: Final = "notifications/cancelled"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_STATUS: Final = {-32700: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, -32020: 400, -32021: 400, -32022: 400}
"""HTTP statuses that 2026-07-28 gives to errors; others are answered with 200."""

BackendOf = Callable[[Headers], Backend]


class BridgeEndpoint:
    """Serves HTTP clients; use it as an async context manager.

    A session of the handshake revisions has a connection to the server of its own. Requests of 2026-07-28 share one for
    each principal.

    Args:
        backend: opens connections; given a request's headers, for credentials that get on.
        chain: decides on every message; None relays only.
        server: the server's name.
        denials: what the sender of a blocked message is told.
        max_message: the longest message in bytes.
        restart: whether a server that ends during a session is started anew.
        coerce_input_schemas: give an `inputSchema` also to tools that the server itself listed without one.
    """

    def __init__(
        self,
        backend: BackendOf,
        chain: Deciding | None,
        server: str,
        denials: Denials | None = None,
        *,
        max_message: int,
        restart: RestartPolicy = NEVER,
        coerce_input_schemas: bool = False,
    ) -> None:
        self._backend = backend
        self._chain = chain
        self._server = server
        self._denials = denials
        self._limit = max_message
        self._restart = restart
        self._coerce = coerce_input_schemas
        self._budget = Budget(_BUDGETS * max_message)
        self._sessions = IdleMap[Session](
            idle=_IDLE, most=_MOST, forget=self._forget, is_busy=lambda session: session.using > 0
        )
        self._shared = IdleMap[SharedConnection](
            idle=_IDLE, most=_MOST, forget=self._end_shared, is_busy=lambda shared: shared.busy
        )
        self._catalogs = Catalogs(idle=_IDLE, most=_MOST)
        self._opening: dict[Principal, asyncio.Lock] = {}
        self._states: dict[Session, str] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._streams: set[anyio.CancelScope] = set()
        self._stopping = False

    async def __aenter__(self) -> Self:
        """Make ready. No server is started yet."""
        if self._chain is not None and not (self._coerce or acts(self._chain)):
            self._chain = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all sessions and their servers."""
        self._sessions.clear()
        self._shared.clear()
        self._catalogs.clear()
        while self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)

    def stop(self) -> None:
        """End the streams that are open for what a server may want to say; requests go on."""
        self._stopping = True
        for scope in self._streams:
            scope.cancel()

    async def serve(self, client: Client) -> None:
        """Answer one request."""
        if client.method not in _METHODS:
            await client.answer(405, headers=[(b"allow", ", ".join(_METHODS).encode())])
            return
        body = b""
        with Reservation() as room:
            try:
                body = await client.body(self._limit, self._budget, room)
                await self._serve(client, body)
            except ClientGoneError:
                pass
            except RefusedError as refused:
                logger.warning("refused a request: %s", refused.reason)
                if not client.started:
                    await client.refuse(refused.status, refused.code, refused.reason, id_in(body))

    async def _serve(self, client: Client, body: bytes) -> None:
        if client.method != "POST":
            if body:
                raise RefusedError(400, INVALID_REQUEST, f"a {client.method} request takes no body")
            await self._without_message(client)
            return
        message, line = _read(client, body)
        if is_stateless(client.headers):
            await self._alone(client, message, line)
        elif message.method == INITIALIZE and message.kind == "request" and self._session_id(client) is None:
            await self._begin(client, message, line)
        else:
            await self._go_on(client, message, line)

    # The handshake revisions

    @staticmethod
    def _session_id(client: Client) -> bytes | None:
        return value(client.headers, SESSION_HEADER)

    def _session_of(self, client: Client) -> tuple[bytes, Session]:
        session_id = self._session_id(client)
        if session_id is None:
            raise RefusedError(400, INVALID_REQUEST, "the request names no session; begin with initialize")
        session = self._sessions.get(session_id)
        if session is None or session.over:
            self._sessions.pop(session_id)
            raise RefusedError(404, INVALID_REQUEST, "there is no such session; begin with initialize")
        return session_id, session

    async def _begin(self, client: Client, message: Message, line: bytes) -> None:
        state = uuid.uuid4().hex
        try:
            connection = await Supervised.open(self._backend(client.headers), limit=self._limit, policy=self._restart)
        except ConnectError as error:
            logger.error("%s", error)
            raise RefusedError(502, CONNECTION_CLOSED, str(error)) from None
        session = Session(connection, self._judge(principal_of(client.headers), state))
        self._states[session] = state
        session_id = secrets.token_hex(16).encode()
        self._sessions.put(session_id, session)
        stream = await session.ask(message, line, takes_events=accepts_events(client))
        await self._answer(client, session, stream, headers=[(SESSION_HEADER, session_id)])
        if stream.finished and _is_error(stream.only_answer() or b""):
            self._sessions.pop(session_id)

    async def _go_on(self, client: Client, message: Message, line: bytes) -> None:
        _, session = self._session_of(client)
        try:
            if message.kind != "request":
                await session.tell(line)
                await client.answer(202)
                return
            assert message.id is not None
            if session.is_pending(message.id):
                raise RefusedError(400, INVALID_REQUEST, "the id is already in use")
            stream = await session.ask(message, line, takes_events=accepts_events(client))
        except BrokenPipeError:
            raise RefusedError(404, INVALID_REQUEST, "the session has ended; begin with initialize") from None
        await self._answer(client, session, stream)

    async def _answer(self, client: Client, session: Session, stream: Stream, *, headers: Headers = ()) -> None:
        session.using += 1
        try:
            # A client that is gone has not cancelled: it may come back for the rest.
            scope = anyio.CancelScope()
            await client.unless_gone(
                respond(client, stream, headers=headers, resumable=True, status_of=lambda _: 200), scope
            )
        finally:
            session.using -= 1

    async def _without_message(self, client: Client) -> None:
        if is_stateless(client.headers):
            await client.answer(405, headers=[(b"allow", b"POST")])
            return
        session_id, session = self._session_of(client)
        if client.method == "DELETE":
            self._sessions.pop(session_id)
            await client.answer(200)
            return
        if not accepts_events(client):
            raise RefusedError(406, INVALID_REQUEST, "the request does not accept text/event-stream")
        await self._listen(client, session)

    async def _listen(self, client: Client, session: Session) -> None:
        stream, after = session.standalone, session.standalone.read
        last = value(client.headers, b"last-event-id")
        if last is not None:
            number, _, event = last.partition(b"-")
            resumed = session.stream(int(number)) if number.isdigit() and event.isdigit() else None
            if resumed is None:
                raise RefusedError(400, INVALID_REQUEST, "there is no such event to go on from")
            stream, after = resumed, int(event)
        elif stream.reader is not None:
            raise RefusedError(409, INVALID_REQUEST, "the session has such a stream already")
        stream.attach(client, after)
        scope = anyio.CancelScope()
        self._streams.add(scope)
        session.using += 1
        try:
            if not self._stopping:
                await client.unless_gone(write_events(client, stream, resumable=True), scope)
        finally:
            session.using -= 1
            self._streams.discard(scope)
            stream.detach(client)
        if self._stopping and client.started and not client.finished:
            await client.finish()

    # 2026-07-28

    async def _alone(self, client: Client, message: Message, line: bytes) -> None:
        if message.kind in ("result", "error"):
            raise RefusedError(400, INVALID_REQUEST, "clients of this revision answer nothing")
        if message.kind == "notification" and message.method == _CANCELLED:
            # Closing the response is what cancels here; by an id that others use too, one could cancel theirs.
            await client.answer(202)
            return
        _check_alone(client.headers, message)
        principal = principal_of(client.headers)
        try:
            shared = await self._shared_by(principal, client.headers)
        except ConnectError as error:
            logger.error("%s", error)
            raise RefusedError(502, CONNECTION_CLOSED, str(error)) from None
        try:
            shared.stamps.check(client.headers, message)
        except DisagreementError as error:
            raise RefusedError(400, HEADER_MISMATCH, str(error)) from None
        judge = self._judge(principal, principal.id, self._tools_of(principal))
        request, stream = shared.request(), Stream(takes_events=accepts_events(client))
        if message.kind == "notification":
            await _exchange(line, stream, request, judge)
            await client.answer(202)
            return
        exchange = asyncio.create_task(_exchange(line, stream, request, judge))
        try:
            await client.unless_gone(
                respond(client, stream, resumable=False, status_of=_status_of), anyio.CancelScope()
            )
        finally:
            exchange.cancel()
            await asyncio.wait({exchange})
            await request.cancel()

    async def _shared_by(self, principal: Principal, headers: Headers) -> SharedConnection:
        known = self._shared.get(principal)
        if known is not None and not known.over:
            return known
        lock = self._opening.setdefault(principal, asyncio.Lock())
        try:
            async with lock:
                known = self._shared.get(principal)
                if known is not None and not known.over:
                    return known
                connection = await Supervised.open(self._backend(headers), limit=self._limit, policy=self._restart)
                shared = SharedConnection(connection)
                self._shared.put(principal, shared)
                return shared
        finally:
            if not lock.locked():
                self._opening.pop(principal, None)

    # Judges and ends

    def _tools_of(self, principal: Principal) -> LearntTools | None:
        learns = self._chain is not None and learns_tools(self._chain)
        return self._catalogs.of(principal.id) if learns else None

    def _judge(self, principal: Principal, session: str | None, tools: LearntTools | None = None) -> Judge:
        if self._chain is None:
            return PassAll()
        flow = principal.id or f"anonymous:{session or uuid.uuid4().hex}"
        context = ConnectionContext(server=self._server, principal=principal, flow=flow, session=session)
        return ChainJudge(self._chain, context, self._denials, tools=tools, coerce_input_schemas=self._coerce)

    def _forget(self, session: Session) -> None:
        state = self._states.pop(session, None)
        self._later(self._end_session(session, state))

    async def _end_session(self, session: Session, state: str | None) -> None:
        await session.end()
        if state is not None and self._chain is not None:
            self._chain.end_session(state)

    def _end_shared(self, shared: SharedConnection) -> None:
        self._later(shared.stop())

    def _later(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Answer:
    """Where the relay writes what the server says to one request."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    async def send(self, line: bytes) -> None:
        """Give a message to the stream, which ends with the answer."""
        outline = outlined(line)
        if outline is None:
            return
        try:
            await self._stream.send(one_line(line))
        except JSONFaultError as fault:
            logger.warning("dropped a line from the server: %s", fault.reason)
            return
        if not outline.is_call:
            self._stream.finish()

    async def aclose(self) -> None:
        """Do nothing: the stream ends with the answer."""

    def abort(self) -> None:
        """Do nothing: the stream ends with the answer."""


async def _exchange(line: bytes, stream: Stream, request: SharedRequest, judge: Judge) -> None:
    """Relay one request and what comes of it."""
    said = LineQueue()
    said.put(line)
    said.close()
    try:
        await relay(said, _Answer(stream), request.to_server, request.from_server, judge)
    finally:
        stream.finish()


def _read(client: Client, body: bytes) -> tuple[Message, bytes]:
    """Read a body. What two readers may take for different messages goes no further, whoever judges it."""
    types = values(client.headers, b"content-type")
    if len(types) != 1 or media_type(types[0]) != "application/json":
        raise RefusedError(415, INVALID_REQUEST, "the body must be application/json")
    if any(encoding.lower() not in (b"", b"identity") for encoding in values(client.headers, b"content-encoding")):
        raise RefusedError(415, INVALID_REQUEST, "an encoded body cannot be read; send it without")
    try:
        document = read(body)
        if document.duplicates:
            raise JSONFaultError(document.fault or "ambiguous", INVALID_REQUEST)
        return classify(document.value), one_line(body)
    except JSONFaultError as fault:
        raise RefusedError(400, fault.code, f"refused the message: {fault.reason}") from None


def _check_alone(headers: Headers, message: Message) -> None:
    """Check what a server of 2026-07-28 checks of a request before anything else.

    Here it also keeps the connection that several clients share in its era: the first request a server gets decides.
    """
    params = message.params_or_empty()
    meta = object_or_empty(params.get("_meta"))
    if message.method == INITIALIZE:
        raise RefusedError(404, METHOD_NOT_FOUND, "this revision has no initialize")
    if message.kind == "request":
        missing = [key for key in (PROTOCOL_VERSION_KEY, _CAPABILITIES_KEY) if key not in meta]
        if missing:
            raise RefusedError(400, INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
        if not isinstance(meta[PROTOCOL_VERSION_KEY], str):
            raise RefusedError(400, INVALID_PARAMS, f"{PROTOCOL_VERSION_KEY} in params._meta is no string")
    try:
        if value(headers, METHOD_HEADER) is None and message.kind == "request":
            raise DisagreementError("the header mcp-method is missing")
        target = TARGETS.get(message.method)
        if target in params and value(headers, NAME_HEADER) is None:
            raise DisagreementError("the header mcp-name is missing")
        check(headers, message.envelope)
    except DisagreementError as error:
        raise RefusedError(400, HEADER_MISMATCH, str(error)) from None


def _status_of(answer: bytes) -> int:
    if b'"error"' not in answer:
        return 200
    error = object_or_empty(object_or_empty(json.loads(answer)).get("error"))
    code: object = error.get("code")
    if code == METHOD_NOT_FOUND:
        return 404
    return _STATUS.get(code, 200) if isinstance(code, int) else 200


def _is_error(answer: bytes) -> bool:
    return b'"error"' in answer and "error" in object_or_empty(json.loads(answer))
