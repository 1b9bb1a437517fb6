"""Descendants of a server that left its process group, and so do not hear what the group is told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import psutil

_TICK: Final = 0.02
"""Seconds between two looks, while waiting for processes to end."""


class Strays:
    """What descends from a server and is in another process group.

    One that was seen stays known when its parent ends. A process is known by its id and its start, and so is never
    confused with a later one of the same id.

    Nothing is looked for before a server is stopped, and psutil is not imported before: it takes longer than the relay.

    Args:
        root: the process below which they are.
        group: the server's group and session.
        in_session: whether to find also those whose parent ended before they were seen, as far as they still are in
            the server's session. Nothing else tells whose they were. The session's id is no other's as long as the
            server is not reaped.
        grace: seconds that they have to end when asked.
    """

    def __init__(self, root: int, group: int, grace: float, *, in_session: bool) -> None:
        self._root = root
        self._group = group
        self._grace = grace
        self._in_session = in_session
        self._deadline: float | None = None
        self._known: dict[psutil.Process, bool] = {}

    def look(self) -> None:
        """Find those that are there now, below the root and below those that are known."""
        import psutil

        found: set[psutil.Process] = set()
        with contextlib.suppress(psutil.NoSuchProcess):
            found.update(psutil.Process(self._root).children(recursive=True))
        for process in self._known:
            with contextlib.suppress(psutil.NoSuchProcess):
                found.update(process.children(recursive=True))
        for pid in psutil.pids() if self._in_session else ():
            with contextlib.suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
                if os.getsid(pid) == self._group:
                    found.add(psutil.Process(pid))
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(process.pid) != self._group:
                    self._known.setdefault(process, False)

    def ask(self) -> None:
        """Send SIGTERM to those who did not get it yet. The grace of all begins with the first time."""
        import psutil

        self.look()
        if self._deadline is None:
            self._deadline = time.monotonic() + self._grace
        for process, asked in self._known.items():
            if not asked:
                self._known[process] = True
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    process.terminate()

    async def gone(self) -> None:
        """Wait until none is left, or the grace is over."""
        while any(map(_runs, self._known)) and time.monotonic() < (self._deadline or 0):  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(_TICK)

    def kill(self) -> None:
        """Send SIGKILL to all."""
        import psutil

        self.look()
        for process in self._known:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()


def _runs(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
