"""A transport of the MCP SDK to a program, whose descendants end with it, and with midspan, however that ends.

The SDK's own stdio transport gives a minimal environment, and leaves the program behind when midspan is killed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from midspan.config import StdioServer
from midspan.relay import CommandBackend, LineSource, LineWriter, OversizedLine

logger = logging.getLogger("midspan.remote")

_FLUSH = 1.0
"""Seconds in which the program must take what was said to it before the end."""

Streams = tuple[Any, Any]
"""What a transport of the SDK gives; the SDK's own name of it is private."""

_Incoming = SessionMessage | Exception


@asynccontextmanager
async def command_transport(server: StdioServer) -> AsyncGenerator[Streams]:
    """Start the program. It has our environment, and what its table adds; its stderr is ours.

    Raises:
        SpawnError: it cannot be started.
    """
    environment = {**os.environ, **server.env} if server.env else None
    backend = CommandBackend(server.command, env=environment, cwd=server.cwd)
    connection = await backend.connect(limit=server.max_message)
    try:
        heard, incoming = anyio.create_memory_object_stream[_Incoming](0)
        outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)
        async with heard, incoming, outgoing, said, anyio.create_task_group() as group:
            written = anyio.Event()
            group.start_soon(_read, connection.from_server, heard)
            group.start_soon(_write, connection.to_server, said, heard, written)
            yield incoming, outgoing
            outgoing.close()
            with anyio.move_on_after(_FLUSH):
                await written.wait()
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await connection.stop()


async def _read(lines: LineSource, heard: MemoryObjectSendStream[_Incoming]) -> None:
    async with heard:
        async for line in lines:
            message = _message(line)
            if message is None:
                continue
            try:
                await heard.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


def _message(line: bytes | OversizedLine) -> SessionMessage | None:
    if isinstance(line, OversizedLine):
        logger.warning("an interceptor server said something longer than the limit; left out")
        return None
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:  # what it says may be somebody's data, and stays out of the log
        logger.warning("an interceptor server said something that is no message; left out")
        return None


async def _write(
    to_server: LineWriter,
    said: MemoryObjectReceiveStream[SessionMessage],
    heard: MemoryObjectSendStream[_Incoming],
    written: anyio.Event,
) -> None:
    try:
        async for message in said:
            await to_server.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
    except BrokenPipeError:
        # Whoever waits for an answer is told that there is nobody.
        heard.close()
    finally:
        written.set()
