"""One HTTP request whose messages are judged: its body, the JSON that answers it, every event of a stream."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from midspan.http._agreement import (
    HEADER_MISMATCH,
    METHOD_HEADER,
    DisagreementError,
    check,
    follow,
    repeats_body,
)
from midspan.http._budget import Budget, Reservation
from midspan.http._client import JSON_TYPE, Client
from midspan.http._conversation import CancelledRequestError, Conversation
from midspan.http._conversations import SESSION_HEADER, Conversations, is_stateless
from midspan.http._errors import RefusedError, UpstreamError
from midspan.http._headers import Headers, content_length, is_identity, media_type, value, values, without
from midspan.http._response_check import check_response
from midspan.http._spoken import SpokenTo
from midspan.http._sse import Event, EventSplitter, OversizedEvent
from midspan.http._upstream import Upstream, UpstreamResponse
from midspan.relay import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Action,
    JSONFaultError,
    Say,
    Side,
    error_message,
    id_of,
    object_or_empty,
    read,
    write,
)
from midspan_sdk.events import INITIALIZE

logger = logging.getLogger("midspan.gateway")

REQUEST_CANCELLED: Final = -32800
"""What servers of the handshake revisions answer a cancelled request with, since their streams end with an answer."""

_EVENT_STREAM: Final = "text/event-stream"
_JSON: Final = "application/json"
_LOOK_LIKE: Final = (b"json", b"event-stream")
_REPLACED: Final = frozenset({b"content-length", b"content-md5", b"content-digest", b"digest", b"repr-digest", b"etag"})
"""Fields of a response that a changed body makes wrong."""
_NOT_FOR_REPLIES: Final = frozenset({b"accept", b"content-type", b"last-event-id", METHOD_HEADER, b"mcp-name"})
_NOTHING: Final[Mapping[str, Any]] = {}

Reply = Callable[[bytes, Headers], Awaitable[None]]


class JudgedExchange:
    """A client's request and the response to it.

    Args:
        client: the request.
        body: its body.
        upstream: the server.
        conversations: whose judges decide.
        limit: the longest message in bytes.
        budget: shared by all bodies of responses.
        reply: posts a message to the server in the client's name.
    """

    def __init__(
        self,
        client: Client,
        body: bytes,
        *,
        upstream: Upstream,
        conversations: Conversations,
        limit: int,
        budget: Budget,
        reply: Reply,
    ) -> None:
        self._client = client
        self._body = body
        self._upstream = upstream
        self._conversations = conversations
        self._regime = conversations.regime
        """What the client's message is judged by, as nothing is awaited before."""
        self._limit = limit
        self._budget = budget
        self._reply = reply
        # What is compressed could not be read.
        self._headers = [*without(client.headers, (b"accept-encoding",)), (b"accept-encoding", b"identity")]
        self._stateless = is_stateless(client.headers)
        self._session = value(client.headers, SESSION_HEADER)
        self._message = _peek(body)
        method: object = self._message.get("method")
        self._method = method if isinstance(method, str) else ""
        self._id = id_of(self._message) if self._method else None
        self._out = SpokenTo(client, self._id)

    async def run(self) -> None:
        """Judge and relay.

        Raises:
            RefusedError: the request goes no further.
            UpstreamError: the server cannot be reached, broke off, or answered with what cannot be judged.
        """
        if self._client.method != "POST" and self._body and not self._regime.relays:
            raise RefusedError(400, INVALID_REQUEST, f"a {self._client.method} request takes no body")
        conversation = self._conversations.join(self._client.headers, self._method)
        try:
            await self._run(conversation)
        except (RefusedError, UpstreamError) as error:
            if not self._out.spoken_to:
                raise
            logger.warning("%s", error)
            await self._out.fail(error.code if isinstance(error, RefusedError) else INTERNAL_ERROR, str(error))
        finally:
            self._conversations.leave(conversation)

    async def _run(self, conversation: Conversation) -> None:
        if self._client.method == "POST":
            await self._post(conversation)
        else:
            await self._relay(conversation, self._headers, self._body)

    # The client's message

    async def _post(self, conversation: Conversation) -> None:
        if not self._regime.relays:
            self._check_form()
            self._check_headers()
        try:
            action = await conversation.decide(Side.CLIENT, self._body, self._say)
        except CancelledRequestError as cancelled:
            text = "the request was cancelled before it went on"
            await self._out.answer(200, write(error_message(cancelled.id, REQUEST_CANCELLED, text)))
            return
        if action.forward is None:
            await self._answer(action.reply)
            return
        try:
            await self._relay(conversation, self._headers_for(action.forward), action.forward)
        finally:
            if self._id is not None:
                conversation.settle(self._id)

    def _check_form(self) -> None:
        """Refuse what servers may read in another way than it is judged."""
        types = values(self._client.headers, b"content-type")
        if len(types) != 1 or not _is_plain_json(types[0]):
            raise RefusedError(415, INVALID_REQUEST, "the body must be application/json in UTF-8")
        if not is_identity(self._client.headers):
            raise RefusedError(415, INVALID_REQUEST, "an encoded body cannot be judged; send it without")

    def _check_headers(self) -> None:
        if not repeats_body(self._headers):
            return
        said = [method.decode("latin-1") for method in values(self._headers, METHOD_HEADER)]
        if not any(self._regime.could_act(method) for method in {self._method, *said}):
            return
        try:
            check(self._headers, self._message)
        except DisagreementError as error:
            code = HEADER_MISMATCH if self._stateless else INVALID_REQUEST
            raise RefusedError(400, code, str(error)) from None

    def _headers_for(self, forward: bytes) -> Headers:
        if forward is self._body or not repeats_body(self._headers):
            return self._headers
        try:
            return follow(self._headers, self._message, object_or_empty(read(forward).value))
        except DisagreementError as error:
            logger.error("a changed request is not sent: %s", error)
            raise RefusedError(200, INTERNAL_ERROR, f"an interceptor changed the request, and {error}") from None

    async def _answer(self, reply: bytes | None) -> None:
        """Answer in the place of the server: a denial, a refusal, an interceptor's answer; or take what was dropped."""
        if reply is None:
            await self._out.answer(202)
            return
        body = _one_value(reply)
        # A client finds the answer by its id; without one it has nothing but the status.
        anonymous = id_of(_peek(body)) is None
        await self._out.answer(400 if anonymous else 200, body)

    # The server's answer

    async def _relay(self, conversation: Conversation, headers: Headers, body: bytes) -> None:
        client = self._client
        async with self._upstream.request(client.method, headers, body, query=client.query) as response:
            check_response(client, response)
            self._note_session(conversation, response)
            content_type = value(response.headers, b"content-type")
            kind = media_type(content_type)
            if kind == _EVENT_STREAM and is_identity(response.headers):
                await self._stream(conversation, response)
            elif kind == _JSON and is_identity(response.headers):
                await self._json(conversation, response)
            else:
                await self._other(response, content_type or b"")

    def _note_session(self, conversation: Conversation, response: UpstreamResponse) -> None:
        if self._stateless:
            return
        given = value(response.headers, SESSION_HEADER)
        taken = response.status < 400
        if self._method == INITIALIZE and given is not None and taken:
            self._conversations.note(given, conversation, new=True)
        elif self._session is not None:
            if response.status == 404 or (self._client.method == "DELETE" and taken):
                self._conversations.end(self._session)
            elif taken:
                self._conversations.note(self._session, conversation)

    async def _json(self, conversation: Conversation, response: UpstreamResponse) -> None:
        with Reservation() as room:
            body, tail = await self._read(response, room)
            if tail is not None:
                action = conversation.oversized(Side.SERVER, body, tail)
            elif not body.strip() or (response.status >= 400 and not _is_message(body)):
                await self._not_a_message(response, body)
                return
            else:
                action = await self._decide_on_answer(conversation, body)
            if action.reply is not None:
                await self._reply(action.reply, self._reply_headers())
            if action.forward is None:
                if response.status < 400:
                    raise UpstreamError("the server's answer cannot be judged, so it was withheld")
                await self._not_a_message(response, b"{}", withheld=True)
            elif action.forward is body:
                await self._out.answer(response.status, body, without(response.headers, (b"content-length",)))
            else:
                await self._out.answer(
                    response.status, _one_value(action.forward), without(response.headers, _REPLACED)
                )

    async def _read(self, response: UpstreamResponse, room: Reservation) -> tuple[bytes, bytes | None]:
        """Read a whole body, or of one that is too long its two ends."""
        await self._budget.reserve(room, min(content_length(response.headers) or self._limit, self._limit))
        return await response.read(self._limit)

    async def _decide_on_answer(self, conversation: Conversation, body: bytes) -> Action:
        may_be_anonymous = self._id is not None and b'"error"' in body
        message = _peek(body) if may_be_anonymous else _NOTHING
        if "error" not in message or message.get("id") is not None:
            return await self._decide(conversation, body)
        # An error without an id that comes alone answers the request that it comes with; clients take it so.
        named = write({**message, "id": self._id})
        action = await self._decide(conversation, named)
        if action.forward is None:
            return action
        if action.forward is named:
            return Action(forward=body)
        return Action(forward=write({**_peek(action.forward), "id": None}))

    async def _decide(self, conversation: Conversation, message: bytes) -> Action:
        try:
            return await conversation.decide(Side.SERVER, message, self._say)
        except CancelledRequestError:
            return Action()

    async def _stream(self, conversation: Conversation, response: UpstreamResponse) -> None:
        client = self._out
        await client.start(response.status, without(response.headers, _REPLACED))
        splitter = EventSplitter(self._limit)
        try:
            async for chunk in response.chunks:
                for event in splitter.feed(chunk):
                    if written := await self._judged(conversation, event):
                        await client.write(written)
        except UpstreamError as error:
            # A stream may end at any time; the client resumes it, or takes its request for lost.
            logger.warning("%s", error)
        await client.finish()

    async def _judged(self, conversation: Conversation, event: Event) -> bytes:
        if isinstance(event, OversizedEvent):
            action = conversation.oversized(Side.SERVER, event.head, event.tail)
        elif event.data is None or not event.data.strip() or not _may_be_message(event):
            return event.raw
        else:
            action = await self._decide(conversation, event.data)
        if action.reply is not None:
            await self._reply(action.reply, self._reply_headers())
        if action.forward is None:
            return event.without_data()
        return event.raw if action.forward is event.data else event.with_data(*action.forward.split(b"\n"))

    def _reply_headers(self) -> Headers:
        """Return the headers with which the gateway speaks to the server in the client's name."""
        kept = [
            (name, text)
            for name, text in self._client.headers
            if name not in _NOT_FOR_REPLIES and not name.startswith(b"mcp-param-")
        ]
        return [*kept, JSON_TYPE, (b"accept", b"application/json, text/event-stream")]

    @property
    def _say(self) -> Say | None:
        """What says something to the client by itself: where it waits for an answer, or listens."""
        return self._out.say if self._id is not None or self._client.method == "GET" else None

    # What is no message

    async def _other(self, response: UpstreamResponse, content_type: bytes) -> None:
        first = b""
        async for first in response.chunks:
            if first:
                break
        lowered = content_type.lower()
        if not first:
            await self._out.answer(response.status, b"", without(response.headers, (b"content-length",)))
        elif b"event-stream" in lowered or (
            not self._regime.relays and (response.status < 400 or any(word in lowered for word in _LOOK_LIKE))
        ):
            # A stream outlives the regime that it began under.
            raise UpstreamError("the server answered with a content type or encoding that cannot be judged")
        elif self._regime.reads_errors(self._method):
            await self._not_a_message(response, first, withheld=True)
        else:
            await self._out.start(response.status, response.headers)
            await self._out.write(first)
            async for chunk in response.chunks:
                await self._out.write(chunk)
            await self._out.finish()

    async def _not_a_message(self, response: UpstreamResponse, body: bytes, *, withheld: bool = False) -> None:
        """Pass what speaks HTTP only: no body, an authorization server's error, a proxy's page.

        Where an interceptor reads the errors of this method, the text of such a body is withheld: nothing could judge
        it, and clients show it.
        """
        if body.strip() and (withheld or self._regime.reads_errors(self._method)):
            text = "midspan withheld the text of the server's error, which is no message"
            body = write(error_message(self._id, INTERNAL_ERROR, text))
            headers: Headers = [*without(response.headers, {*_REPLACED, b"content-type"}), JSON_TYPE]
        else:
            headers = without(response.headers, (b"content-length",))
        await self._out.answer(response.status, body, headers)


def _peek(body: bytes) -> Mapping[str, Any]:
    """Return the object in a body, or an empty one; what is wrong with it the judge says."""
    try:
        return object_or_empty(read(body).value) if body else {}
    except JSONFaultError:
        return {}


def _one_value(lines: bytes) -> bytes:
    """Return what a judge of lines wrote as one JSON value: several messages become a batch."""
    parts = lines.split(b"\n")
    return parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"


def _is_plain_json(content_type: bytes) -> bool:
    _, _, parameters = content_type.partition(b";")
    found = [parameter.strip().lower() for parameter in parameters.split(b";") if parameter.strip()]
    return media_type(content_type) == _JSON and set(found) <= {b"charset=utf-8", b'charset="utf-8"'}


def _is_message(body: bytes) -> bool:
    """Tell whether a client could take the body of an error response for a message."""
    try:
        found: object = read(body).value
    except JSONFaultError:
        return True  # for the judge to refuse
    message = object_or_empty(found)
    if not message:
        return found != {}
    return bool(message.keys() & {"jsonrpc", "method", "result"}) or isinstance(message.get("error"), dict)


def _may_be_message(event: Event) -> bool:
    """Tell whether any client could take an event for a message: by its name, or by what it holds."""
    assert event.data is not None
    return event.name in (b"", b"message") or event.data.lstrip()[:1] in (b"{", b"[")
