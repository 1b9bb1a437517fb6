"""The capability: where a server puts it, where a reader finds it."""

from typing import Any

import pytest
from mcp import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer

from midspan_sdk import mutator, validator, wire
from midspan_sdk.mcp import InterceptorsExtension, read_capability

pytestmark = pytest.mark.anyio

KEY = "io.modelcontextprotocol/interceptors"


@validator(events=["tools/call", "prompts/*"], phase="request")
def guard(payload: dict[str, Any]) -> None: ...


@mutator(events=["resources/read", "tools/call"], phase="response")
def rewrite(payload: dict[str, Any]) -> None: ...


@validator(events=["tools/call"], phase="both")
def remembering(state: dict[str, Any], request: dict[str, Any] | None) -> None: ...


@validator(events=["tools/call"], phase="request")
def early(request: dict[str, Any] | None) -> None: ...


EVENTS = ["prompts/*", "resources/read", "tools/call"]


@pytest.mark.parametrize("kind", ["lowlevel", "mcpserver", "mcpserver-with-extension"])
async def test_an_installed_extension_is_advertised_in_both_eras(kind: str, mode: Any) -> None:
    extension = InterceptorsExtension(guard, rewrite)
    server: Server[Any] | MCPServer[Any]
    if kind == "lowlevel":
        server = Server("guards")
    else:
        server = MCPServer("guards", extensions=[extension] if kind == "mcpserver-with-extension" else [])
    extension.install(server)
    async with Client(server, mode=mode) as client:
        assert read_capability(client.server_capabilities) == {"supportedEvents": EVENTS}


async def test_a_handshake_carries_the_capability_as_extension_and_as_experimental() -> None:
    server = Server("guards")
    InterceptorsExtension(guard).install(server)
    async with Client(server, mode="legacy") as client:
        capabilities = client.server_capabilities
        assert capabilities.experimental == {KEY: {"supportedEvents": ["prompts/*", "tools/call"]}}
        assert capabilities.extensions == capabilities.experimental


async def test_an_extension_that_is_only_passed_to_the_server_is_advertised_on_2026_07_28_alone() -> None:
    # The SDK's sieve, which `install` works around; should this fail, the work-around can go.
    def server() -> MCPServer[Any]:
        return MCPServer("guards", extensions=[InterceptorsExtension(guard)])

    async with Client(server(), mode="auto") as client:
        assert read_capability(client.server_capabilities) is not None
    async with Client(server(), mode="legacy") as client:
        assert read_capability(client.server_capabilities) is None


async def test_other_capabilities_of_a_handshake_stay(mode: Any) -> None:
    server = MCPServer("guards")
    InterceptorsExtension(guard).install(server)
    async with Client(server, mode=mode) as client:
        assert client.server_capabilities.tools is not None


async def test_installing_twice_changes_nothing(mode: Any) -> None:
    server = Server("guards")
    extension = InterceptorsExtension(guard)
    extension.install(server)
    before = list(server.middleware)
    extension.install(server)
    assert server.middleware == before


def test_a_second_extension_on_one_server_is_refused() -> None:
    server = Server("guards")
    InterceptorsExtension(guard).install(server)
    with pytest.raises(ValueError, match="interceptors/list is already served"):
        InterceptorsExtension(rewrite).install(server)


def test_needs_of_the_context_are_advertised_only_when_there_are_any() -> None:
    assert InterceptorsExtension(guard).settings() == {"supportedEvents": ["prompts/*", "tools/call"]}
    assert InterceptorsExtension(remembering).settings() == {
        "supportedEvents": ["tools/call"],
        "context": ["interceptorState", "request"],
    }


def test_a_state_that_is_shared_beyond_the_name_is_advertised() -> None:
    telling = remembering.bound(name="plugin.remembering", group="plugin")
    hiding = remembering.bound(name="custom", group="plugin")
    stateless = guard.bound(name="other", group="plugin")
    settings = InterceptorsExtension(telling, hiding, stateless).settings()
    assert settings["stateGroups"] == {"custom": "plugin"}


def test_the_request_is_not_needed_where_there_is_no_response_phase() -> None:
    assert "context" not in InterceptorsExtension(early).settings()


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"extensions": {KEY: {"supportedEvents": ["a"]}}}, {"supportedEvents": ["a"]}),
        ({"experimental": {KEY: {"supportedEvents": ["a"]}}}, {"supportedEvents": ["a"]}),
        ({"interceptor": {"supportedEvents": ["a"]}}, {"supportedEvents": ["a"]}),
        ({"extensions": {KEY: {"v": 1}}, "experimental": {KEY: {"v": 2}}, "interceptor": {"v": 3}}, {"v": 1}),
        ({"experimental": {KEY: {"v": 2}}, "interceptor": {"v": 3}}, {"v": 2}),
        ({"extensions": {KEY: {}}}, {}),
        ({"extensions": {"other": {}}}, None),
        ({"extensions": None, "experimental": [], "interceptor": True}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_capability_is_read_from_each_of_its_places(
    capabilities: dict[str, Any] | None, expected: dict[str, Any] | None
) -> None:
    assert read_capability(capabilities) == expected


def test_the_key_is_the_one_of_the_wire_module() -> None:
    assert InterceptorsExtension.identifier == wire.CAPABILITY_KEY == KEY
