"""What the relay needs of the two sides: lines that come, lines that go, and a server behind them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol, Self

from midspan.relay._lines import OversizedLine, line_size

_HIGH_WATER: Final = 1024 * 1024


class LineSource(Protocol):
    """Gives whole messages, in order."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> bytes | OversizedLine: ...

    def close(self) -> None:
        """Take no more; what came before can still be taken."""
        ...


class LineWriter(Protocol):
    """Takes whole messages, with back-pressure."""

    async def send(self, line: bytes) -> None:
        """Write a line and its newline.

        Raises:
            BrokenPipeError: the reader is gone.
        """
        ...

    async def aclose(self) -> None:
        """Flush and close."""
        ...

    def abort(self) -> None:
        """Close without flushing."""
        ...


class Connection(Protocol):
    """A server, as lines.

    Attributes:
        to_server: where its messages go. Closing it says that the client has no more to say; the server may finish.
        from_server: where its messages come from; ends when it has said all, or is gone.
    """

    @property
    def to_server(self) -> LineWriter: ...

    @property
    def from_server(self) -> LineSource: ...

    def signal(self, number: int) -> None:
        """Pass a signal on to a server that is a process."""
        ...

    async def stop(self, *, signalled: bool = False) -> int:
        """End the connection in an orderly way.

        Args:
            signalled: the server has had a signal that asks it to end.

        Returns:
            The exit code of a server that is a process; 128 + N when signal N ended it. 0 for others.
        """
        ...

    def kill(self) -> None:
        """End the connection at once."""
        ...


class Backend(Protocol):
    """Opens connections to one server."""

    async def connect(self, *, limit: int) -> Connection:
        """Open a connection.

        Args:
            limit: the longest message in bytes.

        Raises:
            ConnectError: it cannot be opened.
        """
        ...


class ConnectError(Exception):
    """A connection to the server cannot be opened. The text says to which one, why, and what to do."""


class LineQueue:
    """Lines that one task hands to another: a source and a writer in one, with back-pressure.

    Attributes:
        closed: whether no more lines are taken.
    """

    def __init__(self) -> None:
        self.closed = False
        self._lines: deque[bytes | OversizedLine] = deque()
        self._queued = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def send(self, line: bytes | OversizedLine) -> None:
        """Hand over a line; returns when there is room for more.

        Raises:
            BrokenPipeError: nobody takes lines any more.
        """
        self.put(line)
        if self._queued > _HIGH_WATER:
            self._room.clear()
            await self._room.wait()

    def put(self, line: bytes | OversizedLine) -> int:
        """Hand over a line without waiting. Return how many bytes wait now.

        Raises:
            BrokenPipeError: nobody takes lines any more.
        """
        if self.closed:
            raise BrokenPipeError
        self._lines.append(line)
        self._queued += line_size(line)
        self._changed.set()
        return self._queued

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes | OversizedLine:
        while not self._lines:
            if self.closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        line = self._lines.popleft()
        self._queued -= line_size(line)
        if self._queued <= _HIGH_WATER // 2:
            self._room.set()
        return line

    def close(self) -> None:
        """Take no more lines; those that wait can still be taken."""
        self.closed = True
        self._changed.set()
        self._room.set()

    async def aclose(self) -> None:
        """Take no more lines."""
        self.close()

    def abort(self) -> None:
        """Take no more lines, and drop those that wait."""
        self._lines.clear()
        self._queued = 0
        self.close()
