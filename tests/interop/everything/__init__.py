"""A server that answers what the official conformance suite asks, written with the MCP SDK's low-level server."""
