"""Deadlines that cost nothing until a handler really waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from midspan_sdk._asking import Asking, Bound, HandlerAsk
from midspan_sdk._frame import Frame


class DeadlinePassedError(Exception):
    """The deadline of an entry, or of its chain, passed."""

    def __init__(self, *, chain: bool) -> None:
        self.chain = chain
        super().__init__("deadline passed")


class Resumed:
    """Awaits the rest of a coroutine that was stepped once and yielded.

    Stepping first and awaiting afterwards lets a handler that does not suspend pay neither a task nor a timer. The
    coroutine stays in the task that stepped it, so that what it entered there still holds.
    """

    __slots__ = ("_coroutine", "_yielded")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], yielded: Any) -> None:
        self._coroutine = coroutine
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine = self._coroutine
        yielded = self._yielded
        while True:
            try:
                sent = yield yielded
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - handed on to the coroutine
                try:
                    yielded = coroutine.throw(error)
                except StopIteration as stop:
                    return stop.value
            else:
                try:
                    yielded = coroutine.send(sent)
                except StopIteration as stop:
                    return stop.value


def stepped_value(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine that cannot suspend comes to."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RuntimeError("a handler without `await` suspended")


def stepping(handler: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    """Return a plain function that takes the payload and returns what the coroutine of the handler comes to."""

    def step(payload: dict[str, Any]) -> Any:
        return stepped_value(handler(payload))

    return step


async def within(
    frame: Frame, timeout: float, awaitable: Any, *, started: float | None = None, ask: HandlerAsk | None = None
) -> Any:
    """Await with the nearer of an entry's and its chain's deadline; neither runs while the user is asked.

    Args:
        frame: the execution.
        timeout: the entry's deadline in seconds.
        awaitable: what to await.
        started: when the entry started, by the event loop's clock; None is now.
        ask: what the entry asks with, or None when it does not.

    Raises:
        DeadlinePassedError: it passed.
    """
    chain_deadline = frame.started + frame.budget
    entry_deadline = (asyncio.get_running_loop().time() if started is None else started) + timeout
    limit = asyncio.timeout_at(min(entry_deadline, chain_deadline))
    if frame.asking is not None:
        return await _moving(frame.asking, limit, Bound(limit, entry_deadline, chain_deadline, ask), awaitable)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise DeadlinePassedError(chain=chain_deadline <= entry_deadline) from None
        raise


async def _moving(asking: Asking, limit: asyncio.Timeout, bound: Bound, awaitable: Any) -> Any:
    try:
        async with limit:
            asking.bounds.append(bound)
            try:
                bound.move(asking)  # the handler may have asked before it came to wait
                return await awaitable
            finally:
                asking.bounds.remove(bound)
    except TimeoutError:
        if limit.expired():
            raise DeadlinePassedError(chain=bound.is_chains) from None
        raise
