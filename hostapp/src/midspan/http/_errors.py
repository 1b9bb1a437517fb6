"""What goes wrong between two HTTP connections.

HTTPRelayError
├── ClientGoneError       the client closed its connection
├── RefusedError          a request that is answered by the gateway itself, with an HTTP status
└── UpstreamError         the server cannot be reached, or broke off
"""

from __future__ import annotations


class HTTPRelayError(Exception):
    """Root of the tree."""


class ClientGoneError(HTTPRelayError):
    """The client closed its connection; there is nobody to answer."""


class RefusedError(HTTPRelayError):
    """A request goes no further.

    Attributes:
        status: the HTTP status.
        code: the JSON-RPC error code.
        reason: one line for the client.
    """

    def __init__(self, status: int, code: int, reason: str) -> None:
        self.status = status
        self.code = code
        self.reason = reason
        super().__init__(reason)


class UpstreamError(HTTPRelayError):
    """The server cannot be reached, or its connection broke. The text is fit for a peer."""
