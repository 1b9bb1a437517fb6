"""Bounded queues for what must neither delay nor change a message: sinks and queued observers."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

from midspan_sdk._deadlines import DeadlinePassedError
from midspan_sdk._interruption import interrupts
from midspan_sdk.errors import InvocationError, MidspanError, NotPlainError

logger = logging.getLogger("midspan.chain")

MAX_QUEUED = 1024
MAX_QUEUED_BYTES = 16 * 1024 * 1024

T = TypeVar("T")


class Worker(Generic[T]):
    """Works off one queue, in order.

    Args:
        name: of the sink or observer, for logs.
        work: called with one item at a time; what it raises is counted and logged.
        role: what it is to the chain, `interceptor` or `observer`: under this key its log records have its name.
        max_items: how many may wait.
        max_bytes: how many bytes may wait.

    Attributes:
        dropped: how many items were dropped: the queue was full, or did not drain in time.
        failed: how many items `work` failed on.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[T], Awaitable[object]],
        *,
        role: str = "interceptor",
        max_items: int = MAX_QUEUED,
        max_bytes: int = MAX_QUEUED_BYTES,
    ) -> None:
        self.name = name
        self.role = role
        self.dropped = 0
        self.failed = 0
        self._work = work
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._queue: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._wake = anyio.Event()
        self._closing = self._ended = False

    def put(self, item: T, size: int) -> bool:
        """Queue an item of about `size` bytes. Return whether there was room."""
        if self._ended or len(self._queue) >= self._max_items or (self._queue and self._bytes + size > self._max_bytes):
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # 1, 2, 4, 8 ...: loud at first, never a flood
                extra = {self.role: self.name}
                logger.warning("%s: queue full, %d dropped so far", self.name, self.dropped, extra=extra)
            return False
        self._queue.append((item, size))
        self._bytes += size
        self._wake.set()
        return True

    def close(self) -> None:
        """Let `run` return once the queue is empty."""
        self._closing = True
        self._wake.set()

    async def run(self) -> None:
        """Work until closed and empty. What is left when this is cancelled counts as dropped."""
        try:
            while not (self._closing and not self._queue):
                while self._queue:
                    await self._work_off(*self._queue.popleft())
                if not self._closing:
                    self._wake = anyio.Event()
                    await self._wake.wait()
        finally:
            self._ended = True
            self.dropped += len(self._queue)
            self._queue.clear()

    async def _work_off(self, item: T, size: int) -> None:
        self._bytes -= size
        try:
            await self._work(item)
        except BaseException as error:
            if interrupts(error):
                self.dropped += 1
                raise
            self.failed += 1
            extra = {self.role: self.name}
            if _speaks_for_itself(error):
                cause = error.__cause__ if isinstance(error, InvocationError) else None
                logger.error("%s failed: %s", self.name, error, exc_info=cause, extra=extra)
            else:
                logger.exception("%s failed", self.name, extra=extra)


def _speaks_for_itself(error: BaseException) -> bool:
    """Tell whether its words say all that an operator needs, as of a deadline, a lost server or a full disk.

    A value that is not JSON is a mistake in somebody's code, and the traceback finds it.
    """
    return isinstance(error, MidspanError | DeadlinePassedError) and not isinstance(error, NotPlainError)
