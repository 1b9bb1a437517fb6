"""The guarded server as a child process: its own group, its own exit code, and nothing of it left behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from midspan.relay import _holding
from midspan.relay._channel import ConnectError
from midspan.relay._holding import Holder, KeptChild, OwnChild
from midspan.relay._lines import LineReader, PipeWriter, open_reader, open_writer
from midspan.relay._strays import Strays

logger = logging.getLogger("midspan.relay")

GRACE: Final = 1.5
"""Seconds between closing stdin and SIGTERM, and again between SIGTERM and SIGKILL.

Shorter than the two seconds that clients give to the processes they started, so that a stubborn server is gone before
its client kills the gateway.
"""

_KILLED_WITHIN: Final = 1.5
"""Seconds in which killed processes go, unless the system itself hangs."""


_running: Final[set[ChildProcess]] = set()
"""Those that were not let go of."""


def kill_servers() -> None:
    """Kill all servers that this process started, from whatever thread, when it cannot wait for their orderly end."""
    for server in tuple(_running):
        server.release()


class SpawnError(ConnectError):
    """The server could not be started. The text says which command, why, and what to do."""


def no_folder(program: str, folder: str | Path, error: OSError | None = None) -> SpawnError:
    """Return the error for a working directory that is not there, or cannot be entered."""
    if error is None or isinstance(error, FileNotFoundError):
        return SpawnError(f"cannot start {program!r}: its working directory is not there: {folder}")
    return SpawnError(f"cannot start {program!r}: its working directory cannot be entered: {folder}: {error.strerror}")


def not_found(program: str) -> SpawnError:
    """Return the error for a program that is not there."""
    return SpawnError(f"cannot start {program!r}: not found; install it or give its full path")


class ChildProcess:
    """A running server.

    Attributes:
        pid: also the id of its process group.
        stdin: where its messages go.
        stdout: where its messages come from.
        exited: set when it has ended.
    """

    def __init__(self, holder: Holder, stdin: PipeWriter, stdout: LineReader) -> None:
        self.pid = holder.pid
        self.stdin = stdin
        self.stdout = stdout
        self.exited = holder.exited
        self._holder = holder
        self._strays = Strays(holder.process.pid, self.pid, GRACE, in_session=not holder.keeps_orphans)
        self._over = False
        _running.add(self)

    def signal_group(self, number: int) -> None:
        """Send a signal to the server and all of its group."""
        if not (self._over or self._holder.lost):
            self._look_while_it_lives()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def stop(self, *, signalled: bool = False) -> int:
        """Close stdin, then insist: SIGTERM and SIGKILL to the whole group, each after its grace.

        Descendants that left the group get SIGTERM when the group gets it, at the latest when the server has ended,
        and SIGKILL after the same grace.

        Args:
            signalled: the group has had a signal that asks it to end; the next is SIGKILL.

        Returns:
            The exit code; 128 + N when signal N ended the server.
        """
        self._look_while_it_lives()
        if signalled:
            self._strays.ask()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self.stdin.aclose()
                await self.exited.wait()
        if not (self.exited.is_set() or signalled):
            self._strays.ask()
            self.signal_group(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self.exited.wait()
        if not self.exited.is_set():
            logger.warning("the server did not end; killed it")
        self.end_group()
        await self.exited.wait()
        if not self._holder.alone:
            self._strays.ask()
            await self._strays.gone()
        self.release()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILLED_WITHIN):
                await self._holder.gone.wait()
        return self._holder.code

    def end_group(self) -> None:
        """Kill whatever is left of the group."""
        self.signal_group(signal.SIGKILL)

    def kill(self) -> None:
        """End all at once, without any grace, and let go of the streams."""
        self.stdin.abort()
        self.stdout.close()
        if not self._over:
            self.release()
            self._holder.wait(_KILLED_WITHIN)

    def _look_while_it_lives(self) -> None:
        """Find what left the group, where that is not found any more when the server, its parent, has ended."""
        if not (self._holder.keeps_orphans or self.exited.is_set()):
            self._strays.look()

    def release(self) -> None:
        """Kill whatever is left; descendants do not outlive the gateway."""
        self.end_group()
        if not self._holder.keeps_orphans:
            self._strays.kill()
        self._over = True
        _running.discard(self)
        self._holder.release()


async def spawn(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | Path | None = None
) -> ChildProcess:
    """Start a server with this stderr.

    Args:
        command: the program and its arguments.
        env: the whole environment; without, that of this process.
        cwd: the working directory; without, that of this process.

    Raises:
        SpawnError: the command cannot be run.
    """
    try:
        folder = None if cwd is None else str(cwd)
        holder = KeptChild(command, env, folder, grace=GRACE) if _holding.CAN_KEEP else OwnChild(command, env, folder)
        await holder.started()
    except (OSError, ValueError) as error:
        raise _reason(error, command[0], cwd) from error
    stdin, stdout = holder.process.stdin, holder.process.stdout
    assert stdin is not None
    assert stdout is not None
    try:
        writer = await open_writer(os.dup(stdin.fileno()))
        reader = await open_reader(os.dup(stdout.fileno()))
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(holder.pid, signal.SIGKILL)
        holder.release()
        raise
    finally:
        stdin.close()
        stdout.close()
    assert isinstance(writer, PipeWriter)
    return ChildProcess(holder, writer, reader)


def _reason(error: OSError | ValueError, program: str, cwd: str | Path | None) -> SpawnError:
    if isinstance(error, OSError) and cwd is not None and error.filename in ("cwd", str(cwd)):
        return no_folder(program, cwd, error)
    if isinstance(error, FileNotFoundError):
        return not_found(program)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return SpawnError(f"cannot start {program!r}: {reason}")
