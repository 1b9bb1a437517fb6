"""Interceptor servers, as clients reach them: a program that is started, or a URL.

Importing this package imports nothing heavy; `client_factory` imports the MCP SDK, which takes about a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.remote._shown import shown

if TYPE_CHECKING:
    from midspan.remote._client import client_factory

__all__ = ["client_factory", "shown"]

_HEAVY = {"client_factory": "_client"}

__getattr__ = lazily(__name__, _HEAVY)
