"""The guarded server: a tool that returns its text. `python echo_server.py FILE` notes every call in the file."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo")


@server.tool()
def say(text: str) -> str:
    """Return the text."""
    with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
        log.write(f"{text}\n")
    return text


server.run("stdio")
