"""The process's own standard streams, kept for the protocol alone."""

from __future__ import annotations

import contextlib
import os
import sys


def claim_standard_streams() -> tuple[int, int]:
    """Take stdin and stdout away from everybody else in this process.

    Afterwards descriptor 0 reads from the null device and descriptor 1 writes to stderr, so that neither a plugin's
    `print` nor a child process can put a byte between two messages.

    Returns:
        Descriptors for the protocol's input and output.
    """
    protocol_in, protocol_out = _private(0, os.O_RDONLY), _private(1, os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdout.flush()
    try:
        os.dup2(2, 1)
    except OSError:  # started without stderr
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
    return protocol_in, protocol_out


def _private(descriptor: int, flags: int) -> int:
    """Return a descriptor for the same file whose non-blocking flag is nobody else's.

    A terminal is one open file behind all three streams; making it non-blocking here would make the guarded server's
    stderr fail with EAGAIN. Opening it anew avoids that where the system allows it.
    """
    if os.isatty(descriptor):
        with contextlib.suppress(OSError):
            return os.open(os.ttyname(descriptor), flags | os.O_NOCTTY)
    return os.dup(descriptor)
