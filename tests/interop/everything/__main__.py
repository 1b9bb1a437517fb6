"""Serve over HTTP on 127.0.0.1.

    python -m everything PORT

from the folder `tests/interop`. Port 0 takes a free one; one line on stderr says which.
"""

from __future__ import annotations

import socket
import sys

import uvicorn

from .server import make_app


def main() -> None:
    """Serve until a signal stops it."""
    # With its protocol named, else asyncio does not switch Nagle's algorithm off.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen()
    print(f"everything: {listener.getsockname()[1]}", file=sys.stderr, flush=True)
    # httptools leaves white space behind a header's value, which the suite checks that a server ignores.
    config = uvicorn.Config(make_app(), http="h11", log_level="error", access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


main()
