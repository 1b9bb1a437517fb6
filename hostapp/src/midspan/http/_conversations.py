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
from midspan.interception import ChainJudge, ConnectionContext, Regime, Regimes, learns_tools
from midspan_sdk import Principal
from midspan_sdk.events import INITIALIZE

if TYPE_CHECKING:
    from midspan.exposing import InnerJudge

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
        regimes: by which messages are decided.
        server: the server's name.
        idle: seconds after which a quiet session is forgotten.
        most: how many sessions are kept.
    """

    def __init__(self, regimes: Regimes, server: str, *, idle: float = _IDLE, most: int = _MOST) -> None:
        self._regimes = regimes
        self._server = server
        self._sessions = IdleMap[Conversation](
            idle=idle, most=most, forget=self._forget, is_busy=lambda conversation: conversation.under_way > 0
        )
        self._principals = IdleMap[str](idle=idle, most=most, forget=regimes.end_session)
        self._catalogs = Catalogs(idle=idle, most=most)

    def _forget(self, conversation: Conversation) -> None:
        conversation.kept = False
        if not conversation.under_way:
            conversation.close()
        if conversation.session is not None:
            self._regimes.end_session(conversation.session)

    @property
    def acting(self) -> bool:
        """Whether there is anything that could act on a message, observe it, or answer it; or may be later."""
        return self._regimes.swappable or self._regimes.current.acts

    @property
    def regime(self) -> Regime:
        """What is in force for requests that begin now."""
        return self._regimes.current

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
        regimes = self._regimes
        learns = regimes.swappable or learns_tools(regimes.current.chain)
        tools = self._catalogs.of(principal.id) if learns and not own else None
        judge: InnerJudge = ChainJudge(regimes, context, repeats=not stateless, tools=tools)
        if regimes.may_expose:
            from midspan.exposing import ExposingJudge

            judge = ExposingJudge(judge, regimes, repeats=not stateless)
        return Conversation(judge, session if own else None)

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
