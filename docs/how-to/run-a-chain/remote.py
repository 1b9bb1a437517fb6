"""A chain over an interceptor server, which is started here and started again when it is lost."""

import os

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from midspan_sdk import Chain, InterceptorOverrides

SERVER = StdioServerParameters(
    command="midspan", args=["interceptors", "serve", "--plugin", "secrets"], env=dict(os.environ)
)


def connect() -> Client:
    return Client(SERVER)


async def main() -> None:
    async with Chain() as chain:
        await chain.add_server(
            connect,
            alias="central",
            overrides={"central.secrets.redact": InterceptorOverrides(timeout_ms=2000)},
        )
        for entry in chain.entries:
            print(entry)
        token = "ghp_" + "midspan0demo" * 3  # of the right form; never belonged to anybody
        result = await chain.execute(
            event="tools/call", phase="request", payload={"name": "send", "arguments": {"text": f"use {token}"}}
        )
        print(result.final_payload)


if __name__ == "__main__":
    anyio.run(main)
