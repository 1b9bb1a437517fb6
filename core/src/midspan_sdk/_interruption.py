"""What stops the caller itself, and what is only a failure of what it called."""

from __future__ import annotations

import asyncio
from typing import cast


def interrupts(error: BaseException) -> bool:
    """Tell whether an exception that came out of a handler, sink or observer is meant for whoever called it.

    A cancellation is, when somebody asked for it: a handler may also raise `CancelledError` by itself, and that is a
    failure like any other. So are `SystemExit` and an author's own `BaseException`.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    if isinstance(error, BaseExceptionGroup):
        return any(map(interrupts, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, KeyboardInterrupt | GeneratorExit)
