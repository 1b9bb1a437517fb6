"""A server of the SDK, whose tool tells what reached it. Run as a program it speaks stdio."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer


def sample() -> MCPServer:
    """Return the server."""
    made = MCPServer("sample")

    @made.tool()
    def echo(number: int, mark: str = "") -> str:
        """Return what came."""
        return f"{number} {mark}"

    del echo
    return made


if __name__ == "__main__":
    sample().run()
