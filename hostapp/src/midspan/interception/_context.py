"""Where a message comes from, as far as a stdio gateway can know."""

from __future__ import annotations

import getpass
import os
import uuid
from typing import Any, Final

from midspan.relay import object_or_empty
from midspan_sdk import InvocationContext, Principal

PROTOCOL_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
"""In `_meta` of every request since 2026-07-28; before, the handshake settles the version."""

NEW_SESSION: Final = ""
"""Stands for a session that has no name yet."""


class ConnectionContext:
    """The context of one client's connection.

    Args:
        server: name of the guarded server.
        principal: on whose behalf the client speaks.
        flow: ties together what this client does across servers.
        session: names the session whose state the interceptors get; a new name by default; None when there is no
            session, as for an unknown principal in the stateless era.
    """

    def __init__(self, *, server: str, principal: Principal, flow: str, session: str | None = NEW_SESSION) -> None:
        session_id = uuid.uuid4().hex if session == NEW_SESSION else session
        self._base = InvocationContext(
            principal=principal, session_id=session_id, server=server, flow=flow, protocol_version=None
        )
        self._by_version: dict[str | None, InvocationContext] = {None: self._base}
        self._negotiated: str | None = None

    @property
    def session_id(self) -> str | None:
        """The session of this connection, or None."""
        return self._base.session_id

    def negotiated(self, version: object) -> None:
        """Remember the version that the handshake settled."""
        if isinstance(version, str):
            self._negotiated = version

    def of(self, params: dict[str, Any]) -> InvocationContext:
        """Return the context of a message with these params: its own protocol version and trace, where it has them."""
        meta = object_or_empty(params.get("_meta"))
        version: object = meta.get(PROTOCOL_VERSION_KEY)
        trace: object = meta.get("traceparent")
        known = version if isinstance(version, str) and len(version) <= 32 else self._negotiated
        context = self._by_version.get(known)
        if context is None:
            if len(self._by_version) > 16:  # versions are a handful; a peer that makes them up gets no memory
                self._by_version = {None: self._base}
            context = self._by_version[known] = self._base.model_copy(update={"protocol_version": known})
        if isinstance(trace, str) and len(parts := trace.split("-")) == 4:
            return context.model_copy(update={"trace_id": parts[1], "span_id": parts[2]})
        return context


def is_stateless(params: dict[str, Any]) -> bool:
    """Tell whether a request belongs to the era in which every request carries its protocol version."""
    return PROTOCOL_VERSION_KEY in object_or_empty(params.get("_meta"))


def local_user() -> Principal:
    """Return the user of this process."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return Principal(type="user", id=name)


def local_flow() -> str:
    """Return what ties together the servers that one client process wraps: its user and its process."""
    return f"{local_user().id}:{os.getppid()}"
