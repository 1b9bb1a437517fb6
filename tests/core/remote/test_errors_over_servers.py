"""JSON-RPC errors reach the interceptors of a server that ask for them, as they reach those of this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.server.lowlevel import Server

from midspan_sdk import Chain, mutator, validator
from midspan_sdk.mcp import InterceptorsExtension, list_interceptors

pytestmark = pytest.mark.anyio

ERROR: dict[str, Any] = {"error": {"code": -32000, "message": "no such file: /etc/secret", "data": {"path": "/etc"}}}


@mutator(events=["*"], phase="response", errors=True)
def hide_paths(payload: dict[str, Any]) -> dict[str, Any] | None:
    if "error" in payload:
        payload["error"]["message"] = "no such file"
    return payload


@validator(events=["*"], phase="response")
def results_only(payload: dict[str, Any]) -> str | None:
    return "an error came here" if "error" in payload else None


@asynccontextmanager
async def chain_over(way: str) -> AsyncGenerator[Chain]:
    if way == "local":
        async with Chain() as chain:
            chain.add(hide_paths, results_only)
            yield chain
        return
    server = Server("guards")
    InterceptorsExtension(hide_paths, results_only).install(server)
    async with Client(server, mode=way) as client, Chain() as chain:
        await chain.add_server(client)
        yield chain


@pytest.mark.parametrize("way", ["local", "auto", "legacy"])
async def test_an_error_reaches_those_that_ask_for_errors_and_no_other(way: str) -> None:
    async with chain_over(way) as chain:
        result = await chain.execute(event="tools/call", phase="response", payload=ERROR, error=True)
    assert [one.interceptor for one in result.results] == ["hide_paths"]
    assert result.final_payload == {"error": {**ERROR["error"], "message": "no such file"}}


async def test_the_descriptor_says_that_errors_are_wanted() -> None:
    server = Server("guards")
    InterceptorsExtension(hide_paths, results_only).install(server)
    async with Client(server) as client:
        asks, does_not = await list_interceptors(client)
    assert asks.to_wire()["errors"] is True
    assert "errors" not in does_not.to_wire()
