"""What a gateway gives to handlers. Needs nothing."""

from __future__ import annotations

from typing import Final

GATEWAY_GIVES: Final = ("session", "store", "tools", "ask")
"""What handlers may need of a gateway; a mount that only serves interceptors gives less."""
