"""Binds interceptors to the MCP SDK: serve them, list and invoke them on other servers.

Needs the extra `midspan-sdk[mcp]`. This is the only part of `midspan_sdk` that imports the MCP SDK, which takes about a
second.
"""

from midspan_sdk.mcp._capability import read_capability
from midspan_sdk.mcp._extension import InterceptorsExtension
from midspan_sdk.mcp._invoking import invoke_interceptor
from midspan_sdk.mcp._listing import list_interceptors

__all__ = [
    "InterceptorsExtension",
    "invoke_interceptor",
    "list_interceptors",
    "read_capability",
]
