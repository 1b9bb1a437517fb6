"""A place for values that outlive an exchange and a session, kept by the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from midspan_sdk._plain import plain, same


@runtime_checkable
class Store(Protocol):
    """Named JSON values, kept by the host: in memory, in SQLite, or where another host keeps them.

    Every plugin instance sees its own keys only. Values are JSON. A time to live is in seconds; after it the key is
    gone.
    """

    async def get(self, key: str) -> Any:
        """Return the value, or None when there is none."""
        ...

    async def set(self, key: str, value: Any, *, ttl: float | None = None) -> None:
        """Keep a value; without `ttl` for good.

        Raises:
            ValueError: the value is not JSON.
        """
        ...

    async def delete(self, key: str) -> None:
        """Forget a value; no error when there is none."""
        ...

    async def increment(self, key: str, amount: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number atomically and return the sum. A missing key counts as 0, and only then `ttl` applies.

        Raises:
            TypeError: the value is not an integer.
        """
        ...

    async def compare_and_set(self, key: str, expected: Any, value: Any, *, ttl: float | None = None) -> bool:
        """Keep a value if the present one is `expected` (None: there is none), atomically. Return whether it was."""
        ...


_SWEEP_MIN = 1024


class MemoryStore:
    """A store in this process. Ends with it.

    Args:
        clock: seconds, monotonic; for tests.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, tuple[Any, float | None]] = {}
        self._sweep_at = _SWEEP_MIN

    async def get(self, key: str) -> Any:
        """Return the value, or None."""
        return plain(self._live(key))

    async def set(self, key: str, value: Any, *, ttl: float | None = None) -> None:
        """Keep a value."""
        self._values[key] = (plain(value), self._until(ttl))

    async def delete(self, key: str) -> None:
        """Forget a value."""
        self._values.pop(key, None)

    async def increment(self, key: str, amount: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number and return the sum."""
        present = self._live(key)
        if present is not None and type(present) is not int:
            raise TypeError(f"the value of {key!r} is not an integer")
        until = self._until(ttl) if present is None else self._values[key][1]
        self._values[key] = ((present or 0) + amount, until)
        return (present or 0) + amount

    async def compare_and_set(self, key: str, expected: Any, value: Any, *, ttl: float | None = None) -> bool:
        """Keep a value if the present one is as expected."""
        if not same(self._live(key), plain(expected)):
            return False
        self._values[key] = (plain(value), self._until(ttl))
        return True

    def _until(self, ttl: float | None) -> float | None:
        if len(self._values) >= self._sweep_at:
            self._sweep()
        return None if ttl is None else self._clock() + ttl

    def _sweep(self) -> None:
        # Keys that nobody reads again would stay for ever; doubling keeps the cost of looking at all of them constant.
        now = self._clock()
        for key in [key for key, (_, until) in self._values.items() if until is not None and until <= now]:
            del self._values[key]
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._values))

    def _live(self, key: str) -> Any:
        found = self._values.get(key)
        if found is None:
            return None
        value, until = found
        if until is not None and until <= self._clock():
            del self._values[key]
            return None
        return value


class NamespacedStore:
    """A plugin instance's view of the host's store: its own keys only.

    Args:
        store: the host's store.
        namespace: the plugin instance.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._prefix = f"{namespace}\x1f"

    async def get(self, key: str) -> Any:
        """Return the value, or None."""
        return await self._store.get(self._prefix + key)

    async def set(self, key: str, value: Any, *, ttl: float | None = None) -> None:
        """Keep a value."""
        await self._store.set(self._prefix + key, value, ttl=ttl)

    async def delete(self, key: str) -> None:
        """Forget a value."""
        await self._store.delete(self._prefix + key)

    async def increment(self, key: str, amount: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number and return the sum."""
        return await self._store.increment(self._prefix + key, amount, ttl=ttl)

    async def compare_and_set(self, key: str, expected: Any, value: Any, *, ttl: float | None = None) -> bool:
        """Keep a value if the present one is as expected."""
        return await self._store.compare_and_set(self._prefix + key, expected, value, ttl=ttl)
