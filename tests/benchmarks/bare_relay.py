"""The least that a process in between can do: copy, with asyncio's streams, and read nothing.

python bare_relay.py stdio COMMAND...     lines, both ways, between this process's streams and a child's
python bare_relay.py tcp PORT             bytes, both ways, of every connection; one line on stderr names the port
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

LIMIT = 2**27


async def copy_lines(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy until the source ends, then close the target."""
    while line := await source.readline():
        target.write(line)
        await target.drain()
    target.close()


async def between_stdio(command: Sequence[str]) -> None:
    """Start a server and copy lines both ways until its output ends."""
    loop = asyncio.get_running_loop()
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LIMIT
    )
    assert child.stdin is not None
    assert child.stdout is not None
    client_in = asyncio.StreamReader(LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(client_in), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout.buffer
    )
    client_out = asyncio.StreamWriter(transport, protocol, None, loop)
    asking = asyncio.create_task(copy_lines(client_in, child.stdin))
    await copy_lines(child.stdout, client_out)
    asking.cancel()


async def copy_bytes(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy until the source ends, then close the target."""
    while chunk := await source.read(2**18):
        target.write(chunk)
        await target.drain()
    target.close()


async def between_sockets(port: int) -> None:
    """Serve for ever, a connection to the port for each connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port, limit=2**18)
        await asyncio.gather(copy_bytes(reader, there_writer), copy_bytes(there_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**18)
    print(f"serving on {server.sockets[0].getsockname()[1]}", file=sys.stderr, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        asyncio.run(between_stdio(sys.argv[2:]))
    else:
        asyncio.run(between_sockets(int(sys.argv[2])))
