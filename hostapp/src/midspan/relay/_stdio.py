"""The process's own standard streams, kept for the protocol alone."""

from __future__ import annotations

import contextlib
import io
import os
import sys


def claim_standard_streams() -> tuple[int, int]:
    """Take stdin and stdout away from everybody else in this process.

    Afterwards descriptor 0 reads from the null device and descriptor 1 writes to stderr, so that neither a plugin's
    `print` nor a child process can put a byte between two messages. What was printed before and not yet written goes
    to stderr too.

    Returns:
        Descriptors for the protocol's input and output; the null device for one that was closed at start.
    """
    # Python sets a stream to None whose descriptor was closed; by now that number may be another file's.
    for descriptor, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            _to_null(descriptor)
    protocol_in, protocol_out = _private(0, os.O_RDONLY), _private(1, os.O_WRONLY)
    _to_null(0)
    os.dup2(2, 1)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - to the end
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What plugins print comes in its place among the lines of stderr, and is not lost at the end.
        stdout.reconfigure(line_buffering=True)
    return protocol_in, protocol_out


def _to_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor)
    if null != descriptor:
        os.close(null)


def _private(descriptor: int, flags: int) -> int:
    """Return a descriptor for the same file whose non-blocking flag is nobody else's.

    A terminal is one open file behind all three streams; making it non-blocking here would make the guarded server's
    stderr fail with EAGAIN. Opening it anew avoids that where the system allows it.
    """
    if os.isatty(descriptor):
        with contextlib.suppress(OSError):
            return os.open(os.ttyname(descriptor), flags | os.O_NOCTTY)
    return os.dup(descriptor)
