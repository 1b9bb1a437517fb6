"""midspan: interceptors between any MCP client and any MCP server."""
