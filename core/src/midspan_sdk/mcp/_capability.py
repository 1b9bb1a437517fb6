"""The capability by which a server says that it serves interceptors, as a client reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types

from midspan_sdk import wire
from midspan_sdk.serving._capability import EXPERIMENTAL, EXTENSIONS


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
    for place in (EXTENSIONS, EXPERIMENTAL):
        entries = capabilities.get(place)
        if isinstance(entries, Mapping):
            settings = cast("Mapping[str, Any]", entries).get(wire.CAPABILITY_KEY)
            if isinstance(settings, Mapping):
                return dict(cast("Mapping[str, Any]", settings))
    settings = capabilities.get(wire.LEGACY_CAPABILITY_KEY)
    return dict(cast("Mapping[str, Any]", settings)) if isinstance(settings, Mapping) else None
