"""Reads the interceptors of a server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, cast, get_args

from mcp import Client, ClientSession, MCPError
from mcp_types import METHOD_NOT_FOUND
from pydantic import ValidationError

from midspan_sdk import Descriptor, PeerError, wire
from midspan_sdk.mcp._calls import LostConnectionError, NoAnswerError, call
from midspan_sdk.serving._sendable import UnsendableError, check_sendable
from midspan_sdk.wire import InterceptorType

logger = logging.getLogger("midspan.mcp")

MAX_PAGES: Final = 200
MAX_DESCRIPTORS: Final = 100_000
_KNOWN_TYPES: Final = frozenset[str](get_args(InterceptorType))


async def list_interceptors(
    client: Client | ClientSession, event: str | None = None, *, skip_bad: bool = False
) -> list[Descriptor]:
    """Ask a server for its interceptors, all pages, in the server's order.

    Args:
        client: an open client or session.
        event: only those hooked to this event; a glob finds those that could match any of its events.
        skip_bad: leave bad descriptors out, with an error in the log; their guards are then missing.

    Returns:
        The descriptors. One of an unknown type is left out, with a warning in the log.

    Raises:
        PeerError: the server does not serve interceptors, is gone, or sent something unusable: one bad descriptor is
            enough, since a guard must not vanish silently. The text names the descriptor and the field.
        ValueError: the event is no text that can be sent.
    """
    server = _name_of(client)
    found: dict[str, Descriptor] = {}
    seen: set[str] = set()
    params: dict[str, Any] = {} if event is None else {"event": event}
    try:
        check_sendable(params)
    except UnsendableError as error:
        raise ValueError(f"the event {error}") from None
    position = 0
    for _ in range(MAX_PAGES):
        result = await _page(client, server, params)
        elements = result.get(wire.INTERCEPTORS_KEY)
        if not isinstance(elements, list):
            raise PeerError(server, f"the result of {wire.LIST_METHOD} has no list {wire.INTERCEPTORS_KEY!r}")
        for element in cast("list[object]", elements):
            position += 1
            try:
                descriptor = _read(server, position - 1, element)
            except PeerError as error:
                if not skip_bad:
                    raise
                logger.error("%s; left out", error)
                continue
            if descriptor is None:
                continue
            if descriptor.name in found:
                raise PeerError(server, f"descriptor {descriptor.name!r}: name: is used twice")
            found[descriptor.name] = descriptor
        cursor = result.get("nextCursor")
        if cursor is None:
            return list(found.values())
        if not isinstance(cursor, str):
            raise PeerError(server, "nextCursor is not a string")
        if cursor in seen:
            raise PeerError(server, f"{wire.LIST_METHOD} repeats the cursor of an earlier page")
        if position > MAX_DESCRIPTORS:
            break
        seen.add(cursor)
        params = {**params, "cursor": cursor}
    raise PeerError(server, f"{wire.LIST_METHOD} does not come to an end")


def _name_of(client: Client | ClientSession) -> str:
    try:
        info = client.server_info
    except RuntimeError:  # never opened, or closed again; the call will say so
        return "unknown"
    return info.name if info is not None else "unnamed"


async def _page(client: Client | ClientSession, server: str, params: dict[str, Any]) -> dict[str, Any]:
    try:
        return await call(client, wire.LIST_METHOD, params)
    except LostConnectionError as error:
        raise PeerError(server, "the connection is closed") from error
    except NoAnswerError as error:
        raise PeerError(server, f"no answer to {wire.LIST_METHOD}") from error
    except MCPError as error:
        if error.code == METHOD_NOT_FOUND:
            raise PeerError(server, f"serves no interceptors: it does not know {wire.LIST_METHOD}") from error
        raise PeerError(server, f"{wire.LIST_METHOD} failed with code {error.code}") from error


def _read(server: str, position: int, element: object) -> Descriptor | None:
    fields = cast("Mapping[str, Any]", element if isinstance(element, Mapping) else {})
    name = fields.get("name")
    label = repr(name) if isinstance(name, str) and name else f"number {position + 1}"
    kind = fields.get("type")
    if isinstance(kind, str) and kind not in _KNOWN_TYPES:
        logger.warning("interceptor server %r: descriptor %s has the unknown type %r; left out", server, label, kind)
        return None
    try:
        return Descriptor.model_validate(element)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "descriptor"
        problem = first["msg"].removeprefix("Value error, ")
        raise PeerError(server, f"descriptor {label}: {field}: {problem}") from error
