"""The program that stands between the gateway and a server on Linux, so that no descendant of the server gets lost.

Run as `python -I -S _keeper.py REQUEST CONTROL REPORT`, descriptors; stdin, stdout and stderr are the server's. It
starts the server, and is the *subreaper* of all that the server starts: whose parent ends becomes a child of this
process, daemons in sessions of their own too. So every process below this one is this server's and no other's, however
many servers the gateway has and whatever its plugins start. That is why the gateway is not the subreaper itself: it
could not tell them apart, and would have to reap children that others wait for.

REQUEST holds a marshalled dict with `executables` to try in turn, `argv`, `env`, `cwd` and `grace`, strings as bytes.

CONTROL brings one byte when everything is to be killed at once. Its end without that byte says that the gateway died:
then the server may end by itself, gets SIGTERM, and all gets SIGKILL, each after the grace in seconds.

REPORT takes lines: `pid N`, or `failed cwd|exec ERRNO`, or `invalid REASON`; then `exit CODE ALONE`, with 128 + N
for signal N, and ALONE 1 if nothing below was left when the server ended.

It is small because it stays as long as the server does, and imports little because the server waits for it.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn
else:
    import _signal as signal

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
"""Signals that must not end this process: who ends it by mistake would set the server's descendants free."""

KILLED_WITHIN = 1.0
"""Seconds in which killed processes go. Those that may not be killed, another user's, stay behind."""

TICK = 0.005
"""Seconds between two looks, while waiting for processes to end."""


def main() -> None:
    source, control, report = map(int, sys.argv[1:])
    with open(source, "rb") as file:
        request = marshal.load(file)  # noqa: S302 - our own parent's
    for descriptor in (control, report):
        os.set_inheritable(descriptor, False)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    ignored = [int(number) for number in CAUGHT if signal.getsignal(number) == signal.SIG_IGN]
    for number in CAUGHT:
        signal.signal(number, on_signal)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    server = start(request, ignored, libc, report)
    if server is None:
        return
    # The streams are the server's alone: who reads its stdout must see the end of it.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    tell(report, f"pid {server}")
    if not hold(server, control, woken, report):
        wait_until(lambda: code_of(server) is not None, request["grace"])
        ask_to_end(server)
        wait_until(lambda: not running_children(), request["grace"])
    wait_until(all_killed, KILLED_WITHIN)


def on_signal(number: int, frame: object) -> None:
    """Do nothing; that the signal came, `hold` sees."""


def tell(report: int, line: str) -> None:
    try:  # noqa: SIM105 - contextlib takes longer to import than all the rest; so below
        os.write(report, line.encode() + b"\n")
    except BrokenPipeError:
        pass  # the gateway died, which CONTROL says too


def start(request: dict[str, Any], ignored: list[int], libc: ctypes.CDLL, report: int) -> int | None:
    """Return the server's id; None, and a report, if it cannot be started."""
    failing, failed = os.pipe()
    server = os.fork()
    if server == 0:
        become_server(request, ignored, libc, failed)
    os.close(failed)
    failure = b""
    while more := os.read(failing, 1024):  # ends when the server's program runs
        failure += more
    os.close(failing)
    if not failure:
        return server
    os.waitpid(server, 0)
    tell(report, failure.decode())
    return None


def become_server(request: dict[str, Any], ignored: list[int], libc: ctypes.CDLL, failed: int) -> NoReturn:
    where = "cwd"
    try:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # As `subprocess` starts a program: what Python ignores for itself is not ignored there. Handlers end by exec.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        if request["cwd"] is not None:
            os.chdir(request["cwd"])
        where = "exec"
        reason = None
        for executable in request["executables"]:
            try:
                os.execve(executable, request["argv"], request["env"])  # noqa: S606 - the operator's own command
            except OSError as error:
                missing = isinstance(error, FileNotFoundError | NotADirectoryError)
                reason = reason if reason and missing else error.errno
        os.write(failed, f"failed exec {reason}".encode())
    except OSError as error:
        os.write(failed, f"failed {where} {error.errno}".encode())
    except ValueError as error:
        os.write(failed, f"invalid {error}".encode())
    finally:
        os._exit(127)


def hold(server: int, control: int, woken: int, report: int) -> bool:
    """Reap orphans and tell of the server's end, until CONTROL speaks. Return whether it did, and did not just end."""
    told = False
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(woken, select.POLLIN)
    while True:
        code = code_of(server)
        if code is None:
            reap_orphans(server)
        elif not told:
            told = True
            tell(report, f"exit {code} {int(not running_children())}")
        ready = [descriptor for descriptor, _ in poller.poll()]
        if control in ready:
            return os.read(control, 1) != b""
        os.read(woken, 4096)


def code_of(server: int) -> int | None:
    """Return the exit code of a server that ended. It is not reaped: else its id could be another group's by then."""
    ended = os.waitid(os.P_PID, server, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status


def reap_orphans(server: int) -> None:
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == server:
            return
        os.waitpid(ended.si_pid, 0)


def running_children() -> list[int]:
    """Return the children that have not ended.

    Nothing here signals any but children: their ids cannot be another's before this process reaps them.
    """
    own = os.getpid()
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == own and state != b"Z":
                found.append(int(name))
    return found


def signal_all(children: list[int], number: int) -> None:
    for child in children:
        try:  # noqa: SIM105
            os.kill(child, number)
        except PermissionError:
            pass  # another user's by now


def ask_to_end(server: int) -> None:
    try:  # noqa: SIM105
        os.killpg(server, signal.SIGTERM)
    except ProcessLookupError:
        pass
    signal_all([child for child in running_children() if child != server], signal.SIGTERM)


def all_killed() -> bool:
    """Kill every child, and tell whether none is left. The children of those become ours: call until none is."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    signal_all(running_children(), signal.SIGKILL)
    return False


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(TICK)


if __name__ == "__main__":
    main()
