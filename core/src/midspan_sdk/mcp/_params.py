"""The parameters of the two methods, as the MCP SDK reads them.

The models take anything, because each fault has an answer of its own in the protocol's error table; the SDK would
answer all of them alike.
"""

from __future__ import annotations

from typing import Any

from mcp_types import RequestParams

from midspan_sdk import wire


class ListParams(RequestParams):
    """Parameters of `interceptors/list`."""

    event: Any = None
    cursor: Any = None

    def plain(self) -> dict[str, Any]:
        """Return them as they stand on the wire."""
        return {"event": self.event, "cursor": self.cursor}


class InvokeParams(RequestParams):
    """Parameters of `interceptor/invoke`."""

    name: Any = None
    event: Any = None
    phase: Any = None
    payload: Any = None
    config: Any = None
    timeout_ms: Any = None
    context: Any = None

    def plain(self) -> dict[str, Any]:
        """Return them as they stand on the wire."""
        return {
            "name": self.name,
            "event": self.event,
            "phase": self.phase,
            "payload": self.payload,
            "config": self.config,
            wire.TIMEOUT_KEY: self.timeout_ms,
            wire.CONTEXT_KEY: self.context,
        }
