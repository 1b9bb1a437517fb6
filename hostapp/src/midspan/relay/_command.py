"""A server that is started as a command, and speaks over its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from midspan.relay._child import ChildProcess, no_folder, not_found, spawn
from midspan.relay._lines import LineReader, PipeWriter

_DRAIN: Final = 1.0
"""Seconds without output after which a dead server has said all; descendants can hold its pipe open for ever."""


class CommandBackend:
    """Starts one process for each connection.

    Args:
        command: the command line.
        env: the whole environment; by default this process's.
        cwd: the working directory; by default this process's.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | Path | None = None
    ) -> None:
        self._command = list(command)
        self._env = env
        self._cwd = cwd

    def check(self) -> None:
        """Look for the program and the working directory, and start nothing.

        Raises:
            SpawnError: one of them is not there.
        """
        if self._cwd is not None and not os.path.isdir(self._cwd):
            raise no_folder(self._command[0], self._cwd)
        if "\0" in "".join(self._command) or self._found() is None:
            raise not_found(self._command[0])

    def _found(self) -> str | None:
        # As the child does, which looks from its own working directory.
        folder = os.fspath(self._cwd or "")
        program = self._command[0]
        if os.path.dirname(program):
            return shutil.which(os.path.join(folder, program))
        path = os.pathsep.join(os.path.join(folder, entry) for entry in os.get_exec_path(self._env))
        return shutil.which(program, path=path)

    async def connect(self, *, limit: int) -> CommandConnection:
        """Start the server.

        Raises:
            SpawnError: the command cannot be run.
        """
        child = await spawn(self._command, env=self._env, cwd=self._cwd)
        child.stdout.limit = limit
        return CommandConnection(child)


class CommandConnection:
    """A running server."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._watching = asyncio.create_task(self._end_with_child())

    async def _end_with_child(self) -> None:
        """Let the server's output end with the server, although a descendant may hold it open."""
        await self._child.exited.wait()
        await self._child.stdout.quiet(_DRAIN)
        self._child.end_group()
        self._child.stdout.close()

    @property
    def to_server(self) -> PipeWriter:
        """The server's stdin."""
        return self._child.stdin

    @property
    def from_server(self) -> LineReader:
        """The server's stdout."""
        return self._child.stdout

    def signal(self, number: int) -> None:
        """Send a signal to the server and all of its group."""
        self._child.signal_group(number)

    async def stop(self, *, signalled: bool = False) -> int:
        """Close the server's stdin, then insist."""
        try:
            return await self._child.stop(signalled=signalled)
        finally:
            await self._unwatch()

    def kill(self) -> None:
        """End the server at once."""
        self._watching.cancel()
        self._child.kill()

    async def _unwatch(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                await asyncio.wait({self._watching})
        self._watching.cancel()
