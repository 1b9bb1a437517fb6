"""The matrix's interceptors as a child process that speaks MCP over stdio."""

from __future__ import annotations

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from remote_guards import all_guards

from midspan_sdk.mcp import InterceptorsExtension


async def main() -> None:
    server = Server("guards")
    InterceptorsExtension(*all_guards()).install(server)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
