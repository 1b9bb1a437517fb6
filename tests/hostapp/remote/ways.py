"""Interceptor servers, and gateways that they join: real processes, a real server behind, a real client before."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent
from starlette.types import ASGIApp, Receive, Scope, Send

from midspan.http import listen, run_server
from midspan_sdk.mcp import InterceptorsExtension
from tests.hostapp.relay.harness import poll
from tests.patience import PATIENCE

from .guards import ALL

HERE = Path(__file__).parent
GUARDS = HERE / "guards.py"
Way = Literal["run", "serve"]
MIDSPAN = (sys.executable, "-m", "midspan")


# Config files


def table(name: str, **keys: Any) -> str:
    """Return a table of the config; nested ones as `{...}`."""
    return "\n".join([f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in keys.items()), ""])


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - a test's own
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one) for one in value) + "]"  # pyright: ignore[reportUnknownVariableType] - a test's own
    return json.dumps(value)


def served_command(folder: Path, plugin: Path = GUARDS) -> dict[str, Any]:
    """Return how the plugin's interceptors are served over stdio: keys of an interceptor server's table."""
    empty = folder / "empty.toml"
    empty.touch()
    arguments = ["interceptors", "serve", "--config", str(empty), "--plugin-file", str(plugin)]
    return {"command": sys.executable, "args": ["-m", "midspan", *arguments], "env": {"NOTE_PROCESS_IN": str(folder)}}


def processes(folder: Path) -> list[int]:
    """Return the ids of the interceptor servers that were started, dead ones too."""
    return [int(file.stem) for file in folder.glob("*.pid")]


def config(folder: Path, *tables: str) -> Path:
    """Write a config with these tables, and the guarded server as `[servers.echo]`."""
    guarded = table("servers.echo", command=sys.executable, args=[str(HERE / "echo_server.py"), str(calls(folder))])
    file = folder / "midspan.toml"
    file.write_text("\n".join([*tables, guarded]), "utf-8")
    return file


def calls(folder: Path) -> Path:
    """Return the file in which the guarded server notes its calls."""
    return folder / "calls.txt"


def seen(folder: Path) -> list[str]:
    """Return the texts with which the guarded server was called."""
    return calls(folder).read_text("utf-8").splitlines() if calls(folder).exists() else []


# Interceptor servers over HTTP


def http_app(*contributions: object, transport: str = "http") -> Any:
    """Return an MCP server with these interceptors, by default all, as an ASGI application."""
    extension = InterceptorsExtension(*(contributions or ALL))
    server = MCPServer("guards", extensions=[extension])
    extension.install(server)
    return server.sse_app() if transport == "sse" else server.streamable_http_app()


def behind_token(app: ASGIApp, token: str) -> ASGIApp:
    """Return the application for those only that send the token."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"x-token") != token.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return checked


@asynccontextmanager
async def over_http(
    app: Any, *, port: int = 0, guard: Callable[[ASGIApp], ASGIApp] | None = None
) -> AsyncGenerator[int]:
    """Serve an application on a port of this machine; 0 takes a free one."""
    listener = listen("127.0.0.1", port)
    listener.listen(64)
    stop = asyncio.Event()

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            await run_server(app if guard is None else guard(app), listener, stop=stop)

    # A task of its own, so that servers may end in another order than they began.
    task = asyncio.create_task(serve())
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        await task


# The gateway


@asynccontextmanager
async def client_of(
    way: Way, file: Path, *options: str, stderr: Path | None = None, **variables: str
) -> AsyncGenerator[Client]:
    """Run the gateway in front of the server of a config, and connect a client to it.

    Args:
        way: `midspan run`, started by the client, or `midspan serve`.
        file: the config.
        options: of the command.
        stderr: where to keep what the command says.
        variables: added to the environment.
    """
    environment = {**os.environ, **variables}
    arguments = ["--config", str(file), *options, "--server", "echo"]
    said = stderr or file.with_suffix(".stderr")
    with anyio.fail_after(PATIENCE):
        async with AsyncExitStack() as stack:
            if way == "run":
                log = stack.enter_context(said.open("w", encoding="utf-8"))
                parameters = StdioServerParameters(
                    command=MIDSPAN[0], args=[*MIDSPAN[1:], "run", *arguments], env=environment
                )
                yield await stack.enter_async_context(Client(stdio_client(parameters, errlog=log)))
            else:
                url = await stack.enter_async_context(_served(arguments, environment, said))
                yield await stack.enter_async_context(Client(url))


@asynccontextmanager
async def _served(arguments: Sequence[str], environment: Mapping[str, str], said: Path) -> AsyncGenerator[str]:
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(*MIDSPAN, "serve", "--port", "0", *arguments), stderr=log, env=environment
        )
        try:
            marker = "midspan: serving "
            await anyio.to_thread.run_sync(poll, lambda: marker in said.read_text("utf-8"), 30.0)
            yield (await anyio.Path(said).read_text("utf-8")).partition(marker)[2].split()[0]
        finally:
            if process.returncode is None:
                process.terminate()
            with anyio.CancelScope(shield=True):
                await process.wait()


async def say(client: Client, text: str) -> CallToolResult:
    """Call the guarded server's tool."""
    return await client.call_tool("say", {"text": text})


def text_of(result: CallToolResult) -> str:
    """Return what a result says."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def blocked_by(result: CallToolResult) -> str | None:
    """Return the rule that blocked a call; None when it passed."""
    if not result.is_error:
        return None
    verdict: dict[str, Any] = (result.meta or {})["midspan/verdict"]
    assert verdict["ran"] is False
    return verdict["rule"]


async def until_passed(client: Client, text: str = "again") -> None:
    """Call until the call passes: the gateway looks for a lost server by itself, and tells nobody."""
    while blocked_by(await say(client, text)) is not None:  # noqa: ASYNC110 - nobody sets an event
        await anyio.sleep(0.05)


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}},
}


def failed_start(way: Way, file: Path, *options: str) -> str:
    """Start a gateway that cannot work. Return its one line, which a client of `run` has got as well."""
    arguments = ["--port", "0"] if way == "serve" else []
    done = subprocess.run(
        [*MIDSPAN, way, *arguments, "--config", str(file), *options, "--server", "echo"],
        input=json.dumps(INITIALIZE) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    line = line.removeprefix("midspan: error: ")
    if way == "run":
        (answer,) = done.stdout.splitlines()
        assert json.loads(answer)["error"]["message"] == f"midspan: {line}"
    return line
