"""An MCP server of your own that also serves interceptors."""

from typing import Any

from mcp.server.mcpserver import MCPServer

from midspan_sdk import validator
from midspan_sdk.mcp import InterceptorsExtension


@validator(events=["tools/call"], phase="request")
def no_deletes(payload: dict[str, Any]) -> str | None:
    """Deny tools whose name starts with delete."""
    return "deletes are off" if str(payload.get("name")).startswith("delete") else None


extension = InterceptorsExtension(no_deletes)
server = MCPServer("guards", extensions=[extension])
extension.install(server)


@server.tool()
def ping() -> str:
    """Answer."""
    return "pong"


if __name__ == "__main__":
    server.run("stdio")
