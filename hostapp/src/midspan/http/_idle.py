"""Things that are forgotten when nobody used them for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class IdleMap(Generic[V]):
    """Keeps values by key; forgets those that were not used for long, and the longest unused one when it is full.

    Args:
        idle: seconds without use after which a value is forgotten.
        most: how many are kept.
        is_busy: whether a value is being used, although nobody asked for it lately.
        forget: called with each value that goes.

    One timer runs while there is anything, set to the moment when the next value may go; nothing polls.
    """

    def __init__(
        self, *, idle: float, most: int, forget: Callable[[V], None], is_busy: Callable[[V], bool] = lambda _: False
    ) -> None:
        self._idle = idle
        self._most = most
        self._forget = forget
        self._is_busy = is_busy
        self._kept: OrderedDict[object, tuple[V, float]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: object) -> V | None:
        """Return a value, which counts as a use, or None."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        self._keep(key, entry[0])
        return entry[0]

    def put(self, key: object, value: V) -> None:
        """Keep a value; one that had the key before is forgotten."""
        present = self._kept.get(key)
        if present is not None and present[0] is not value:
            self.pop(key)
        self._keep(key, value)
        while len(self._kept) > self._most:
            idle = (key for key, (value, _) in self._kept.items() if not self._is_busy(value))
            self.pop(next(idle, next(iter(self._kept))))

    def pop(self, key: object) -> None:
        """Forget a value, if it is there."""
        entry = self._kept.pop(key, None)
        if entry is not None:
            self._forget(entry[0])

    def pop_oldest(self) -> None:
        """Forget the value that was not used for the longest time."""
        if self._kept:
            self.pop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget everything."""
        for key in list(self._kept):
            self.pop(key)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _keep(self, key: object, value: V) -> None:
        loop = asyncio.get_running_loop()
        self._kept[key] = (value, loop.time())
        self._kept.move_to_end(key)
        if self._timer is None:
            self._timer = loop.call_later(self._idle, self._expire)

    def _expire(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for key, (value, used) in list(self._kept.items()):
            if used + self._idle > now:
                break
            if self._is_busy(value):
                self._keep(key, value)
            else:
                self.pop(key)
        if self._kept and self._timer is None:
            _, used = next(iter(self._kept.values()))
            self._timer = loop.call_later(max(0.0, used + self._idle - now), self._expire)
