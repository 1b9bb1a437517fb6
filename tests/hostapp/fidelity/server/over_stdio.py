"""The awkward server as a child process. The process only hands over its pipes: the bytes in them are the test's."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketStream, TaskGroup, UNIXSocketStream

from tests.hostapp.fidelity.pipes import Pipes

from .asked import Channel, Peer
from .server import Server

CHILD = Path(__file__).with_name("child.py")


class _Stdout:
    """Speaks lines."""

    def __init__(self, pipes: Pipes, *, singly: bool) -> None:
        self._pipes = pipes
        self._singly = singly

    async def send(self, message: bytes, *, last: bool = False, status: str = "200 OK") -> None:
        """Write a line."""
        await self._pipes.write(message + b"\n", singly=self._singly)

    async def end(self) -> None:
        """Nothing shows that a request is over."""


@asynccontextmanager
async def serve_stdio(server: Server) -> AsyncGenerator[list[str]]:
    """Make a server that can be started as often as needed; yields its command line."""

    async def serve(control: SocketStream) -> None:
        assert isinstance(control, UNIXSocketStream)
        async with control:
            try:
                _, (source, out) = await control.receive_fds(1, 2)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return  # killed while it started
            pipes = await Pipes.of(source, out)
            try:
                channel: Channel = _Stdout(pipes, singly=server.form == "single bytes")
                peer = server.new_peer()
                peer.listens_at(channel)
                async with anyio.create_task_group() as group:
                    group.start_soon(_until_killed, control, group)
                    await _listen(server, pipes, peer, channel, group)
                    group.cancel_scope.cancel()
            finally:
                pipes.close()

    # A socket's path has to be short.
    with tempfile.TemporaryDirectory(prefix="midspan-") as folder:
        path = Path(folder) / "s"
        async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, serve)
            yield [sys.executable, "-I", "-S", str(CHILD), str(path)]
            group.cancel_scope.cancel()


async def _listen(server: Server, pipes: Pipes, peer: Peer, channel: Channel, group: TaskGroup) -> None:
    async for line in pipes.lines():
        if (asked := server.hear(line, peer, channel)) is not None:
            group.start_soon(server.act, asked)


async def _until_killed(control: UNIXSocketStream, group: TaskGroup) -> None:
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        await control.receive()
    group.cancel_scope.cancel()
