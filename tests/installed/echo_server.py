"""An MCP server of the MCP SDK, run as a process: `echo_server.py FILE`.

It writes each text that reaches it to FILE, one JSON string a line: the server's own view.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo", version="1.0")


@server.tool()
def echo(text: str) -> str:
    """Answer with the same text."""
    with Path(sys.argv[1]).open("a", encoding="utf-8") as view:
        view.write(json.dumps(text) + "\n")
    return text


if __name__ == "__main__":
    server.run("stdio")
