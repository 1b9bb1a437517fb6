"""Clients of interceptor servers. Importing this module imports the MCP SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Final, cast

import httpx2
import importlib_metadata
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, Implementation

from midspan.config import RemoteServer, StdioServer
from midspan.errors import one_line
from midspan.relay import ConnectError
from midspan.remote._command import Streams, command_transport
from midspan.remote._shown import without_queries
from midspan_sdk import PeerError

_TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)
"""Seconds; the long one is for streams that stay open."""

ClientFactory = Callable[[], AbstractAsyncContextManager[Client]]


def client_factory(server: StdioServer | RemoteServer, name: str) -> ClientFactory:
    """Return what makes a client of an interceptor server, which opens a connection when it is entered.

    Args:
        server: where it is.
        name: how errors call it.

    Returns:
        A function for `Chain.add_server`. Entering what it returns raises `PeerError` when the server cannot be
        reached; what the client's transport comes to later is raised as that too. Its text shows nothing of the
        server's headers, arguments and query.
    """

    @asynccontextmanager
    async def client() -> AsyncGenerator[Client]:
        statuses: list[int] = []
        of_user: Exception | None = None
        try:
            async with Client(_transport(server, statuses), client_info=_ourselves()) as opened:
                try:
                    yield opened
                except Exception as error:
                    of_user = error
                    raise
        except Exception as error:  # noqa: BLE001 - whatever a transport comes to
            cause = _first_of(error)
            if cause is of_user:
                raise cause from None
            # No cause, which would show in a traceback what is left out here.
            raise PeerError(name, f"cannot be reached: {_reason(cause, statuses)}") from None

    return client


def _ourselves() -> Implementation:
    return Implementation(name="midspan", version=importlib_metadata.version("midspan"))


def _transport(server: StdioServer | RemoteServer, statuses: list[int]) -> Transport:
    if isinstance(server, StdioServer):
        return command_transport(server)
    if server.transport == "sse":
        return sse_client(server.url, headers=dict(server.headers))
    return _streamable_http(server, statuses)


@asynccontextmanager
async def _streamable_http(server: RemoteServer, statuses: list[int]) -> AsyncGenerator[Streams]:
    async def note(response: httpx2.Response) -> None:
        # The SDK turns a refusal into an error that does not say which.
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            statuses.append(response.status_code)

    hooks = {"response": [note]}
    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=_TIMEOUT, event_hooks=hooks) as http,
        streamable_http_client(server.url, http_client=http, max_sse_event_size=server.max_message) as streams,
    ):
        yield streams


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _reason(error: BaseException, statuses: list[int]) -> str:
    if isinstance(error, ConnectError):
        return str(error)
    if isinstance(error, MCPError) and statuses:
        return f"it answers with the status {_status(statuses[-1])}"
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "it closed the connection before it answered"
    if isinstance(error, MCPError):
        return f"it answers with the error {error.code}: {one_line(without_queries(error.message))}"
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answers with the status {_status(error.response.status_code)}"
    return one_line(without_queries(str(error))) or type(error).__name__


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)
