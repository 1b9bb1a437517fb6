"""An MCP client: starts the server that the arguments name, and calls its tool `shell` with a few commands."""

import os
import sys
from collections.abc import Sequence

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

COMMANDS = ("ls", "rm -rf /")


async def call_shell(server: Sequence[str]) -> None:
    """Call the tool and print what comes back."""
    parameters = StdioServerParameters(command=server[0], args=list(server[1:]), env=dict(os.environ))
    async with Client(parameters) as client:
        for command in COMMANDS:
            result = await client.call_tool("shell", {"command": command})
            assert isinstance(result, CallToolResult)
            (content,) = result.content
            assert isinstance(content, TextContent)
            print(f"{command}: {content.text}")


if __name__ == "__main__":
    anyio.run(call_shell, sys.argv[1:])
