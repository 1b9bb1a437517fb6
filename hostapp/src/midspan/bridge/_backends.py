"""Servers that are reached by a URL."""

from __future__ import annotations

from midspan.bridge._http_connection import HTTPConnection
from midspan.bridge._sse_connection import SSEConnection
from midspan.http import Headers, Upstream


class HTTPBackend:
    """A server that speaks streamable HTTP.

    Args:
        url: its endpoint.
        headers: for every request; credentials, say.
    """

    def __init__(self, url: str, headers: Headers = ()) -> None:
        self._url = url
        self._headers = headers

    async def connect(self, *, limit: int) -> HTTPConnection:
        """Make ready. Nothing is sent before the client says something."""
        upstream = await Upstream(self._url, self._headers).__aenter__()
        return HTTPConnection(upstream, limit=limit)


class SSEBackend:
    """A server that speaks the HTTP+SSE transport of 2024-11-05.

    Args:
        url: where its stream is.
        headers: for every request; credentials, say.
    """

    def __init__(self, url: str, headers: Headers = ()) -> None:
        self._url = url
        self._headers = headers

    async def connect(self, *, limit: int) -> SSEConnection:
        """Open the stream.

        Raises:
            ConnectError: there is none, or it does not say where to post.
        """
        return await SSEConnection(self._url, self._headers, limit=limit).open()
