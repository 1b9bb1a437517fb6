"""FastMCP's own proxy, for comparison, as its documentation sets it up.

    python fastmcp_proxy.py stdio COMMAND...
    python fastmcp_proxy.py http URL          one line on stderr names the port

`bench_gateway.py` runs it in an environment of its own.
"""

# fastmcp is not installed here; nothing in this file is part of midspan.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy
from peer import serve


def main() -> None:
    """Proxy until the input ends or a signal comes."""
    kind, first, *rest = sys.argv[1:]
    if kind == "stdio":
        create_proxy(StdioTransport(first, rest)).run(transport="stdio", show_banner=False)
    else:
        serve(create_proxy(first).http_app(), lifespan=True)


if __name__ == "__main__":
    main()
