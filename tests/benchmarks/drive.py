"""What both drivers send."""

from __future__ import annotations

from typing import Final, Protocol

AT_ONCE: Final = 32
VERSION: Final = "2025-11-25"
INITIALIZE: Final = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"driver","version":"1"}}}'
)
INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def call(number: int, size: int) -> bytes:
    """Return a call of the tool `blob`."""
    arguments = b'{"name":"blob","arguments":{"size":%d}}' % size
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%b}' % (number, arguments)


class NoResultError(Exception):
    """A contender did not hand out the tool's result."""


class Session(Protocol):
    """A client's session with a contender. Both ways of calling return the seconds that each call took.

    They raise `NoResultError` when what comes is shorter than the result.
    """

    def in_turn(self, size: int, count: int) -> list[float]:
        """Call one after the other."""
        ...

    def at_once(self, size: int, count: int) -> list[float]:
        """Call with `AT_ONCE` calls under way."""
        ...

    def close(self) -> None:
        """End it."""
        ...
