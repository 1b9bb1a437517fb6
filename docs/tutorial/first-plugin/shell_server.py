"""An MCP server with one tool. It only says what it would run."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("shell")


@server.tool()
def shell(command: str) -> str:
    """Run a shell command on build7.acme.internal."""
    return f"build7.acme.internal would run: {command}"


if __name__ == "__main__":
    server.run("stdio")
