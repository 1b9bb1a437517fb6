"""Two ways to start a server and keep hold of it: below a keeper (Linux), or as a child of this process."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

_KEEPER: Final = Path(__file__).with_name("_keeper.py")

CAN_KEEP: Final = (
    sys.platform == "linux"
    and bool(sys.executable)
    and hasattr(os, "memfd_create")
    and Path("/proc/self/stat").exists()
)
"""Whether there can be a keeper here."""


class Holder(ABC):
    """A started server, whose id and group id stay its own until `release`.

    Attributes:
        pid: the server's, also the id of its group and session.
        process: the child of this process; the server, or its keeper. What descends from the server is found below it.
        keeps_orphans: whether a descendant whose parent ended is found there too.
        exited: set when the server has ended.
        code: then its exit code; 128 + N for signal N.
        alone: whether it is known that no descendant was left then.
        lost: whether its id may be another's already, because the keeper was killed.
        gone: set when it is reaped after `release`, and what was to be killed is dead.
    """

    keeps_orphans: bool

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self.process = process
        self.exited = asyncio.Event()
        self.gone = asyncio.Event()
        self.code = 128 + signal.SIGKILL
        self.alone = False
        self.lost = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="midspan-wait")

    async def started(self) -> None:
        """Wait until the server's program runs.

        Raises:
            OSError: it cannot; with the file `cwd` if the working directory is the reason.
            ValueError: so.
        """
        self._thread.start()

    @abstractmethod
    def release(self) -> None:
        """Let go of the server, which has ended, or is killed with all that is still found below `process`."""

    def wait(self, seconds: float) -> None:
        """Wait for `gone` without the event loop."""
        self._thread.join(seconds)

    @abstractmethod
    def _follow(self) -> None:
        """Tell of the server's end, and reap it after `release`; in a thread of its own."""

    def _reap(self) -> None:
        self.process.wait()
        self._tell(self.gone.set)

    def _tell(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(what)


class OwnChild(Holder):
    """A server that is a child of this process."""

    keeps_orphans = False

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> None:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
        super().__init__(process)
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def _follow(self) -> None:
        if hasattr(os, "waitid"):
            # Not reaped before its group was killed: else the id could be another group's by then.
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            self.code = ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status
        else:
            code = self.process.wait()
            self.code = 128 - code if code < 0 else code
        self._tell(self.exited.set)
        self._released.wait()
        self._reap()


class KeptChild(Holder):
    """A server below a keeper, `_keeper.py`, which knows all its descendants."""

    keeps_orphans = True

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, *, grace: float) -> None:
        source = os.memfd_create("midspan")
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        try:
            with open(source, "wb", closefd=False) as file:
                marshal.dump({**_program(command, env, cwd), "grace": grace}, file)
            os.lseek(source, 0, os.SEEK_SET)
            given = (source, control, report)
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(_KEEPER), *map(str, given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=given,
                start_new_session=True,
                bufsize=0,
            )
        except BaseException:
            os.close(self._control)
            os.close(self._report)
            raise
        finally:
            for descriptor in (source, control, report):
                os.close(descriptor)
        super().__init__(process)
        self._released = False
        self._running: asyncio.Future[None] = self._loop.create_future()

    async def started(self) -> None:
        await super().started()
        try:
            await self._running
        except BaseException:
            self.release()
            for stream in (self.process.stdin, self.process.stdout):
                assert stream is not None
                stream.close()
            raise

    def release(self) -> None:
        if not self._released:
            self._released = True
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, b"K")
            os.close(self._control)

    def _follow(self) -> None:
        failure: Exception = ChildProcessError("the process that was to start it has ended")
        with open(self._report, "rb") as lines:
            for line in lines:
                kind, *words = line.decode().split()
                if kind == "pid":
                    self.pid = int(words[0])
                    self._tell(lambda: self._running.set_result(None))
                elif kind == "exit":
                    self.code, self.alone = int(words[0]), words[1] == "1"
                    self._tell(self.exited.set)
                else:
                    failure = _failure(kind, words)
        # Before `release` only a keeper that was killed ends; the server goes with it.
        self.lost = not self._released
        self._tell(self.exited.set)
        self._tell(lambda: self._running.done() or self._running.set_exception(failure))
        self._reap()


def _program(command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> dict[str, object]:
    """Return a program as the keeper takes it, found as `subprocess` would find it."""
    argv = [os.fsencode(word) for word in command]
    folders = [] if os.path.dirname(argv[0]) else os.get_exec_path(env)
    return {
        "argv": argv,
        "executables": [os.path.join(os.fsencode(folder), argv[0]) for folder in folders] or [argv[0]],
        "env": dict(os.environb) if env is None else {os.fsencode(key): os.fsencode(env[key]) for key in env},
        "cwd": None if cwd is None else os.fsencode(cwd),
    }


def _failure(kind: str, words: Sequence[str]) -> Exception:
    if kind == "invalid":
        return ValueError(" ".join(words))
    where, number = words
    return OSError(int(number), os.strerror(int(number)), where)
