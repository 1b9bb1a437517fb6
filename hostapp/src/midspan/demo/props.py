"""What the demo's two ends share."""

from __future__ import annotations

from typing import Final

VIEW_VARIABLE: Final = "MIDSPAN_DEMO_VIEW"
"""Names the file into which the server writes what it sees."""

TOOLS: Final = frozenset({"delete_note", "read_note", "read_settings", "send_message"})
"""The tools of the demo's server."""


def demo_token() -> str:
    """Return a token of the right form that never belonged to anybody; put together here, so that no scanner alarms."""
    return "ghp_" + "midspan0demo" * 3


def demo_access_key() -> str:
    """Return an access key id of the right form that never belonged to anybody."""
    return "AKIA" + "MIDSPANDEMO" + "Q7WXY"
