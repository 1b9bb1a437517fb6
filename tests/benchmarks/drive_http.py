"""A raw client over HTTP: one request at a time on each keep-alive connection, with as little work as can be done."""

from __future__ import annotations

import asyncio
import re
from time import perf_counter

from drive import AT_ONCE, INITIALIZE, INITIALIZED, VERSION, NoResultError, call


class _Connection:
    """A connection with a session of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._number = 0
        self._extra: str
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> _Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**23)
        self._extra = ""
        head, _ = await self._post(INITIALIZE)
        session = re.search(rb"mcp-session-id: *(\S+)", head, re.IGNORECASE)
        assert session is not None, head
        self._extra = f"mcp-session-id: {session[1].decode()}\r\nmcp-protocol-version: {VERSION}\r\n"
        await self._post(INITIALIZED)
        return self

    async def ready(self) -> None:
        """Connect anew if the other side has closed: servers do, after a while without a request."""
        await asyncio.sleep(0)
        if self._reader.at_eof():
            self._writer.close()
            await self.open()

    async def call(self, size: int) -> float:
        self._number += 1
        body = call(self._number, size)
        started = perf_counter()
        _, length = await self._post(body)
        taken = perf_counter() - started
        if length < size:
            raise NoResultError
        return taken

    async def _post(self, body: bytes) -> tuple[bytes, int]:
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: localhost:{self._port}\r\naccept: application/json, text/event-stream\r\n"
            f"content-type: application/json\r\n{self._extra}content-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        lowered = answer.lower()
        if b"transfer-encoding: chunked" in lowered:
            length = 0
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                await self._reader.readexactly(size + 2)
                length += size
            await self._reader.readexactly(2)
            return answer, length
        found = re.search(rb"content-length: *(\d+)", lowered)
        length = int(found[1]) if found is not None else 0
        await self._reader.readexactly(length)
        return answer, length

    def close(self) -> None:
        self._writer.close()


class HTTPSession:
    """As many connections as calls are to be under way.

    Args:
        port: where the server, or what stands in front of it, listens.
        runner: all sessions share one loop.
    """

    def __init__(self, port: int, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._connections = runner.run(self._open(port))

    @staticmethod
    async def _open(port: int) -> list[_Connection]:
        return [await _Connection(port).open() for _ in range(AT_ONCE)]

    def in_turn(self, size: int, count: int) -> list[float]:
        """Call the tool again and again; returns the seconds of each call."""

        async def work() -> list[float]:
            connection = self._connections[0]
            await connection.ready()
            return [await connection.call(size) for _ in range(count)]

        return self._runner.run(work())

    def at_once(self, size: int, count: int) -> list[float]:
        """Call the tool on all connections at once; returns the seconds of each call."""

        async def one(connection: _Connection) -> list[float]:
            return [await connection.call(size) for _ in range(count // AT_ONCE)]

        async def work() -> list[float]:
            for connection in self._connections:
                await connection.ready()
            together = await asyncio.gather(*map(one, self._connections))
            return [taken for each in together for taken in each]

        return self._runner.run(work())

    def close(self) -> None:
        """Close the connections."""

        async def work() -> None:
            for connection in self._connections:
                connection.close()

        self._runner.run(work())
