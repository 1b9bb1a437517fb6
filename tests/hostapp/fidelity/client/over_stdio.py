"""The raw client on two pipes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio

from tests.hostapp.fidelity.eras import Era
from tests.hostapp.fidelity.pipes import Pipes

from .link import Link


class StdioLink(Link):
    """Speaks lines.

    Attributes:
        ended: set when the other side says no more.
    """

    carrier = "stdio"

    def __init__(self, era: Era, pipes: Pipes) -> None:
        super().__init__(era)
        self.ended = anyio.Event()
        self._pipes = pipes

    async def send(self, raw: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        self.sent.append(raw)
        await self._pipes.write(raw + b"\n")

    async def cancel(self, message_id: object) -> None:
        await self.notify("notifications/cancelled", {"reason": "r", "requestId": message_id, "future": 1.0})

    async def read(self) -> None:
        """Take what comes, up to the end."""
        async for line in self._pipes.lines():
            self.arrive(line)
        self.ended.set()

    def hang_up(self) -> None:
        """Say no more, and go on listening."""
        self._pipes.close_output()

    async def listen(self) -> None:
        pass  # it comes where all else comes

    async def close(self) -> None:
        self._pipes.close()


@asynccontextmanager
async def stdio_link(era: Era, source: int, out: int) -> AsyncGenerator[StdioLink]:
    """Connect by two descriptors."""
    link = StdioLink(era, await Pipes.of(source, out))
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(link.read)
            yield link
            group.cancel_scope.cancel()
    finally:
        await link.close()
