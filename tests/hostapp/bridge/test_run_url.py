"""The real `midspan run --url`: its manners as a process, and what the SDK's client gets through it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

from midspan.http import listen, run_server
from tests.hostapp.http.wire import Answer, Handler, call, raw_server, result
from tests.patience import PATIENCE

from .stdio_front import INITIALIZED, after_handshake, event, initialize, initialized

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def midspan_run(url: str, *options: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start the command; nothing is left of it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "midspan", "run", "--url", url, *options, stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        with anyio.fail_after(PATIENCE):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.communicate()


async def hangs(answer: Answer) -> None:
    await answer.stream(b":\n\n", end=False)
    await answer.gone()


async def test_a_signal_ends_the_session_and_the_process() -> None:
    async with raw_server(after_handshake(hangs)) as (url, seen), midspan_run(url) as process:
        assert process.stdin is not None
        process.stdin.write(b"\n".join([initialize(), INITIALIZED, call(1), b""]))
        await seen.reach(4)  # with the stream
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert seen[-1].method == "DELETE"
        assert seen[-1].header("mcp-session-id") == "s-1"


async def test_what_is_piped_in_is_answered() -> None:
    async def server(answer: Answer) -> None:
        await answer.stream(event(result(1, {})))

    async with raw_server(after_handshake(server)) as (url, _), midspan_run(url) as process:
        out, _ = await process.communicate(b"\n".join([initialize(), INITIALIZED, call(1)]))
        assert out.split(b"\n") == [initialized(), result(1, {}), b""]
        assert process.returncode == 0


async def test_a_server_of_the_older_transport_that_is_not_there_is_told_to_the_client() -> None:
    async with midspan_run("http://127.0.0.1:1/sse", "--transport", "sse") as process:
        out, err = await process.communicate(initialize() + b"\n")
        assert "cannot be reached" in json.loads(out)["error"]["message"]
        assert b"cannot be reached" in err
        assert process.returncode == 2


async def test_a_signal_ends_a_start_that_takes_long() -> None:
    async with raw_server(hangs) as (url, seen), midspan_run(url, "--transport", "sse") as process:
        await seen.reach(1)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() != 0


def sdk_server() -> MCPServer:
    """Return a server of the SDK."""
    made = MCPServer("behind", instructions="Careful.")

    @made.tool()
    async def tell(ctx: Context, text: str) -> str:
        """Report progress."""
        for step in range(3):
            await ctx.report_progress(step, 3)
        return text

    @made.tool()
    async def ask(ctx: Context) -> str:
        """Ask the client's model."""
        answer = await ctx.session.create_message(messages=[], max_tokens=5)  # pyright: ignore[reportDeprecated] # of the handshake era
        assert isinstance(answer.content, TextContent)
        return answer.content.text

    del tell, ask
    return made


@asynccontextmanager
async def serving(made: MCPServer) -> AsyncGenerator[str]:
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


async def story(server: Any, mode: str) -> dict[str, Any]:
    """Return what a client sees of a server."""
    seen: dict[str, Any] = {"progress": []}

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen["progress"].append((progress, total))

    async def model(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="42"), model="m")

    async with Client(server, mode=mode, sampling_callback=model) as client:
        seen["version"] = client.protocol_version
        seen["server"] = repr(client.server_info)
        seen["instructions"] = client.instructions
        seen["tools"] = (await client.list_tools()).model_dump(mode="json")
        told = await client.call_tool("tell", {"text": "ü"}, progress_callback=on_progress)
        seen["tell"] = told.model_dump(mode="json")
        if mode == "legacy":
            seen["ask"] = (await client.call_tool("ask", {})).model_dump(mode="json")
    return seen


def through(url: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=["-m", "midspan", "run", "--url", url])


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_sees_through_the_gateway_what_it_sees_directly(mode: str) -> None:
    with anyio.fail_after(PATIENCE):
        async with serving(sdk_server()) as url:
            direct = await story(url, mode)
            assert direct["version"] == ("2025-11-25" if mode == "legacy" else "2026-07-28")
            assert direct["progress"] == [(0, 3), (1, 3), (2, 3)]
            assert await story(through(url), mode) == direct


def older(status: str, body: bytes) -> Handler:
    """Return a server that knows the handshake alone, and refuses what it does not know in its own way."""

    async def server(answer: Answer) -> None:
        await answer.send(body, status=status)

    return after_handshake(server)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            "400 Bad Request",
            b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session ID"}}',
        ),
        ("404 Not Found", b""),
    ],
)
async def test_a_client_that_probes_comes_to_the_version_of_an_older_server(status: str, body: bytes) -> None:
    with anyio.fail_after(PATIENCE):
        async with raw_server(older(status, body)) as (url, _):
            versions: list[str | None] = []
            for server in (url, through(url)):
                async with Client(server) as client:
                    versions.append(client.protocol_version)
            assert versions == ["2025-11-25", "2025-11-25"]
