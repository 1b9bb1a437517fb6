"""List and invoke the interceptors of the server that the arguments name."""

import os
import sys
from collections.abc import Sequence

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from midspan_sdk.mcp import invoke_interceptor, list_interceptors, read_capability


async def ask_server(command: Sequence[str]) -> None:
    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ))
    async with Client(server) as client:
        print(read_capability(client.server_capabilities))
        for descriptor in await list_interceptors(client, event="tools/call"):
            print(descriptor.to_wire())
        result = await invoke_interceptor(
            client, "no_deletes", event="tools/call", phase="request", payload={"name": "delete_file"}
        )
        print(result.to_wire())


if __name__ == "__main__":
    anyio.run(ask_server, sys.argv[1:])
