"""Newline-delimited messages over file descriptors: bounded memory, back-pressure, any chunking.

Pipes, sockets and terminals are driven by the event loop; regular files and the null device, which a loop cannot wait
for, are read in a worker thread and written at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
import stat
from collections import deque
from collections.abc import Callable
from typing import Final, cast

import anyio.to_thread

logger = logging.getLogger("midspan.relay")

MAX_LINE: Final = 64 * 1024 * 1024
"""Default limit of one message in bytes."""

_HIGH_WATER: Final = 1024 * 1024
_CHUNK: Final = 256 * 1024
_EDGE: Final = 1024


class OversizedLine:
    """Stands for a message longer than the limit, which was skipped.

    Attributes:
        head: its first bytes.
        tail: its last bytes; many peers write the id behind the result.
    """

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail


class LineReader(asyncio.Protocol):
    """Splits what arrives into lines. Blank ones are left out; a carriage return stays part of its line.

    Args:
        limit: the longest line in bytes; a longer one is skipped and reported as `OversizedLine`.

    Attributes:
        limit: as above; may be set before anything arrived.
        ended: set when the other end closed; lines that came before can still be taken.
        feeder: the task that reads a regular file, or None.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.limit = limit
        self._lines: deque[bytes | OversizedLine] = deque()
        self._queued = 0
        self._chunks = 0
        self._partial = bytearray()
        self._skipped: OversizedLine | None = None
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
        self._chunks += 1
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
        if self._skipped is not None:
            self._skipped.tail = (self._skipped.tail + part[-_EDGE:])[-_EDGE:]
            return
        self._partial += part
        if len(self._partial) > self.limit:
            self._skipped = OversizedLine(bytes(self._partial[:_EDGE]), bytes(self._partial[-_EDGE:]))
            self._partial.clear()

    def _finish(self, rest: bytes) -> None:
        line: bytes | OversizedLine
        if self._skipped is None and not self._partial and len(rest) <= self.limit:
            line = rest
        else:
            self._keep(rest)
            line = bytes(self._partial) if self._skipped is None else self._skipped
            self._partial.clear()
            self._skipped = None
        if isinstance(line, OversizedLine) or (line and not line.isspace()):
            self._lines.append(line)
            self._queued += line_size(line)

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
            if self._partial or self._skipped is not None:
                self._finish(b"")
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def has_room(self) -> None:
        """Wait until what was read is being taken."""
        await self._room.wait()

    async def quiet(self, seconds: float) -> None:
        """Wait for the end, or until nothing came for so long although it was wanted."""
        while not self.ended.is_set():
            await self._room.wait()
            before = self._chunks
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.ended.wait()
            if self._chunks == before and self._room.is_set():
                return

    def __aiter__(self) -> LineReader:
        return self

    async def __anext__(self) -> bytes | OversizedLine:
        while not self._lines:
            if self.ended.is_set():
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        line = self._lines.popleft()
        self._queued -= line_size(line)
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


def line_size(line: bytes | OversizedLine) -> int:
    return 2 * _EDGE if isinstance(line, OversizedLine) else len(line)


class PipeWriter(asyncio.Protocol):
    """Writes lines to a pipe, socket or terminal, in the order in which they are sent.

    Attributes:
        when_lost: called once, when the reader is gone or after closing.
    """

    def __init__(self) -> None:
        self.when_lost: Callable[[], None] | None = None
        self._transport: asyncio.WriteTransport | None = None
        # One sender at a time: however many wait, no more than one line lies above the transport's high-water mark.
        self._turn = asyncio.Lock()
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
        if self.when_lost is not None:
            self.when_lost()

    async def send(self, line: bytes) -> None:
        """Write a line and its newline."""
        async with self._turn:
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

    def abort(self) -> None:
        """Close without flushing."""
        if self._transport is not None and not self._lost.is_set():
            self._transport.abort()

    @property
    def lost(self) -> asyncio.Event:
        """Set when the reader is gone, or after closing."""
        return self._lost


class SocketWriter(PipeWriter):
    """Writes lines to a socket and never reads from it: stdin may be the same socket."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        super().connection_made(transport)
        cast("asyncio.ReadTransport", transport).pause_reading()


class FileWriter:
    """Writes lines to what is always ready: a regular file, the null device."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.lost = asyncio.Event()

    async def send(self, line: bytes) -> None:
        """Write a line and its newline."""
        data = memoryview(line + b"\n")
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:  # a full disk, say: a torn line can be followed by nothing
            if not self.lost.is_set():
                logger.error("cannot write to the output file: %s", error.strerror)
                self.lost.set()
            raise BrokenPipeError from error

    async def aclose(self) -> None:
        """Close."""
        self.abort()

    def abort(self) -> None:
        """Close."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self.lost.set()


def _can_be_awaited(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(descriptor))


def _is_stream_socket(descriptor: int) -> bool:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return False
    probe = socket.socket(fileno=descriptor)
    try:
        return probe.type == socket.SOCK_STREAM
    finally:
        probe.detach()


async def open_reader(descriptor: int, *, limit: int = MAX_LINE) -> LineReader:
    """Read lines from a descriptor, which is closed in the end."""
    reader = LineReader(limit)
    if not _can_be_awaited(descriptor):
        reader.feeder = asyncio.create_task(_feed_from_file(descriptor, reader))
    elif _is_stream_socket(descriptor):
        await asyncio.get_running_loop().create_connection(lambda: reader, sock=socket.socket(fileno=descriptor))
    else:
        await asyncio.get_running_loop().connect_read_pipe(lambda: reader, os.fdopen(descriptor, "rb", buffering=0))
    return reader


async def _feed_from_file(descriptor: int, reader: LineReader) -> None:
    try:
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while chunk := await anyio.to_thread.run_sync(file.read, _CHUNK):
                reader.data_received(chunk)
                await reader.has_room()
    except OSError as error:
        logger.error("cannot read the input: %s", error.strerror)
    finally:
        reader.eof_received()


async def open_writer(descriptor: int) -> PipeWriter | FileWriter:
    """Write lines to a descriptor, which is closed in the end."""
    if not _can_be_awaited(descriptor):
        return FileWriter(descriptor)
    loop = asyncio.get_running_loop()
    if _is_stream_socket(descriptor) and hasattr(select, "epoll"):
        # asyncio's write pipe takes a readable socket for one whose peer has closed. That is wrong where stdin and
        # stdout are one socket, and where the peer has only shut down its own sending side.
        writer: PipeWriter = SocketWriter()
        await loop.create_connection(lambda: writer, sock=socket.socket(fileno=descriptor))
        _watch_hangup(descriptor, writer)
    else:
        writer = PipeWriter()
        await loop.connect_write_pipe(lambda: writer, os.fdopen(descriptor, "wb", buffering=0))
    return writer


def _watch_hangup(descriptor: int, writer: PipeWriter) -> None:
    """Abort the writer when the peer of its socket has closed both ways, which no other event tells apart."""
    loop = asyncio.get_running_loop()
    poll = select.epoll()
    poll.register(descriptor, 0)  # a hang-up is always reported, and nothing else is wanted

    def hung_up() -> None:
        loop.remove_reader(poll.fileno())
        writer.abort()

    def stop_watching() -> None:
        loop.remove_reader(poll.fileno())
        poll.close()

    writer.when_lost = stop_watching
    loop.add_reader(poll.fileno(), hung_up)
