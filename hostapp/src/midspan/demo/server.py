"""The demo's MCP server, a process of its own: `python -m midspan.demo.server`.

It writes each call that reaches it, and what it answers, to the file that the environment names; that is the server's
own view, which the demo shows beside the client's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

from midspan.demo.props import VIEW_VARIABLE, demo_access_key

server = MCPServer("demo-notes", version="1.0")


def _record(tool: str, arguments: dict[str, Any], answer: str) -> str:
    line = json.dumps({"tool": tool, "arguments": arguments, "answer": answer})
    with Path(os.environ[VIEW_VARIABLE]).open("a", encoding="utf-8") as view:
        view.write(line + "\n")
    return answer


@server.tool()
def read_note(name: str) -> str:
    """Read a note."""
    return _record("read_note", {"name": name}, "milk, bread, coffee")


@server.tool()
def delete_note(name: str) -> str:
    """Delete a note for good."""
    return _record("delete_note", {"name": name}, f"deleted {name}")


@server.tool()
def send_message(to: str, text: str) -> str:
    """Send a message to somebody."""
    return _record("send_message", {"to": to, "text": text}, f"sent to {to}")


@server.tool()
def read_settings() -> str:
    """Read the service's settings, among them a key that should not be there."""
    return _record("read_settings", {}, f"region = eu-central-1\naccess_key = {demo_access_key()}")


if __name__ == "__main__":
    server.run("stdio")
