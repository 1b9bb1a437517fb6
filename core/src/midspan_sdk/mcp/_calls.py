"""Calls of the two methods on a client session, untyped, so that payloads stay the JSON they are."""

from __future__ import annotations

from typing import Any, Final

import anyio
import mcp_types as types
from mcp import Client, ClientSession, MCPError
from pydantic import RootModel

# `CONNECTION_CLOSED` is the code that the interceptors protocol uses for a timeout, so the words decide.
_CLOSED_MESSAGE: Final = "Connection closed"
_STAMPS: Final = ("resultType", "_meta")


class LostConnectionError(Exception):
    """The connection is closed, or closed before the answer came."""


class NoAnswerError(Exception):
    """No answer came within the time that the client waits."""


class UntypedRequest(types.Request[dict[str, Any], str]):
    """A request whose parameters are a JSON object.

    A dict, because the session leaves out every field of a model that is None, and a payload's nulls must survive.
    """

    method: str
    params: dict[str, Any]


class UntypedResult(RootModel[dict[str, Any]]):
    """A result as the JSON object that it is."""


async def call(
    client: Client | ClientSession, method: str, params: dict[str, Any], *, timeout: float | None = None
) -> dict[str, Any]:
    """Send a request and return its result, without what 2026-07-28 stamps on every result.

    Args:
        client: an open client or session.
        method: the JSON-RPC method.
        params: checked by `check_sendable`.
        timeout: how long to wait, in seconds; None leaves it to the session.

    Raises:
        MCPError: the peer answered with an error.
        LostConnectionError: the connection is closed.
        NoAnswerError: no answer came in time.
    """
    try:
        session = client.session if isinstance(client, Client) else client
    except RuntimeError as error:
        raise LostConnectionError from error
    try:
        result = await session.send_request(
            UntypedRequest(method=method, params=params), UntypedResult, request_read_timeout_seconds=timeout
        )
    except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        raise LostConnectionError from error
    except MCPError as error:
        if error.code == types.CONNECTION_CLOSED and error.message == _CLOSED_MESSAGE and error.data is None:
            raise LostConnectionError from error
        if error.code == types.REQUEST_TIMEOUT and error.data is None:
            raise NoAnswerError from error
        raise
    return {key: value for key, value in result.root.items() if key not in _STAMPS}
