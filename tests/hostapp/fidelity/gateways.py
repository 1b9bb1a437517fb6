"""The gateway under test, for every pair of transports."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final

import anyio

from midspan.gateway import Gateway
from midspan.http import listen, run_server
from midspan_sdk import Chain, mutator, validator

from .client.link import Link
from .client.over_http import http_link
from .client.over_stdio import stdio_link
from .eras import Era
from .pairs import Back, Pair

Address = str | Sequence[str]
"""A URL, or the command line of a server."""
EVERYTHING = ["*", "initialize", "server/discover"]
LONG: Final = 60.0
"""Seconds: a machine with other things to do is no reason to block a message."""


@validator(events=EVERYTHING, phase="both", errors=True)
def looks(payload: dict[str, Any]) -> None:
    return None


@mutator(events=EVERYTHING, phase="both", errors=True)
def copies(payload: dict[str, Any]) -> dict[str, Any]:
    return dict(payload)


@mutator(events=["tools/*", "notifications/progress"], phase="both", errors=True, timeout=LONG)
async def copies_later(payload: dict[str, Any]) -> dict[str, Any]:
    await anyio.lowlevel.checkpoint()
    return dict(payload)


def chain_of(judged: bool) -> Chain:
    """Return an empty chain, or one that looks at everything and changes nothing.

    Some messages it decides on at once, and for others it needs time, so that these could be overtaken.
    """
    chain = Chain(timeout=LONG)
    if judged:
        chain.add(looks, copies, copies_later)
    return chain


class StdioFront:
    """Every client has a gateway of its own, as every client that runs a command has."""

    def __init__(self, pair: Pair, address: Address, chain: Chain) -> None:
        self._pair = pair
        self._address = address
        self._chain = chain

    @asynccontextmanager
    async def connect(self, era: Era) -> AsyncGenerator[Link]:
        """Start a gateway; yields its client."""
        gateway_in, to = os.pipe()
        from_, gateway_out = os.pipe()
        codes: list[int] = []

        async def run() -> None:
            codes.append(await self._run((gateway_in, gateway_out)))

        async with anyio.create_task_group() as group, stdio_link(era, from_, to) as link:
            group.start_soon(run)
            yield link
            link.hang_up()
            await link.ended.wait()
        assert codes == [0]

    async def _run(self, streams: tuple[int, int]) -> int:
        gateway = _gateway(self._pair.back, self._address, self._chain)
        return await gateway.run_stdio(streams=streams)


class HTTPFront:
    """All clients share one gateway."""

    def __init__(self, url: str) -> None:
        self._url = url

    def connect(self, era: Era) -> AbstractAsyncContextManager[Link]:
        """Return a client."""
        return http_link(era, self._url)


Front = StdioFront | HTTPFront


def _gateway(back: Back, address: Address, chain: Chain) -> Gateway:
    return Gateway(address, chain, transport="sse" if back == "sse" else "http")


@asynccontextmanager
async def gateway_to(pair: Pair, address: Address, *, judged: bool) -> AsyncGenerator[Front]:
    """Put a gateway in front of a server."""
    async with chain_of(judged) as chain:
        if pair.front == "stdio":
            yield StdioFront(pair, address, chain)
            return
        gateway = _gateway(pair.back, address, chain)
        async with gateway:
            with HOST.serving(gateway.asgi_app) as url:
                yield HTTPFront(url)
            gateway.stop()


class Host:
    """One HTTP server for the gateways of many tests, each under a path of its own: to stop one takes a while."""

    def __init__(self) -> None:
        self._apps: dict[str, Any] = {}
        self._paths = (f"/gateway-{number}" for number in itertools.count())
        self._address: str | None = None

    @contextmanager
    def serving(self, asgi_app: Callable[[str], Any]) -> Generator[str]:
        """Serve a gateway; yields its URL.

        Args:
            asgi_app: makes an application that has the endpoint under a path.
        """
        assert self._address is not None, "run it"
        path = next(self._paths)
        self._apps[path] = asgi_app(path)
        try:
            yield f"http://{self._address}{path}"
        finally:
            del self._apps[path]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run the server."""
        listener = listen("127.0.0.1", 0)
        listener.listen(256)
        stop = asyncio.Event()
        serving = asyncio.create_task(run_server(self, listener, stop=stop))
        self._address = f"127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield
        finally:
            self._address = None
            stop.set()
            await serving

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._apps[scope["path"]](scope, receive, send)


HOST: Final = Host()
