"""Between transports of different kinds: a server that is reached over HTTP as a connection of lines, and clients that
speak HTTP in front of a connection of lines.

Messages stay the bytes that arrived. Importing this module imports an HTTP client and none of the MCP SDK.
"""

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.bridge._backends import HTTPBackend, SSEBackend
from midspan.bridge._endpoint import BridgeEndpoint

if TYPE_CHECKING:
    from midspan.bridge._sdk_backends import SDKBackend, sdk_backend

__all__ = ["BridgeEndpoint", "HTTPBackend", "SDKBackend", "SSEBackend", "sdk_backend"]

_HEAVY = {"SDKBackend": "_sdk_backends", "sdk_backend": "_sdk_backends"}

__getattr__ = lazily(__name__, _HEAVY)
