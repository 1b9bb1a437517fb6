"""The MCP SDK's own client and server, with the gateway between them, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

from midspan.http import listen, run_server
from midspan_sdk import Chain, Interceptor, mutator, validator
from tests.patience import PATIENCE

from .wire import gateway_to

pytestmark = pytest.mark.anyio

ERAS = ["legacy", "2026-07-28"]


@validator(events=["*"], phase="both", errors=True)
def looks(payload: dict[str, Any]) -> None:
    return None


@mutator(events=["*"], phase="both", errors=True)
def copies(payload: dict[str, Any]) -> dict[str, Any]:
    return dict(payload)


def server() -> MCPServer:
    """Return a server that does a bit of everything."""
    made = MCPServer("behind")

    @made.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @made.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    @made.tool()
    async def tell(ctx: Context) -> str:
        """Report progress and log."""
        for step in range(3):
            await ctx.report_progress(step, 3)
        return "told"

    @made.tool()
    async def ask(ctx: Context) -> str:
        """Ask the client's model."""
        answer = await ctx.session.create_message(messages=[], max_tokens=5)  # pyright: ignore[reportDeprecated] # of the handshake era
        assert isinstance(answer.content, TextContent)
        return answer.content.text

    @made.resource("memo://one")
    def one() -> str:
        """Return a memo."""
        return "first"

    @made.prompt()
    def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    del add, fail, tell, ask, one, greet
    return made


@asynccontextmanager
async def running(made: MCPServer) -> AsyncGenerator[str]:
    """Serve it over HTTP; yields its URL."""
    app = made.streamable_http_app()
    listener = listen("127.0.0.1", 0)
    listener.listen(64)
    stop = asyncio.Event()
    async with app.router.lifespan_context(app):
        task = asyncio.create_task(run_server(app, listener, stop=stop))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            stop.set()
            await task


@asynccontextmanager
async def between(*interceptors: Interceptor[..., Any]) -> AsyncGenerator[str]:
    """Run the server and the gateway; yields the gateway's URL."""
    chain = Chain()
    chain.add(*interceptors)
    with anyio.fail_after(PATIENCE):
        async with running(server()) as url, chain, gateway_to(url, chain) as link:
            yield f"http://{link.url}/mcp"


async def story(url: str, mode: str) -> dict[str, Any]:
    """Do a bit of everything and return what the client saw, in one JSON value."""
    seen: dict[str, Any] = {"progress": [], "asked": 0}

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen["progress"].append((progress, total, message))

    async def model(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        seen["asked"] += 1
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="42"), model="m")

    async with Client(url, mode=mode, sampling_callback=model) as client:
        seen["version"] = client.protocol_version
        seen["server"] = repr(client.server_info)
        seen["tools"] = (await client.list_tools()).model_dump(mode="json")
        seen["add"] = (await client.call_tool("add", {"a": 1, "b": 2})).model_dump(mode="json")
        seen["fail"] = (await client.call_tool("fail", {})).model_dump(mode="json")
        told = await client.call_tool("tell", {}, progress_callback=on_progress)
        seen["tell"] = told.model_dump(mode="json")
        if mode == "legacy":
            seen["ask"] = (await client.call_tool("ask", {})).model_dump(mode="json")
        seen["memo"] = (await client.read_resource("memo://one")).model_dump(mode="json")
        seen["greet"] = (await client.get_prompt("greet", {"name": "x"})).model_dump(mode="json")
        with pytest.raises(MCPError) as error:
            await client.read_resource("memo://none")
        seen["error"] = error.value.error.model_dump(mode="json")
    return seen


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("interceptors", [(), (looks, copies)], ids=["relay only", "pass-through"])
async def test_a_client_sees_through_the_gateway_what_it_sees_directly(
    mode: str, interceptors: tuple[Any, ...]
) -> None:
    chain = Chain()
    chain.add(*interceptors)
    with anyio.fail_after(PATIENCE):
        async with running(server()) as url, chain, gateway_to(url, chain) as link:
            direct = await story(url, mode)
            assert direct["version"] == ("2025-11-25" if mode == "legacy" else mode)
            assert direct["progress"] == [(0, 3, None), (1, 3, None), (2, 3, None)]
            assert await story(f"http://{link.url}/mcp", mode) == direct


@pytest.mark.parametrize("mode", ERAS)
async def test_a_denied_tool_is_an_error_that_the_client_reads(mode: str) -> None:
    @validator(events=["tools/call"], phase="request")
    def no_add(payload: dict[str, Any]) -> str | None:
        return "no sums" if payload["name"] == "add" else None

    async with between(no_add) as url, Client(url, mode=mode) as client:
        denied = await client.call_tool("add", {"a": 1, "b": 2})
        assert denied.is_error
        assert isinstance(denied.content[0], TextContent)
        assert "The tool did not run." in denied.content[0].text
        assert not (await client.call_tool("tell", {})).is_error


@pytest.mark.parametrize("mode", ERAS)
async def test_a_changed_tool_name_reaches_the_server_with_its_headers(mode: str) -> None:
    @mutator(events=["tools/call"], phase="request")
    def rename(payload: dict[str, Any]) -> dict[str, Any] | None:
        return {**payload, "name": "add"} if payload["name"] == "sum" else None

    async with between(rename) as url, Client(url, mode=mode) as client:
        summed = await client.call_tool("sum", {"a": 1, "b": 2})
        assert summed.structured_content == {"result": 3}


async def test_a_denied_sampling_request_fails_in_the_server_and_never_reaches_the_client() -> None:
    asked = 0

    @validator(events=["sampling/createMessage"], phase="request")
    def no_sampling(payload: dict[str, Any]) -> str:
        return "no sampling"

    async def model(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        nonlocal asked
        asked += 1
        raise AssertionError

    async with between(no_sampling) as url, Client(url, mode="legacy", sampling_callback=model) as client:
        assert (await client.call_tool("ask", {})).is_error
        assert asked == 0


async def test_twenty_clients_at_once_in_both_eras_are_not_mixed() -> None:
    async with between(looks, copies) as url:

        async def one(number: int) -> None:
            async with Client(url, mode=ERAS[number % 2]) as client:
                for step in range(5):
                    summed = await client.call_tool("add", {"a": number, "b": step})
                    assert summed.structured_content == {"result": number + step}

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_that_a_mutator_broke_is_an_error_that_the_client_can_read(era: str) -> None:
    @mutator(events=["tools/call"], phase="response")
    def in_words(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "structuredContent": {"result": "five"}}

    async with between(in_words) as url, Client(url, mode=era) as client:
        await client.list_tools()
        broken = await client.call_tool("add", {"a": 2, "b": 3})
    assert broken.is_error
    (block,) = broken.content
    assert isinstance(block, TextContent)
    assert "Blocked by midspan/output-schema: the changed result does not fit" in block.text
    assert "Do not retry" in block.text
