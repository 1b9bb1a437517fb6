"""The SDK's client finds and invokes the gateway's interceptors: every pair of transports, both eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client

from midspan_sdk import (
    InvalidInvocationError,
    MutationResult,
    PeerError,
    SinkResult,
    UnknownInterceptorError,
    ValidationResult,
)
from midspan_sdk.mcp import invoke_interceptor, list_interceptors, read_capability
from tests.hostapp.exposing import guard
from tests.hostapp.exposing.ways import WAYS, exposed

pytestmark = pytest.mark.anyio
Connect = Callable[..., AbstractAsyncContextManager[Client]]

CALL: dict[str, Any] = {"event": "tools/call", "phase": "request"}
SETTINGS = {
    "supportedEvents": ["prompts/get", "tools/*", "tools/call"],
    "context": ["interceptorState"],
}


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Literal["legacy", "auto"]:
    """`legacy` is a handshake, `auto` the 2026-07-28 revision."""
    return request.param


@pytest.fixture
def connect(mode: Literal["legacy", "auto"], tmp_path: Path) -> Connect:
    """Connect through the gateway."""

    @asynccontextmanager
    async def connected(way: str, **options: Any) -> AsyncGenerator[Client]:
        with anyio.fail_after(60):
            async with exposed(way, tmp_path, **options) as target, Client(target, mode=mode) as client:
                yield client

    return connected


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_lists_and_invokes_the_gateways_interceptors_and_uses_the_server_as_ever(
    connect: Connect, way: str, mode: str
) -> None:
    async with connect(way) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert client.instructions == "Handle with care."
        assert client.server_capabilities.tools is not None
        settings = read_capability(client.server_capabilities) or {}
        settings.pop("stateGroups", None)  # of a plugin, whose name is not the prefix of these
        assert settings == SETTINGS

        listed = await list_interceptors(client)
        assert listed == [one.descriptor for one in guard.INTERCEPTORS]
        assert [one.name for one in await list_interceptors(client, "prompts/*")] == ["remembers"]

        denied = await invoke_interceptor(client, "no-removal", **CALL, payload={"name": "remove"})
        assert isinstance(denied, ValidationResult)
        assert (denied.valid, denied.messages[0].message) == (False, "no removal")
        stamped = await invoke_interceptor(client, "stamp", **CALL, payload={"name": "echo", "null": None})
        assert isinstance(stamped, MutationResult)
        assert stamped.payload == {"name": "echo", "null": None, "stamped": True}
        seen = await invoke_interceptor(client, "sees", event="tools/call", phase="response", payload={})
        assert isinstance(seen, SinkResult)
        counted = await invoke_interceptor(
            client, "remembers", event="prompts/get", phase="request", payload={}, state={"count": 4}
        )
        assert counted.info == {"interceptorState": {"count": 5}}

        with pytest.raises(UnknownInterceptorError):
            await invoke_interceptor(client, "nobody", **CALL, payload={})
        with pytest.raises(InvalidInvocationError, match="is not hooked to this event"):
            await invoke_interceptor(client, "sees", event="prompts/get", phase="response", payload={})

        said = await client.call_tool("echo", {"text": "hello"})
        assert said.structured_content == {"result": "you said hello"}
        blocked = await client.call_tool("remove", {"path": "/"})
        assert blocked.is_error
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "remove"]


@pytest.mark.parametrize("way", WAYS)
async def test_when_they_are_not_exposed_there_is_no_capability_and_no_such_method(connect: Connect, way: str) -> None:
    async with connect(way, exposing=False) as client:
        assert read_capability(client.server_capabilities) is None
        with pytest.raises(PeerError, match="serves no interceptors: it does not know interceptors/list"):
            await list_interceptors(client)
        blocked = await client.call_tool("remove", {"path": "/"})
        assert blocked.is_error


@pytest.mark.parametrize("way", ["stdio to stdio", "HTTP to stdio"])
async def test_many_invocations_at_once_are_not_mixed(connect: Connect, way: str) -> None:
    async with connect(way) as client:

        async def one(number: int) -> None:
            result = await invoke_interceptor(client, "stamp", **CALL, payload={"n": number})
            assert isinstance(result, MutationResult)
            assert result.payload == {"n": number, "stamped": True}

        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)
