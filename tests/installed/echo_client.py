"""The MCP SDK's client, run as a process: `echo_client.py TEXTS COMMAND [ARGS]...`.

It starts the command, an MCP server over stdio, calls `echo` with each text of the JSON list TEXTS, and prints the
results, one JSON object a line, as they are on the wire.
"""

from __future__ import annotations

import json
import os
import sys

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main(texts: list[str], command: list[str]) -> None:
    """Call `echo` with each text."""
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    with anyio.fail_after(60):
        async with Client(server) as client:
            for text in texts:
                result = await client.call_tool("echo", {"text": text})
                print(result.model_dump_json(by_alias=True, exclude_none=True))


if __name__ == "__main__":
    anyio.run(main, json.loads(sys.argv[1]), sys.argv[2:])
