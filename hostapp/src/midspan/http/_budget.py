"""A bound on what all bodies together keep in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Final, Self

_FREE: Final = 64 * 1024
"""Bodies up to this many bytes take nothing of the budget: connections bound them well enough."""


class Budget:
    """Bytes that may be kept; who wants more than is left waits for its turn.

    Args:
        total: in bytes. One that wants more than that gets it when nobody else has any.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def reserve(self, reservation: Reservation, size: int) -> None:
        """Take bytes for a reservation that has none yet, waiting for room."""
        if size <= _FREE:
            return
        if self._waiting or not self._has_room(size):
            turn = asyncio.get_running_loop().create_future()
            entry = (size, turn)
            self._waiting.append(entry)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.release(size)
                else:
                    self._waiting.remove(entry)
                    self._wake()
                raise
        else:
            self._used += size
        reservation.hold(self, size)

    def _has_room(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._total

    def _wake(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._used += size
                turn.set_result(None)

    def release(self, size: int) -> None:
        """Give bytes back."""
        self._used -= size
        self._wake()


class Reservation:
    """What one body takes of a budget; given back when the block ends."""

    __slots__ = ("_budget", "_size")

    def __init__(self) -> None:
        self._budget: Budget | None = None
        self._size = 0

    @property
    def held(self) -> bool:
        """Whether it took anything."""
        return self._budget is not None

    def hold(self, budget: Budget, size: int) -> None:
        """Note what was taken."""
        self._budget, self._size = budget, size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._budget is not None:
            self._budget.release(self._size)
            self._budget = None
