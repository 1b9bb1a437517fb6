"""Serves interceptors without any transport: the answers to `interceptors/list` and `interceptor/invoke`.

`midspan_sdk.mcp.InterceptorsExtension` puts them on a server of the MCP SDK. A host that speaks JSON-RPC by itself uses
this module, which does not import the MCP SDK.
"""

from midspan_sdk.serving._capability import add_capability
from midspan_sdk.serving._service import InterceptorService, error_data

__all__ = ["InterceptorService", "add_capability", "error_data"]
