"""The capability by which a server says that it serves interceptors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from midspan_sdk import Interceptor, wire

EXTENSIONS: Final = "extensions"
EXPERIMENTAL: Final = "experimental"


def context_needs(interceptor: Interceptor[..., Any]) -> frozenset[str]:
    """Return the keys of an invocation's context without which the interceptor cannot be invoked.

    The request's payload is needed in the response phase only.
    """
    names = interceptor.signature.names
    needs = {wire.STATE_KEY} if "state" in names else set[str]()
    if "request" in names and any(hook.phase == "response" for hook in interceptor.descriptor.hooks):
        needs.add(wire.REQUEST_KEY)
    return frozenset(needs)


def settings_of(interceptors: Iterable[Interceptor[..., Any]]) -> dict[str, Any]:
    """Build the capability's settings.

    `supportedEvents`; `context` when an interceptor needs something there; `stateGroups` when one shares its state with
    others that its name does not tell.
    """
    events: set[str] = set()
    needs: set[str] = set()
    groups: dict[str, str] = {}
    for interceptor in interceptors:
        events.update(event for hook in interceptor.descriptor.hooks for event in hook.events)
        needs |= context_needs(interceptor)
        if wire.STATE_KEY in context_needs(interceptor) and interceptor.state_group != _group_by_name(interceptor.name):
            groups[interceptor.name] = interceptor.state_group
    settings: dict[str, Any] = {wire.SUPPORTED_EVENTS_KEY: sorted(events)}
    if needs:
        settings[wire.CONTEXT_KEY] = sorted(needs)
    if groups:
        settings[wire.STATE_GROUPS_KEY] = groups
    return settings


def _group_by_name(name: str) -> str:
    return name.rpartition(".")[0] or name


def add_capability(result: Mapping[str, Any], settings: Mapping[str, Any], *, handshake: bool) -> dict[str, Any]:
    """Return a result that says who a server is, with the capability in it. What else it says of interceptors goes.

    Revisions before 2026-07-28 have no `extensions` in their schema, so the MCP SDK sieves them out. Their capabilities
    are an open set, and `experimental` is their place for what is not standard; both get the settings.

    Args:
        result: of `initialize` or `server/discover`.
        settings: the capability's.
        handshake: whether it is that of `initialize`.
    """
    capabilities = _object(result.get("capabilities"))
    capabilities.pop(wire.LEGACY_CAPABILITY_KEY, None)
    for place in (EXPERIMENTAL, EXTENSIONS):
        entries = _object(capabilities.get(place))
        if handshake or place == EXTENSIONS or wire.CAPABILITY_KEY in entries:
            capabilities[place] = {**entries, wire.CAPABILITY_KEY: dict(settings)}
    return {**result, "capabilities": capabilities}


def _object(value: object) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
