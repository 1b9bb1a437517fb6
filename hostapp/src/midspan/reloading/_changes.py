"""When to look at the config again: its files changed, or a signal asked for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Final

import watchfiles

logger = logging.getLogger("midspan.config")

_STEP: Final = 50
"""Milliseconds without a further change after which files count as written."""
_HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)


class Changes:
    """Tells when files change, and when SIGHUP comes. Use it as an async context manager.

    What is watched are folders: editors replace a file, and a config that is mounted changes where a link points to.
    """

    def __init__(self) -> None:
        self._came = asyncio.Event()
        self._asked = False
        self._watching: asyncio.Task[None] | None = None
        self._folders: frozenset[Path] = frozenset()
        self._stop = asyncio.Event()
        self._hears = False

    async def __aenter__(self) -> Changes:
        """Begin to hear SIGHUP, where the platform has it and this is the main thread."""
        if _HANGUP is not None and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(_HANGUP, self.ask)
            self._hears = True
        return self

    async def __aexit__(self, *error: object) -> None:
        """Hear and watch no more."""
        if self._hears and _HANGUP is not None:
            asyncio.get_running_loop().remove_signal_handler(_HANGUP)
        await self._unwatch()

    def ask(self) -> None:
        """Look at the config again, whether or not a file changed."""
        self._asked = True
        self._came.set()

    async def watch(self, files: Iterable[Path]) -> None:
        """Watch these files, and no others.

        Args:
            files: the files; those that are not there yet count when they come.
        """
        folders = frozenset(
            folder for file in files for folder in (file.absolute().parent, file.resolve().parent) if folder.is_dir()
        )
        if folders == self._folders:
            return
        await self._unwatch()
        self._folders = folders
        if folders:
            self._stop = asyncio.Event()
            self._watching = asyncio.create_task(self._watch(folders, self._stop))
            await asyncio.sleep(0)  # its first step begins to watch; what changed before that is looked for now
            self._came.set()

    async def next(self) -> bool:
        """Wait for the next reason to look. Return whether somebody asked for it."""
        await self._came.wait()
        self._came.clear()
        asked, self._asked = self._asked, False
        return asked

    async def _watch(self, folders: frozenset[Path], stop: asyncio.Event) -> None:
        try:
            async with contextlib.aclosing(_changes(folders, stop)) as changes:
                async for _ in changes:
                    self._came.set()
        except Exception:
            logger.exception("the config is not watched any more; SIGHUP still makes midspan read it again")

    async def _unwatch(self) -> None:
        self._stop.set()
        if self._watching is not None:
            await asyncio.wait({self._watching})
            self._watching = None


def _changes(folders: Iterable[Path], stop: asyncio.Event) -> AsyncGenerator[object]:
    return watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType] - its types name trio, which is not here
        *folders, recursive=False, watch_filter=None, step=_STEP, stop_event=stop
    )
