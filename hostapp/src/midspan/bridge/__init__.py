"""Between transports of different kinds: a server that is reached over HTTP as a connection of lines, and clients that
speak HTTP in front of a connection of lines.

Messages stay the bytes that arrived. Importing this module imports an HTTP client and none of the MCP SDK.
"""

from midspan.bridge._backends import HTTPBackend, SSEBackend
from midspan.bridge._endpoint import BridgeEndpoint

__all__ = ["BridgeEndpoint", "HTTPBackend", "SSEBackend"]
