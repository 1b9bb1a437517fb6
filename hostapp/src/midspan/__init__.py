"""midspan: interceptors between any MCP client and any MCP server.

Sub-packages by duty: `config`, `plugins`, `relay`, `interception`, `http`, `cli`. Importing this module imports none
of them; `Gateway` is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily

if TYPE_CHECKING:
    from midspan.gateway import Gateway

__all__ = ["Gateway"]

_HEAVY = {"Gateway": "gateway"}

__getattr__ = lazily(__name__, _HEAVY)
