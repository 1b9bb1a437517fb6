"""Whose messages belong together: one judge for each session, and for each request where there are no sessions.

Requests and answers are paired by their ids, and several clients use the same ids at once. So a judge hears one client
only: that of a session in the handshake revisions, where the session's id is in every request; that of a single request
since 2026-07-28, where nothing but their sender ties two requests together.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Final

from midspan.http._catalogs import Catalogs
from midspan.http._conversation import Conversation
from midspan.http._headers import Headers, value, values
from midspan.http._idle import IdleMap
from midspan.interception import Asking, ChainJudge, ConnectionContext, Deciding, Denials, acts, learns_tools
from midspan_sdk import Principal
from midspan_sdk.events import INITIALIZE

if TYPE_CHECKING:
    from midspan.exposing import Exposure

SESSION_HEADER: Final = b"mcp-session-id"
VERSION_HEADER: Final = b"mcp-protocol-version"

HANDSHAKE_VERSIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
_AUTHORIZATION: Final = b"authorization"
_ANONYMOUS: Final = Principal(type="anonymous")
_IDLE: Final = 3600.0
"""Seconds after which a session without a request under way is forgotten; longer than servers keep theirs, since a
session that goes on must not lose what the interceptors know of it."""
_MOST: Final = 10_000
"""Sessions that are kept at once."""


def is_stateless(headers: Headers) -> bool:
    """Tell whether a request is of the era that has no sessions.

    A version that is none of the handshake's belongs to it too: servers take it so, and answer with an error.
    """
    version = value(headers, VERSION_HEADER)
    return version is not None and version.decode("latin-1") not in HANDSHAKE_VERSIONS


def principal_of(headers: Headers) -> Principal:
    """Return on whose behalf a request comes.

    The gateway passes credentials on and cannot check them: the server does. So a bearer is told apart by a digest of
    what it presents, and whoever presents nothing is anonymous.
    """
    credentials = values(headers, _AUTHORIZATION)
    if not credentials:
        return _ANONYMOUS
    digest = hashlib.sha256(b"\0".join(credentials)).hexdigest()
    return Principal(type="user", id=f"bearer:{digest[:32]}")


class Conversations:
    """All conversations with one server.

    Args:
        chain: judges.
        server: the server's name.
        denials: what the sender of a blocked message is told.
        idle: seconds after which a quiet session is forgotten.
        most: how many sessions are kept.
        coerce_input_schemas: give an `inputSchema` also to tools that the server itself listed without one.
        exposure: serves the chain's interceptors to clients.
        asking: how users are asked; made anew by default.
    """

    def __init__(
        self,
        chain: Deciding,
        server: str,
        denials: Denials | None = None,
        *,
        idle: float = _IDLE,
        most: int = _MOST,
        coerce_input_schemas: bool = False,
        exposure: Exposure | None = None,
        asking: Asking | None = None,
    ) -> None:
        self._chain = chain
        self._exposure = exposure
        self._server = server
        self._denials = denials
        self._coerce = coerce_input_schemas
        self._asking = asking or Asking()
        self._sessions = IdleMap[Conversation](
            idle=idle, most=most, forget=self._forget, is_busy=lambda conversation: conversation.under_way > 0
        )
        self._principals = IdleMap[str](idle=idle, most=most, forget=chain.end_session)
        self._catalogs = Catalogs(idle=idle, most=most)

    def _forget(self, conversation: Conversation) -> None:
        conversation.kept = False
        if conversation.session is not None:
            self._chain.end_session(conversation.session)

    @property
    def acting(self) -> bool:
        """Whether there is anything that could act on a message, observe it, or answer it."""
        return self._coerce or self._exposure is not None or acts(self._chain)

    def could_act(self, method: str) -> bool:
        """Tell whether anything could act on a client's request or notification of this method, or on its answer."""
        if self._exposure is not None and self._exposure.serves(method):
            return True
        return self._chain.concerns(method, "request", "sending") or self._chain.concerns(
            method, "response", "receiving"
        )

    def reads_errors(self, method: str) -> bool:
        """Tell whether anything could act on an error that answers a client's request of this method."""
        return self._chain.concerns(method, "response", "receiving", error=True)

    def join(self, headers: Headers, method: str) -> Conversation:
        """Return the conversation that a request is part of; `leave` it when the request is over.

        Args:
            headers: the request's.
            method: of the JSON-RPC message in it; empty when it has none.
        """
        conversation = self._known(headers) or self._new(headers, method)
        conversation.under_way += 1
        return conversation

    def _known(self, headers: Headers) -> Conversation | None:
        session_id = value(headers, SESSION_HEADER)
        return None if session_id is None or is_stateless(headers) else self._sessions.get(session_id)

    def _new(self, headers: Headers, method: str) -> Conversation:
        principal = principal_of(headers)
        stateless = is_stateless(headers)
        if not stateless and (method == INITIALIZE or value(headers, SESSION_HEADER) is not None):
            session, own = uuid.uuid4().hex, True
        else:
            # Nothing ties this request to others but its sender, if that is known.
            session, own = principal.id, False
            if session is not None and self._principals.get(session) is None:
                self._principals.put(session, session)
        flow = principal.id or f"anonymous:{session or uuid.uuid4().hex}"
        context = ConnectionContext(server=self._server, principal=principal, flow=flow, session=session)
        if not stateless and (version := value(headers, VERSION_HEADER)) is not None:
            # A session that began before this gateway did, or a server that gives out no session ids.
            context.negotiated(version.decode("ascii", "replace"))
        judge = ChainJudge(
            self._chain,
            context,
            self._denials,
            repeats=not stateless,
            tools=None if own or not learns_tools(self._chain) else self._catalogs.of(principal.id),
            coerce_input_schemas=self._coerce,
            asking=self._asking,
        )
        around = judge if self._exposure is None else self._exposure.around(judge, repeats=not stateless)
        return Conversation(around, session if own else None)

    def leave(self, conversation: Conversation) -> None:
        """Note that a request is over. A conversation that no session keeps ends with its last request."""
        conversation.under_way -= 1
        if not conversation.under_way and not conversation.kept:
            self._forget(conversation)

    def note(self, session_id: bytes, conversation: Conversation, *, new: bool = False) -> None:
        """Keep a conversation: the server has said that this session is its own.

        Args:
            session_id: the session's.
            conversation: its conversation, unless it has one already.
            new: whether the session begins with it.
        """
        if not new and self._sessions.get(session_id) is not None:
            return
        conversation.kept = True
        self._sessions.put(session_id, conversation)

    def end(self, session_id: bytes) -> None:
        """Forget a session: the server knows it no more."""
        self._sessions.pop(session_id)

    def clear(self) -> None:
        """Forget everything."""
        self._sessions.clear()
        self._principals.clear()
        self._catalogs.clear()
