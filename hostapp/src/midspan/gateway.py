"""The gateway as a Python API."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from midspan._web import URLFault, shown_url, url_fault
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.http import Front, HTTPRelay
    from midspan.interception import Denials
    from midspan_sdk import Chain

__all__ = ["MAX_MESSAGE", "PATH", "Gateway"]

PATH: Final = "/mcp"
"""Where the endpoint is, by convention."""
MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Default limit of one message in bytes."""

_URL_FAULTS: Final = {
    URLFault.NO_URL: ": it is no URL",
    URLFault.NO_SERVER: ": give the URL of the server, like http://localhost:8000/mcp",
    URLFault.CREDENTIALS: " with credentials in the URL; let the client send an Authorization header",
    URLFault.FRAGMENT: ": a fragment is never sent to a server; leave it out",
}


class Gateway:
    """Puts a chain between clients and a server.

        async with chain, Gateway("http://localhost:8000/mcp", chain) as gateway:
            app = gateway.asgi_app()

    Both eras of the protocol pass: the handshake revisions and 2026-07-28. With no interceptor acting, neither side can
    tell that the gateway is there.

    Args:
        backend: URL of a server that speaks streamable HTTP.
        chain: decides on every message; None, or one that has neither entries nor observers when the gateway starts,
            relays only. It stays the caller's: sinks and queued observers need `async with chain:` around the gateway.
        name: what interceptors know the server by; by default host and port of the URL.
        denials: what the sender of a blocked message is told.
        max_message: the longest message in bytes.

    Raises:
        OperatorError: the URL is none that can be relayed to.
    """

    def __init__(
        self,
        backend: str,
        chain: Chain | None = None,
        *,
        name: str | None = None,
        denials: Denials | None = None,
        max_message: int = MAX_MESSAGE,
    ) -> None:
        _check_url(backend)
        self._url = backend
        self._chain = chain
        self._name = name
        self._denials = denials
        self._max_message = max_message
        self._relay: HTTPRelay | None = None

    @property
    def _endpoint(self) -> HTTPRelay:
        if self._relay is None:
            from midspan.http import Conversations, HTTPRelay, Upstream

            upstream = Upstream(self._url)
            conversations = None
            if self._chain is not None:
                conversations = Conversations(self._chain, self._name or upstream.host, self._denials)
            self._relay = HTTPRelay(upstream, conversations, max_message=self._max_message)
        return self._relay

    def asgi_app(
        self,
        path: str = PATH,
        *,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        any_address: bool = False,
    ) -> Front:
        """Return an ASGI application, to be run by a server, or mounted in Starlette or FastAPI.

        A server that runs it by itself starts and stops the gateway. Mounted, it serves requests inside of
        `async with gateway:`, which belongs into the lifespan of the application around it.

        Args:
            path: the endpoint's, relative to where the application is mounted.
            allowed_hosts: names that the `Host` of a request may have beside the loopback ones.
            allowed_origins: origins that pages may have, beside those on an accepted host.
            any_address: accept every IP address as `Host`; for servers that listen on more than loopback.
        """
        from midspan.http import Front, Guard

        guard = Guard(hosts=allowed_hosts, origins=allowed_origins, any_address=any_address)
        return Front({path: self._endpoint}, guard, running=self)

    def stop(self) -> None:
        """End the streams that are open for what the server may want to say; requests under way go on."""
        if self._relay is not None:
            self._relay.stop()

    async def __aenter__(self) -> Self:
        """Start. Connects to nothing yet."""
        await self._endpoint.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections to the server."""
        await self._endpoint.__aexit__(kind, error, traceback)


def _check_url(url: Any) -> None:
    if not isinstance(url, str):
        raise OperatorError(f"the backend must be a URL, not {type(url).__name__}")
    if fault := url_fault(url):
        raise OperatorError(f"cannot relay to {shown_url(url)!r}{_URL_FAULTS[fault]}")
