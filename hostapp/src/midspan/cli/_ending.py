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
_SECONDS: Final = {b"b": LONGEST_END, b"h": HURRIED_END}


class Ending:
    """Bounds the end of this process.

    Attributes:
        number: the first signal that asked for the end, or None.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        # A pipe, since a handler of signals may be anywhere in this very code when the next signal comes.
        self._asked, self._asks = os.pipe()
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="midspan-end")
        self._thread.start()

    def begin(self) -> None:
        """The traffic is over: what is still to be done has `LONGEST_END` seconds."""
        os.write(self._asks, b"b")

    def close(self) -> None:
        """The end was orderly."""
        os.write(self._asks, b"q")
        self._thread.join()
        os.close(self._asked)
        os.close(self._asks)

    def on_signal(self, number: int, frame: FrameType | None = None) -> None:
        """Note a signal: the first begins the end, the next hurries it."""
        os.write(self._asks, b"b" if self.number is None else b"h")
        self.number = self.number or number

    def _watch(self) -> None:
        begun = deadline = None
        while deadline is None or time.monotonic() < deadline:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._asked], [], [], left)[0]:
                break
            asked = os.read(self._asked, 1)
            if asked == b"q":
                return
            now = time.monotonic()
            begun = begun or now
            deadline = min(deadline or now + LONGEST_END, now + _SECONDS[asked])
        self._give_up(time.monotonic() - (begun or 0.0))

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
    """An event loop whose signals also reach the `Ending`, even when the loop itself is held."""

    def __init__(self, ending: Ending) -> None:
        super().__init__()
        self._ending = ending

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        super().add_signal_handler(sig, callback, *args)  # pyright: ignore[reportArgumentType] - typeshed wants Unpack
        self._hear(sig)

    def remove_signal_handler(self, sig: int) -> bool:
        if sig not in _SIGNALS or self.is_closed():
            return super().remove_signal_handler(sig)
        # Without any handler the loop would not wake for a signal that the system gives to another thread, or that
        # comes just before it waits; and only the main thread, which waits, can tell the `Ending`.
        self.add_signal_handler(sig, _nothing)
        return True

    def _hear(self, sig: int) -> None:
        if sig in _SIGNALS:
            # The loop hears of a signal by a descriptor, whatever handler Python runs.
            signal.signal(sig, self._ending.on_signal)
            signal.siginterrupt(sig, False)


def _nothing() -> None:
    """What a signal does to the work, when it does nothing any more."""


def run_to_end(work: Callable[[Ending], Coroutine[Any, Any, int]]) -> int:
    """Run a command's work on an event loop, and return its exit code.

    A signal that comes while it starts cancels it; from when the work handles signals itself, they are the work's.
    Neither of them, nor what follows the traffic, keeps the process for longer than `LONGEST_END`.

    Args:
        work: gets what is to be told when the traffic is over.

    Returns:
        What the work returned; 128 + N when signal N cancelled it.
    """
    ending = Ending()
    # Nothing is joined at its end, as `asyncio.run` does: a plugin's hanging thread would hold the process, and with it
    # the client, long after the server has gone.
    loop = _Loop(ending)
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
