"""A client and the server with nothing between them: what a row demands has to hold here first."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from .client.link import Link
from .client.over_http import http_link
from .client.over_sse import sse_link
from .client.over_stdio import stdio_link
from .eras import Era
from .gateways import Address
from .pairs import Back


class Direct:
    """Connects to the server itself."""

    def __init__(self, back: Back, address: Address) -> None:
        self._back = back
        self._address = address

    @asynccontextmanager
    async def connect(self, era: Era) -> AsyncGenerator[Link]:
        """Yields a client."""
        if not isinstance(self._address, str):
            async with _started(era, self._address) as link:
                yield link
        else:
            connect = http_link if self._back == "http" else sse_link
            async with connect(era, self._address) as link:
                yield link


@asynccontextmanager
async def _started(era: Era, command: Sequence[str]) -> AsyncGenerator[Link]:
    server_in, to = os.pipe()
    from_, server_out = os.pipe()
    process = subprocess.Popen(command, stdin=server_in, stdout=server_out)  # noqa: ASYNC220 - forking takes a moment
    os.close(server_in)
    os.close(server_out)
    try:
        async with stdio_link(era, from_, to) as link:
            yield link
            link.hang_up()
            assert await anyio.to_thread.run_sync(process.wait) == 0
    finally:
        process.kill()
        process.wait()
