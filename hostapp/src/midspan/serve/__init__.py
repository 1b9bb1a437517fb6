"""An MCP server of interceptors: the enabled plugins, offered to other hosts' chains.

It serves `interceptors/list` and `interceptor/invoke` and nothing else. Importing this module imports the MCP SDK.
"""

from midspan.serve._server import interceptor_server, unused_observers
from midspan.serve._stdio import serve_stdio

__all__ = [
    "interceptor_server",
    "serve_stdio",
    "unused_observers",
]
