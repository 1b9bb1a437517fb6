"""What the clients of a server without sessions were shown of its tools."""

from __future__ import annotations

from typing import Final

from midspan.http._idle import IdleMap
from midspan.interception import LearntTools

_IDLE: Final = 3600.0
_MOST: Final = 10_000
_MOST_BYTES: Final = 64 * 1024 * 1024


class Catalogs:
    """Keeps the tools that each principal's listings showed; all who present no credentials are one.

    It is learnt from the server's answers only, so a client cannot put anything into what another's calls are judged
    by; and those that share one present the same to the server.

    Args:
        idle: seconds after which what nobody used is forgotten.
        most: how many principals' are kept.
        most_bytes: about how much all of them may take; the longest unused are forgotten.
    """

    def __init__(self, *, idle: float = _IDLE, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._kept = IdleMap[LearntTools](idle=idle, most=most, forget=self._forget)
        self._most_bytes = most_bytes
        self.size = 0

    def of(self, principal: str | None) -> LearntTools:
        """Return those of a principal; None is whoever presents nothing."""
        tools = self._kept.get(principal)
        if tools is None:
            tools = LearntTools(self._resized)
            self._kept.put(principal, tools)
        return tools

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def _resized(self, grown: int) -> None:
        self.size += grown
        while self.size > self._most_bytes and len(self._kept) > 1:
            self._kept.pop_oldest()

    def _forget(self, tools: LearntTools) -> None:
        tools.detach()
        self.size -= tools.size
