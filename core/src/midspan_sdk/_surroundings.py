"""What a mount gives to its handlers: store, sessions, worker threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

import anyio.to_thread

from midspan_sdk._invocation import State
from midspan_sdk._store import Store

MAX_ABANDONED_THREADS: Final = 32


class Sessions:
    """The `session_state` of every session and plugin."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, State]] = {}

    def state(self, session_id: str, group: str) -> State:
        """Return the live state of one plugin in one session."""
        return self._states.setdefault(session_id, {}).setdefault(group, State())

    def end(self, session_id: str) -> None:
        """Forget a session."""
        self._states.pop(session_id, None)


class Surroundings:
    """What a mount gives to all handlers: its store, its sessions, its worker threads."""

    def __init__(self, store: Store, sessions: Sessions, gives: frozenset[str]) -> None:
        self.store = store
        self.sessions = sessions
        self.gives = gives
        self.threads = Threads()


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
