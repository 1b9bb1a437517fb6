"""The capability by which a server says that it serves interceptors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import mcp_types as types

from midspan_sdk import Interceptor, wire

_EXTENSIONS: Final = "extensions"
_EXPERIMENTAL: Final = "experimental"


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


def add_to_handshake(result: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return an `initialize` result that also advertises the capability.

    Revisions before 2026-07-28 have no `extensions` in their schema, so the SDK sieves them out. Their capabilities are
    an open set, and `experimental` is their place for what is not standard; both get the settings.
    """
    capabilities: dict[str, Any] = dict(result.get("capabilities") or {})
    for place in (_EXPERIMENTAL, _EXTENSIONS):
        capabilities[place] = {**(capabilities.get(place) or {}), wire.CAPABILITY_KEY: settings}
    return {**result, "capabilities": capabilities}


def read_capability(capabilities: types.ServerCapabilities | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Find out what a server says about its interceptors.

    Args:
        capabilities: a client's `server_capabilities`, or the JSON object itself. The SDK's typed model drops keys that
            it does not know, so the older top-level `interceptor` key is found in the JSON object only.

    Returns:
        The settings, for example `{"supportedEvents": ["tools/call"]}`, from `extensions`, `experimental` or the older
        top-level key, in this order. None when the server says nothing, which means unknown: ask `interceptors/list`.
    """
    if isinstance(capabilities, types.ServerCapabilities):
        capabilities = capabilities.model_dump(by_alias=True, exclude_none=True)
    if not isinstance(capabilities, Mapping):
        return None
    for place in (_EXTENSIONS, _EXPERIMENTAL):
        entries = capabilities.get(place)
        if isinstance(entries, Mapping):
            settings = cast("Mapping[str, Any]", entries).get(wire.CAPABILITY_KEY)
            if isinstance(settings, Mapping):
                return dict(cast("Mapping[str, Any]", settings))
    settings = capabilities.get(wire.LEGACY_CAPABILITY_KEY)
    return dict(cast("Mapping[str, Any]", settings)) if isinstance(settings, Mapping) else None
