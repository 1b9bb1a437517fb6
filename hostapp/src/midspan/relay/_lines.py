"""Newline-delimited messages over file descriptors: bounded memory, back-pressure, any chunking.

Pipes, sockets and terminals are driven by the event loop; regular files, which a loop cannot wait for, are read in a
worker thread and written at once.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from typing import Final, Protocol, cast

import anyio.to_thread

MAX_LINE: Final = 64 * 1024 * 1024
"""Default limit of one message in bytes."""

_HIGH_WATER: Final = 1024 * 1024
_CHUNK: Final = 256 * 1024
_HEAD: Final = 1024


class OversizedLine:
    """Stands for a message longer than the limit, which was skipped.

    Attributes:
        head: its first bytes, enough to find out what it was.
    """

    __slots__ = ("head",)

    def __init__(self, head: bytes) -> None:
        self.head = head


class LineReader(asyncio.Protocol):
    """Splits what arrives into lines. Blank ones are left out; a carriage return stays part of its line.

    Args:
        limit: the longest line in bytes; a longer one is skipped and reported as `OversizedLine`.

    Attributes:
        ended: set when the other end closed; lines that came before can still be taken.
        feeder: the task that reads a regular file, or None.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._lines: deque[bytes | OversizedLine] = deque()
        self._queued = 0
        self._partial = bytearray()
        self._skipping: bytes | None = None
        self.ended = asyncio.Event()
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.ReadTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.feeder: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport, for back-pressure."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Take a chunk."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._finish(data[start:end])
            start = end + 1
        if start < len(data):
            self._keep(data[start:] if start else data)
        if self._queued > _HIGH_WATER and self._room.is_set():
            self._room.clear()
            if self._transport is not None:
                self._transport.pause_reading()
        self._wake()

    def _keep(self, part: bytes) -> None:
        if self._skipping is not None:
            return
        self._partial += part
        if len(self._partial) > self._limit:
            self._skipping = bytes(self._partial[:_HEAD])
            self._partial.clear()

    def _finish(self, rest: bytes) -> None:
        line: bytes | OversizedLine
        if self._skipping is None and not self._partial and len(rest) <= self._limit:
            line = rest
        else:
            self._keep(rest)
            line = bytes(self._partial) if self._skipping is None else OversizedLine(self._skipping)
            self._partial.clear()
            self._skipping = None
        if isinstance(line, OversizedLine) or (not line.isspace() and line):
            self._lines.append(line)
            self._queued += _size(line)

    def eof_received(self) -> bool:
        """Let a last line without a newline count."""
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Take any loss of the peer as the end of its lines."""
        self._end()

    def _end(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            if self._partial or self._skipping is not None:
                self._finish(b"")
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def has_room(self) -> None:
        """Wait until what was read is being taken."""
        await self._room.wait()

    def __aiter__(self) -> LineReader:
        return self

    async def __anext__(self) -> bytes | OversizedLine:
        while not self._lines:
            if self.ended.is_set():
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        line = self._lines.popleft()
        self._queued -= _size(line)
        if not self._room.is_set() and self._queued <= _HIGH_WATER // 2:
            self._room.set()
            if self._transport is not None and not self.ended.is_set():
                self._transport.resume_reading()
        return line

    def close(self) -> None:
        """Stop reading."""
        if self.feeder is not None:
            self.feeder.cancel()
        if self._transport is not None:
            self._transport.close()
        self._end()


def _size(line: bytes | OversizedLine) -> int:
    return len(line.head) if isinstance(line, OversizedLine) else len(line)


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


class PipeWriter(asyncio.Protocol):
    """Writes lines to a pipe, socket or terminal."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._room: asyncio.Event = asyncio.Event()
        self._room.set()
        self._lost: asyncio.Event = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def pause_writing(self) -> None:
        """Hold senders back."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let senders go on."""
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever waits; every further send fails."""
        self._lost.set()
        self._room.set()

    async def send(self, line: bytes) -> None:
        """Write a line and its newline."""
        if self._transport is None or self._lost.is_set() or self._transport.is_closing():
            raise BrokenPipeError
        self._transport.write(line + b"\n")
        if not self._room.is_set():
            await self._room.wait()
            if self._lost.is_set():
                raise BrokenPipeError

    async def aclose(self) -> None:
        """Flush and close."""
        if self._transport is not None and not self._lost.is_set():
            self._transport.close()
            await self._lost.wait()

    @property
    def lost(self) -> asyncio.Event:
        """Set when the reader is gone, or after closing."""
        return self._lost


class FileWriter:
    """Writes lines to a regular file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.lost = asyncio.Event()

    async def send(self, line: bytes) -> None:
        """Write a line and its newline."""
        data = memoryview(line + b"\n")
        while data:
            data = data[os.write(self._descriptor, data) :]

    async def aclose(self) -> None:
        """Close."""
        os.close(self._descriptor)
        self.lost.set()


async def open_reader(descriptor: int, *, limit: int = MAX_LINE) -> LineReader:
    """Read lines from a descriptor, which is closed in the end."""
    reader = LineReader(limit)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        reader.feeder = asyncio.create_task(_feed_from_file(descriptor, reader))
        return reader
    await asyncio.get_running_loop().connect_read_pipe(lambda: reader, os.fdopen(descriptor, "rb", buffering=0))
    return reader


async def _feed_from_file(descriptor: int, reader: LineReader) -> None:
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while chunk := await anyio.to_thread.run_sync(file.read, _CHUNK):
            reader.data_received(chunk)
            await reader.has_room()
    reader.eof_received()


async def open_writer(descriptor: int) -> PipeWriter | FileWriter:
    """Write lines to a descriptor, which is closed in the end."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return FileWriter(descriptor)
    writer = PipeWriter()
    await asyncio.get_running_loop().connect_write_pipe(lambda: writer, os.fdopen(descriptor, "wb", buffering=0))
    return writer
