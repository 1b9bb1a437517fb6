"""midspan: interceptors between any MCP client and any MCP server.

The sub-packages by duty: `config`, `plugins`, `relay`, `interception`, `cli`. Importing this module imports none of
them.
"""

__all__: list[str] = []
