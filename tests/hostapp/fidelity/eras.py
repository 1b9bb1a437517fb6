"""The two eras of the protocol, and what tells their messages apart."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any, Final, cast

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "c", "title": "C \U0001f600", "version": "1", "future": [None, 1.0]}
CLIENT_CAPABILITIES: Final[Mapping[str, Any]] = {
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
    "elicitation": {"form": {}, "url": {}},
    "extensions": {"io.acme/x": {"z": 1.0, "a": None}},
    "experimental": {"": {"y": 2**60 + 1}},
    "future": {},
}
STATELESS_META: Final[Mapping[str, Any]] = {
    VERSION_KEY: "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
    "io.modelcontextprotocol/clientCapabilities": CLIENT_CAPABILITIES,
}


class Era(enum.StrEnum):
    """An era; its value is the revision that stands for it."""

    HANDSHAKE = "2025-11-25"
    STATELESS = "2026-07-28"


def dig(value: Any, *path: str) -> Any:
    """Return what stands at a path of keys; None where an object is missing on the way."""
    for key in path:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def key_of(message_id: object) -> tuple[str, object]:
    """Return what an id is kept by: 1, 1.0 and "1" are three ids."""
    return type(message_id).__name__, message_id


def text_of(value: Any) -> str:
    """Return a value as JSON; a text is JSON already."""
    return value if isinstance(value, str) else json.dumps(value)
