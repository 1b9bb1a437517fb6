"""A server of the MCP SDK to stand behind the gateway; run as a program, it speaks over stdio."""

from mcp.server.mcpserver import MCPServer


def sample() -> MCPServer:
    """Make one."""
    server = MCPServer("behind", instructions="Handle with care.")

    @server.tool()
    def echo(text: str) -> str:
        """Echo."""
        return f"you said {text}"

    @server.tool()
    def remove(path: str) -> str:
        """Remove."""
        return f"removed {path}"

    del echo, remove
    return server


if __name__ == "__main__":
    sample().run()
