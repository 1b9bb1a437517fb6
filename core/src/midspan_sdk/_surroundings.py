"""What a mount gives to its handlers: store, sessions, worker threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio.to_thread

from midspan_sdk._invocation import State
from midspan_sdk._store import Store

MAX_ABANDONED_THREADS: Final = 32


class _Shelf(dict[str, State]):
    """The `session_state` of one plugin, by session."""

    __slots__ = ("__weakref__",)


class Sessions:
    """The `session_state` of every session and plugin."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}
        self._generations: dict[str, int] = {}
        # Of all that go on with each other's sessions. What none of them can reach any more is forgotten by itself.
        self._all: WeakValueDictionary[tuple[str, int], _Shelf] = WeakValueDictionary()
        # A chain is built in a worker thread while the one before it runs.
        self._lock = threading.RLock()

    def successor(self, fresh: Iterable[str]) -> Sessions:
        """Return one that goes on with these sessions; what either keeps the other sees.

        Args:
            fresh: the plugins that start anew there; here they keep what they have.
        """
        new = Sessions()
        new._lock = self._lock
        with self._lock:
            new._all = self._all
            new._generations = dict(self._generations)
            new._shelves = dict(self._shelves)
            for group in fresh:
                new._shelves.pop(group, None)
                # Above that of every other successor, of which there may be several.
                taken = [number for name, number in self._all if name == group]
                new._generations[group] = max(taken, default=self._generations.get(group, 0)) + 1
                new._shelf(group)
        return new

    def state(self, session_id: str, group: str) -> State:
        """Return the live state of one plugin in one session."""
        shelf = self._shelves.get(group)
        if shelf is None:
            shelf = self._shelf(group)
        state = shelf.get(session_id)
        if state is None:
            state = shelf[session_id] = State()
        return state

    def _shelf(self, group: str) -> _Shelf:
        key = (group, self._generations.get(group, 0))
        with self._lock:
            shelf = self._all.get(key)
            if shelf is None:
                shelf = self._all[key] = _Shelf()
            self._shelves[group] = shelf
        return shelf

    def end(self, session_id: str) -> None:
        """Forget a session, also in those that go on with it."""
        with self._lock:
            shelves = list(self._all.values())
        for shelf in shelves:
            shelf.pop(session_id, None)


class Surroundings:
    """What a mount gives to all handlers: its store, its sessions, its worker threads."""

    def __init__(self, store: Store, sessions: Sessions, gives: frozenset[str], threads: Threads | None = None) -> None:
        self.store = store
        self.sessions = sessions
        self.gives = gives
        self.threads = threads or Threads()


class Threads:
    """Worker threads of blocking handlers, the abandoned ones counted and bounded."""

    def __init__(self, limit: int = MAX_ABANDONED_THREADS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.abandoned = 0

    def exhausted(self) -> bool:
        """Whether so many threads were abandoned that no further one may start."""
        return self.abandoned >= self._limit

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run a function in a worker thread; when cancelled, leave it to itself and count it until it returns."""
        started = finished = left = False

        def work() -> Any:
            nonlocal started, finished
            with self._lock:
                if left:
                    return None
                started = True
            try:
                return call()
            finally:
                with self._lock:
                    finished = True
                    if left:
                        self.abandoned -= 1

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except asyncio.CancelledError:
            with self._lock:
                left = True
                if started and not finished:
                    self.abandoned += 1
            raise
