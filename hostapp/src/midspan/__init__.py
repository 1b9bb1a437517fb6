"""midspan: interceptors between any MCP client and any MCP server.

Sub-packages by duty: `config`, `plugins`, `relay`, `interception`, `http`, `cli`. Importing this module imports none
of them; `Gateway` is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midspan.gateway import Gateway

__all__ = ["Gateway"]


def __getattr__(name: str) -> object:
    if name != "Gateway":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from midspan.gateway import Gateway

    return Gateway
