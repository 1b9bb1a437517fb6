"""The pairs of transports, each with the SDK's server behind the gateway and a URL or a command in front."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import StdioServerParameters

from midspan.gateway import Gateway
from midspan.http import listen, run_server
from midspan_sdk import Chain
from tests.hostapp.exposing import guard
from tests.hostapp.exposing.sample_server import sample

FOLDER = Path(__file__).parent
COMMAND = [sys.executable, str(FOLDER / "sample_server.py")]
WAYS = ["stdio to stdio", "stdio to HTTP", "HTTP to HTTP", "HTTP to stdio"]


@asynccontextmanager
async def listening(app: Any, **options: Any) -> AsyncGenerator[str]:
    """Run an ASGI application; yields its URL."""
    listener = listen("127.0.0.1", 0)
    listener.listen(64)
    stop = asyncio.Event()
    running = asyncio.create_task(run_server(app, listener, stop=stop, **options))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        stop.set()
        await running


@asynccontextmanager
async def behind() -> AsyncGenerator[str]:
    """Run the server over HTTP; yields its URL."""
    app = sample().streamable_http_app()
    async with app.router.lifespan_context(app), listening(app) as url:
        yield url


@asynccontextmanager
async def fronted(gateway: Gateway) -> AsyncGenerator[str]:
    """Run a gateway with an HTTP front; yields its URL."""
    async with gateway, listening(gateway.asgi_app(), stopping=gateway.stop) as url:
        yield url


@asynccontextmanager
async def exposed(way: str, folder: Path, *, exposing: bool = True) -> AsyncGenerator[str | StdioServerParameters]:
    """Run the gateway; yields what a client connects to.

    Args:
        way: one of `WAYS`.
        folder: where the config of the real command is written.
        exposing: whether the interceptors are exposed.
    """
    front, _, back = way.partition(" to ")
    if front == "stdio":
        config = anyio.Path(folder / "midspan.toml")
        await config.write_text(f"[gateway]\nexpose_interceptors = {str(exposing).lower()}\n")
        run = ["-m", "midspan", "run", "--config", str(config), "--plugin-file", str(FOLDER / "guard.py")]
        if back == "stdio":
            yield StdioServerParameters(command=sys.executable, args=[*run, "--", *COMMAND])
            return
        async with behind() as url:
            yield StdioServerParameters(command=sys.executable, args=[*run, "--url", url])
        return
    chain = Chain()
    chain.add(*guard.INTERCEPTORS)
    async with chain:
        if back == "stdio":
            async with fronted(Gateway(COMMAND, chain, expose_interceptors=exposing)) as url:
                yield url
            return
        async with behind() as server, fronted(Gateway(server, chain, expose_interceptors=exposing)) as url:
            yield url
