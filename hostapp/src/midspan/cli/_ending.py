"""The end of a running command: orderly as far as it can be, and in any case within a bounded time.

What a plugin does cannot be trusted to end: a lifespan may swallow its cancellation, a handler may hold the loop. So a
thread of its own watches the end, and ends the process itself when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import FrameType
from typing import Any, Final, NoReturn

from midspan.logs import say

LONGEST_END: Final = 15.0
"""Seconds from the first signal, or from the end of the traffic, to the end of the process."""
HURRIED_END: Final = 1.0
"""Seconds that are left after a second signal."""
_LAST_WORDS: Final = 1.0
"""Seconds in which it can be told why."""
GAVE_UP: Final = 1
"""The exit code when the end was not orderly."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_BEGIN, _QUIT = 0xFE, 0xFF
"""What stands beside the numbers of signals in the pipe."""


class Ending:
    """Bounds the end of this process, and hears its signals.

    Make it in the main thread.

    Args:
        heard: is called for each signal that Python handles, by its number, from a thread.

    Attributes:
        number: the first signal that asked for the end, or None.
    """

    def __init__(self, heard: Callable[[int], object]) -> None:
        self.number: int | None = None
        self._heard = heard
        self._asked, self._asks = os.pipe()
        os.set_blocking(self._asks, False)
        # Python's own handlers run in the main thread alone, when it comes to it: which it does not while it is held,
        # if the system gives the signal to another thread or just before the main one begins to wait.
        self._woken_before = signal.set_wakeup_fd(self._asks, warn_on_full_buffer=False)
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="midspan-end")
        self._thread.start()

    def begin(self) -> None:
        """The traffic is over: what is still to be done has `LONGEST_END` seconds."""
        os.write(self._asks, bytes([_BEGIN]))

    def close(self) -> None:
        """The end was orderly. Signals are not heard any more."""
        signal.set_wakeup_fd(self._woken_before)
        os.write(self._asks, bytes([_QUIT]))
        self._thread.join()
        os.close(self._asked)
        os.close(self._asks)

    def _watch(self) -> None:
        begun = deadline = None
        while deadline is None or time.monotonic() < deadline:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._asked], [], [], left)[0]:
                break
            (asked,) = os.read(self._asked, 1)
            if asked == _QUIT:
                return
            seconds = LONGEST_END if asked == _BEGIN else self._hear(asked)
            if seconds is None:
                continue
            now = time.monotonic()
            begun = begun or now
            deadline = min(deadline or now + LONGEST_END, now + seconds)
        self._give_up(time.monotonic() - (begun or 0.0))

    def _hear(self, number: int) -> float | None:
        """Note a signal: the first begins the end, the next hurries it. Return the seconds that are left then."""
        seconds = None
        if number in _SIGNALS:
            seconds = LONGEST_END if self.number is None else HURRIED_END
            self.number = self.number or number
        self._heard(number)
        return seconds

    def _give_up(self, seconds: float) -> NoReturn:
        text = f"did not stop within {seconds:.0f} s; gave up what was still under way{self._where()}"
        # Aside, since nobody may read stderr, which may be what all waits for.
        saying = threading.Thread(target=say, args=(logging.ERROR, text), daemon=True)
        saying.start()
        saying.join(_LAST_WORDS)
        from midspan.relay import kill_servers

        with contextlib.suppress(Exception):
            kill_servers()
        os._exit(GAVE_UP)

    def _where(self) -> str:
        """Say what holds the event loop, where something does."""
        frame = sys._current_frames().get(self._main)  # pyright: ignore[reportPrivateUsage] - documented
        if frame is None or frame.f_globals.get("__name__") == "selectors":
            return ""
        return f": the event loop is held at {frame.f_code.co_filename}, line {frame.f_lineno}"


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that is told of signals, instead of hearing them itself.

    A signal that has no handler any more does nothing, if it is one that asks for the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[int, Callable[[], object]] = {}

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        self._told[sig] = partial(callback, *args)
        signal.signal(sig, _nothing)
        signal.siginterrupt(sig, False)

    def remove_signal_handler(self, sig: int) -> bool:
        removed = self._told.pop(sig, None) is not None
        if removed and sig not in _SIGNALS:
            signal.signal(sig, signal.SIG_DFL)
        return removed

    def tell(self, number: int) -> None:
        """Run the handler of a signal. May be called from any thread."""
        with contextlib.suppress(RuntimeError):  # it is closed
            self.call_soon_threadsafe(self._handle, number)

    def _handle(self, number: int) -> None:
        if (handler := self._told.get(number)) is not None:
            handler()


def _nothing(number: int, frame: FrameType | None) -> None:
    """What a signal does by Python's own handler: that it has one lets it be told of."""


def run_to_end(work: Callable[[Ending], Coroutine[Any, Any, int]]) -> int:
    """Run a command's work on an event loop, and return its exit code.

    A signal that comes while it starts cancels it; from when the work handles signals itself, they are the work's.
    Neither of them, nor what follows the traffic, keeps the process for longer than `LONGEST_END`.

    Args:
        work: gets what is to be told when the traffic is over.

    Returns:
        What the work returned; 128 + N when signal N cancelled it.
    """
    # Nothing is joined at its end, as `asyncio.run` does: a plugin's hanging thread would hold the process, and with it
    # the client, long after the server has gone.
    loop = _Loop()
    ending = Ending(loop.tell)
    asyncio.set_event_loop(loop)
    with _restored():
        task = loop.create_task(work(ending))
        for number in _SIGNALS:
            # One that was ignored when this process started (`nohup`) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, task.cancel)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError:
            if ending.number is None:
                raise
            return 128 + ending.number
        finally:
            ending.close()


@contextlib.contextmanager
def _restored() -> Generator[None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_process(code: int) -> NoReturn:
    """End this process now. A plugin's thread that hangs does not keep it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
