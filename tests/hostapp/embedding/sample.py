"""A server object of the SDK, and the ways to a gateway in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from midspan import Gateway
from midspan.http import listen, run_server
from midspan_sdk import Chain, Interceptor, mutator, validator
from tests.patience import PATIENCE

ERAS = ["legacy", "auto"]


@validator(events=["tools/call"], phase="request")
def no_rm(payload: dict[str, Any]) -> str | None:
    """Deny one tool."""
    return "no rm" if payload["name"] == "rm" else None


@mutator(events=["*"], phase="both", errors=True)
def copies(payload: dict[str, Any]) -> dict[str, Any]:
    """Make every message one that is written anew."""
    return dict(payload)


def sample_server() -> MCPServer:
    """Return a server that does a bit of everything."""
    made = MCPServer("sample")

    @made.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @made.tool()
    def rm() -> str:
        """Run, although it should not."""
        return "removed"

    @made.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    @made.tool()
    async def tell(ctx: Context) -> str:
        """Report progress."""
        for step in range(3):
            await ctx.report_progress(step, 3)
        return "told"

    @made.tool()
    def torn() -> str:
        """Return what no UTF-8 text can hold."""
        return "half \ud800 a character"

    @made.resource("memo://one")
    def one() -> str:
        """Return a memo."""
        return "first"

    del add, rm, fail, tell, torn, one
    return made


async def story(server: Any, mode: str) -> dict[str, Any]:
    """Do a bit of everything and return what the client saw."""
    seen: dict[str, Any] = {"progress": []}

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen["progress"].append((progress, total, message))

    async with Client(server, mode=mode) as client:
        seen["version"] = client.protocol_version
        seen["server"] = repr(client.server_info)
        seen["tools"] = (await client.list_tools()).model_dump(mode="json")
        for name, arguments in (("add", {"a": 1, "b": 2}), ("fail", {}), ("none", {})):
            try:
                seen[name] = (await client.call_tool(name, arguments)).model_dump(mode="json")
            except MCPError as error:
                seen[name] = error.error.model_dump(mode="json")
        seen["tell"] = (await client.call_tool("tell", {}, progress_callback=on_progress)).model_dump(mode="json")
        seen["memo"] = (await client.read_resource("memo://one")).model_dump(mode="json")
    return seen


def chain_of(*interceptors: Interceptor[..., Any]) -> Chain:
    """Return a chain of these."""
    chain = Chain()
    chain.add(*interceptors)
    return chain


@asynccontextmanager
async def listening(app: Any, stopping: Callable[[], None] = lambda: None) -> AsyncGenerator[str]:
    """Serve an application, without its lifespan; yields its address, `http://host:port`."""
    listener = listen("127.0.0.1", 0)
    listener.listen(16)
    stop = asyncio.Event()
    running = asyncio.create_task(run_server(app, listener, stop=stop, stopping=stopping))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        await running


@asynccontextmanager
async def at_url(gateway: Gateway) -> AsyncGenerator[str]:
    """Run a gateway over HTTP; yields the URL of its endpoint."""
    with anyio.fail_after(PATIENCE):
        async with gateway, listening(gateway.asgi_app(), gateway.stop) as address:
            yield f"{address}/mcp"


class Pipes:
    """A client's ends of a gateway that runs over stdio, in raw lines."""

    def __init__(self, to: int, reader: asyncio.StreamReader, running: asyncio.Task[int]) -> None:
        self.running = running
        self._to: int | None = to
        self._reader = reader

    def say(self, *lines: bytes) -> None:
        """Write lines."""
        assert self._to is not None
        os.write(self._to, b"".join(line + b"\n" for line in lines))

    async def hear(self) -> bytes:
        """Return the next line; empty at the end."""
        return (await self._reader.readline()).removesuffix(b"\n")

    def close(self) -> None:
        """Say no more."""
        if self._to is not None:
            os.close(self._to)
            self._to = None


@asynccontextmanager
async def pipes_to(gateway: Gateway) -> AsyncGenerator[Pipes]:
    """Run a gateway over stdio."""
    gateway_in, to = os.pipe()
    from_, gateway_out = os.pipe()
    reader = asyncio.StreamReader(limit=2**24)
    file = os.fdopen(from_, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    pipes = Pipes(to, reader, asyncio.create_task(gateway.run_stdio((gateway_in, gateway_out))))
    try:
        with anyio.fail_after(PATIENCE):
            yield pipes
            pipes.close()
            await asyncio.wait({pipes.running})
    finally:
        pipes.close()
        if not pipes.running.done():
            pipes.running.cancel()
        await asyncio.wait({pipes.running})
        if not pipes.running.cancelled() and pipes.running.exception() is not None:  # the streams are as they were
            os.close(gateway_in)
            os.close(gateway_out)
        transport.close()


@asynccontextmanager
async def over_stdio(gateway: Gateway) -> AsyncGenerator[Any]:
    """Be a transport of the SDK's client to a gateway that runs over stdio."""
    async with (
        pipes_to(gateway) as pipes,
        create_client_server_memory_streams() as (client, (from_client, to_client)),
        anyio.create_task_group() as group,
    ):

        async def forth() -> None:
            async for item in from_client:
                assert isinstance(item, SessionMessage)
                pipes.say(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

        async def back() -> None:
            while line := await pipes.hear():
                await to_client.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))
            await to_client.aclose()

        group.start_soon(forth)
        group.start_soon(back)
        yield client
        group.cancel_scope.cancel()
