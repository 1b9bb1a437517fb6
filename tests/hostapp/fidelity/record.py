"""A list that can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Record(list[T]):
    """What came, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def note(self, item: T) -> None:
        """Add what came."""
        self.append(item)
        more, self._more = self._more, asyncio.Event()
        more.set()

    async def first(self, wanted: Callable[[T], bool], *, after: int = 0, count: int = 1) -> T:
        """Wait for an item.

        Args:
            wanted: tells it from others.
            after: how many items to pass over.
            count: which one of those that are wanted.
        """
        while True:
            for item in self[after:]:
                after += 1
                if wanted(item):
                    count -= 1
                    if not count:
                        return item
            await self._more.wait()

    async def reach(self, count: int) -> None:
        """Wait until so many are there."""
        while len(self) < count:
            await self._more.wait()
