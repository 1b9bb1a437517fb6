"""Two pipes, of either side of a stdio connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import anyio

LONGEST = 2**27


class Pipes:
    """Reads lines from one descriptor and writes to another; owns both."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport, out: int) -> None:
        self._reader = reader
        self._transport = transport
        self._out = out
        self._writing = anyio.Lock()

    @classmethod
    async def of(cls, source: int, out: int) -> Pipes:
        """Take over two descriptors."""
        os.set_blocking(out, False)
        reader = asyncio.StreamReader(limit=LONGEST)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", buffering=0)
        )
        return cls(reader, transport, out)

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield every line without its end, up to the end of the input."""
        while line := await self._reader.readline():
            yield line.removesuffix(b"\n")

    async def write(self, data: bytes, *, singly: bool = False) -> None:
        """Write.

        Args:
            data: what to write.
            singly: hand over one byte at a time.

        Raises:
            BrokenPipeError: nobody reads.
        """
        async with self._writing:
            view = memoryview(data)
            while view:
                try:
                    written = os.write(self._out, view[:1] if singly else view)
                except BlockingIOError:
                    await anyio.wait_writable(self._out)
                else:
                    view = view[written:]
                    if singly:
                        await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close both; once is enough."""
        self._transport.close()
        self.close_output()

    def close_output(self) -> None:
        """Close the output alone."""
        if self._out >= 0:
            with contextlib.suppress(OSError):
                os.close(self._out)
            self._out = -1
