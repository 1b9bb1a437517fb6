"""The names of the parts of a message that belong to the protocol itself: no mutator changes them."""

from __future__ import annotations

from typing import Final

TARGETS: Final = ("name", "uri", "ref", "taskId")
"""What a request is about; policy allowed the call for that."""
CURSORS: Final = ("cursor", "nextCursor")
REQUEST_STATE: Final = "requestState"
"""Opaque to all but the server that made it, and often a bearer of secrets."""
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - a key, no password

_OWNERS: Final = frozenset({"modelcontextprotocol", "mcp"})


def is_reserved_meta(key: str) -> bool:
    """Tell whether a key of `_meta` is the protocol's own: the progress token, or one under a reserved prefix."""
    if key == PROGRESS_TOKEN:
        return True
    # The second label is MCP's own since 2025-11-25; before, any label that another one follows.
    prefix, slash, _ = key.partition("/")
    labels = prefix.split(".")
    return bool(slash) and not _OWNERS.isdisjoint([*labels[1:2], *labels[:-1]])
