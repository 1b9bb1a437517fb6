"""Serve over HTTP on 127.0.0.1, or over stdio.

    python -m everything PORT
    python -m everything stdio

from the folder `tests/interop`. Port 0 takes a free one; one line on stderr says which.
"""

from __future__ import annotations

import socket
import sys

import anyio
import uvicorn
from mcp.server.stdio import stdio_server

from .server import make_app, make_server


async def serve_stdio() -> None:
    """Serve the client behind stdin and stdout."""
    server = make_server()
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


def main() -> None:
    """Serve until a signal, or the end of stdin, stops it."""
    if sys.argv[1] == "stdio":
        anyio.run(serve_stdio)
        return
    # With its protocol named, else asyncio does not switch Nagle's algorithm off.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen()
    print(f"everything: {listener.getsockname()[1]}", file=sys.stderr, flush=True)
    # httptools leaves white space behind a header's value, which the suite checks that a server ignores.
    config = uvicorn.Config(make_app(), http="h11", log_level="error", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


main()
