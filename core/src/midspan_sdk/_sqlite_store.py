"""A store in an SQLite file, shared by all processes that open it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread

from midspan_sdk._plain import plain, same

if TYPE_CHECKING:
    from sqlite3 import Connection

T = TypeVar("T")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS midspan_store (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    expires REAL
) WITHOUT ROWID
"""
_BUSY_SECONDS: Final = 5.0
_SWEEP_EVERY: Final = 256


class SQLiteStore:
    """A store in a file: it outlives the process, and several processes may use it at once.

    Every change is one transaction. Work is done in a worker thread, one call at a time, so that a slow disk does not
    hold the event loop.

    Args:
        path: the file; made with its folder when missing, readable by its owner only.
        clock: seconds since the epoch; for tests.

    Raises:
        OSError: the folder cannot be made. What SQLite finds wrong with the file, the first call raises.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._path = Path(path)
        self._clock = clock
        self._connection: Connection | None = None
        self._turn = anyio.Lock()
        self._changes = 0
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def get(self, key: str) -> Any:
        """Return the value, or None."""
        return await self._run(lambda connection: self._live(connection, key))

    async def set(self, key: str, value: Any, *, ttl: float | None = None) -> None:
        """Keep a value."""
        kept = plain(value)
        await self._run(lambda connection: self._put(connection, key, kept, self._until(ttl)), write=True)

    async def delete(self, key: str) -> None:
        """Forget a value."""
        await self._run(
            lambda connection: connection.execute("DELETE FROM midspan_store WHERE key = ?", (key,)), write=True
        )

    async def increment(self, key: str, amount: int = 1, *, ttl: float | None = None) -> int:
        """Add to a number and return the sum."""

        def add(connection: Connection) -> int:
            present = self._live(connection, key)
            if present is not None and type(present) is not int:
                raise TypeError(f"the value of {key!r} is not an integer")
            if present is None:
                self._put(connection, key, amount, self._until(ttl))
                return amount
            connection.execute("UPDATE midspan_store SET value = ? WHERE key = ?", (json.dumps(present + amount), key))
            return present + amount

        return await self._run(add, write=True)

    async def compare_and_set(self, key: str, expected: Any, value: Any, *, ttl: float | None = None) -> bool:
        """Keep a value if the present one is as expected."""
        wanted, kept = plain(expected), plain(value)

        def swap(connection: Connection) -> bool:
            if not same(self._live(connection, key), wanted):
                return False
            self._put(connection, key, kept, self._until(ttl))
            return True

        return await self._run(swap, write=True)

    async def aclose(self) -> None:
        """Close the file."""
        async with self._turn:
            if self._connection is not None:
                connection, self._connection = self._connection, None
                await anyio.to_thread.run_sync(connection.close)

    async def _run(self, work: Callable[[Connection], T], *, write: bool = False) -> T:
        async with self._turn:
            # Not abandoned when cancelled: a transaction is short, and its connection serves the next call.
            return await anyio.to_thread.run_sync(self._transact, work, write)

    def _transact(self, work: Callable[[Connection], T], write: bool) -> T:
        connection = self._open()
        if not write:
            return work(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            self._changes += 1
            if self._changes % _SWEEP_EVERY == 0:
                connection.execute("DELETE FROM midspan_store WHERE expires <= ?", (self._clock(),))
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return result

    def _open(self) -> Connection:
        if self._connection is None:
            import sqlite3

            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(_SCHEMA)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _live(self, connection: Connection, key: str) -> Any:
        row = connection.execute("SELECT value, expires FROM midspan_store WHERE key = ?", (key,)).fetchone()
        if row is None or (row[1] is not None and row[1] <= self._clock()):
            return None
        return json.loads(row[0])

    def _put(self, connection: Connection, key: str, value: Any, until: float | None) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO midspan_store (key, value, expires) VALUES (?, ?, ?)",
            (key, json.dumps(value), until),
        )

    def _until(self, ttl: float | None) -> float | None:
        return None if ttl is None else self._clock() + ttl
