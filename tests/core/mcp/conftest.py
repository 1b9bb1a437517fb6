"""Real clients on real servers, in memory, in both protocol eras."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server import Server
from pydantic import RootModel

from midspan_sdk.mcp import InterceptorsExtension

Mode = Literal["legacy", "auto"]
Connect = Callable[..., AbstractAsyncContextManager[Client]]
Send = Callable[[Client, str, dict[str, Any]], Awaitable[dict[str, Any]]]


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """`legacy` is a handshake over JSON-RPC, `auto` the 2026-07-28 revision."""
    return request.param


@pytest.fixture
def connect(mode: Mode) -> Connect:
    """Serve interceptors, or a given server, and connect to it."""

    @asynccontextmanager
    async def connected(*contributions: object, server: Server[Any] | None = None) -> AsyncGenerator[Client]:
        if server is None:
            server = Server("guards")
            InterceptorsExtension(*contributions).install(server)
        with anyio.fail_after(10):
            async with Client(server, mode=mode) as client:
                yield client

    return connected


class Raw(types.Request[dict[str, Any], str]):
    """What a client without any knowledge of the methods sends."""

    method: str
    params: dict[str, Any]


@pytest.fixture
def send() -> Send:
    """Send a request by method and params and return the result as it stands on the wire."""

    async def send_raw(client: Client, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result = await client.session.send_request(Raw(method=method, params=params), RootModel[dict[str, Any]])
        return result.root

    return send_raw
