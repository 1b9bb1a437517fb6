"""Calls in tasks of their own, so that one that does not end when it is cancelled holds nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import anyio

T = TypeVar("T")

LEAVING: Final = 0.1
"""Seconds that a cancelled call is waited for; most end at once."""


class InFlight:
    """The calls of one connection.

    The SDK tells the other side of a cancelled request, and waits up to five seconds for a transport that takes
    nothing more. A deadline does not wait with it: the call is left to end by itself, and `settle` collects it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine comes to. When cancelled, cancel it and go on without it after a moment."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait((task,))
        except BaseException:
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,), timeout=LEAVING)
            raise
        return task.result()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, or Python would warn that nobody did

    async def settle(self, timeout: float) -> None:
        """Cancel what is left and wait for it, for so many seconds at most."""
        left = tuple(self._tasks)
        for task in left:
            task.cancel()
        if left:
            with anyio.CancelScope(shield=True):
                await asyncio.wait(left, timeout=timeout)
