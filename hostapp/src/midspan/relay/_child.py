"""The guarded server as a child process: its own group, its own exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from midspan.relay._channel import ConnectError
from midspan.relay._lines import LineReader, PipeWriter, open_reader, open_writer

GRACE: Final = 1.5
"""Seconds between closing stdin and SIGTERM, and again between SIGTERM and SIGKILL.

Shorter than the two seconds that clients give to the processes they started, so that a stubborn server is gone before
its client kills the gateway.
"""

_KILLED_WITHIN: Final = 1.0
"""Seconds in which a killed process goes, unless the system itself hangs."""


class SpawnError(ConnectError):
    """The server could not be started. The text says which command, why, and what to do."""


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

    def __init__(self, process: subprocess.Popen[bytes], stdin: PipeWriter, stdout: LineReader) -> None:
        self.pid = process.pid
        self.stdin = stdin
        self.stdout = stdout
        self.exited = asyncio.Event()
        self._process = process
        self._over = False
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._wait_in_thread, args=(loop,), daemon=True, name="midspan-wait").start()

    def _wait_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        if hasattr(os, "waitid"):
            # Not reaped before its group was killed: else the id could be another group's by then.
            with contextlib.suppress(ChildProcessError):  # `kill` was faster
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(self.exited.set)

    def signal_group(self, number: int) -> None:
        """Send a signal to the server and all of its group."""
        if not self._over:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def stop(self, *, signalled: bool = False) -> int:
        """Close stdin, then insist: SIGTERM and SIGKILL to the whole group, each after its grace.

        Args:
            signalled: the group has had a signal that asks it to end; the next is SIGKILL.

        Returns:
            The exit code; 128 + N when signal N ended the server.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await self.stdin.aclose()
                await self.exited.wait()
        if not (self.exited.is_set() or signalled):
            self.signal_group(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self.exited.wait()
        self.end_group()
        await self.exited.wait()
        return self._reap()

    def end_group(self) -> None:
        """Kill whatever is left of the group; descendants do not outlive the gateway."""
        self.signal_group(signal.SIGKILL)

    def kill(self) -> None:
        """End at once, without any grace, and let go of the streams."""
        self.stdin.abort()
        self.stdout.close()
        if not self._over:
            self.end_group()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._reap(_KILLED_WITHIN)

    def _reap(self, timeout: float | None = None) -> int:
        code = self._process.wait(timeout)
        self._over = True
        return 128 - code if code < 0 else code


async def spawn(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | Path | None = None
) -> ChildProcess:
    """Start a server with the full environment, this working directory and this stderr.

    Raises:
        SpawnError: the command cannot be run.
    """
    try:
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - the operator's own command; forking takes a moment once
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
    except FileNotFoundError as error:
        if cwd is not None and str(error.filename) == str(cwd):
            raise SpawnError(f"cannot start {command[0]!r}: its working directory is not there: {cwd}") from None
        raise not_found(command[0]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpawnError(f"cannot start {command[0]!r}: {reason}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    writer = await open_writer(os.dup(process.stdin.fileno()))
    reader = await open_reader(os.dup(process.stdout.fileno()))
    process.stdin.close()
    process.stdout.close()
    assert isinstance(writer, PipeWriter)
    return ChildProcess(process, writer, reader)
