"""A guarded server inside of a web application."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.routing import Mount

from midspan import Gateway
from midspan_sdk import Chain, validator

server = MCPServer("files")


@server.tool()
def read(path: str) -> str:
    """Read a file."""
    return f"what is in {path}"


@validator(events=["tools/call"], phase="request")
def no_secrets(payload: dict[str, Any]) -> str | None:
    """Deny what is nobody's business."""
    return "not this one" if "secret" in str(payload.get("arguments")) else None


chain = Chain()
chain.add(no_secrets)
gateway = Gateway(server, chain)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    """Run the chain and the gateway as long as the application."""
    async with chain, gateway:
        yield


app = Starlette(routes=[Mount("/guarded", app=gateway.asgi_app())], lifespan=lifespan)
