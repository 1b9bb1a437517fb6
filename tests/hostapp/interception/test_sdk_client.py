"""The Python SDK's client and server with the real command between them, in both protocol eras."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters

from tests.hostapp.relay.harness import poll

pytestmark = pytest.mark.anyio
Connect = Callable[..., AbstractAsyncContextManager[Client]]

SERVER = """
import anyio
import sys
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("target", instructions="Handle with care.")

def note(what):
    with open(sys.argv[1], "a") as log:
        log.write(what + "\\n")

@server.tool()
def echo(text: str) -> str:
    note("echo " + text)
    return "you said " + text

@server.tool()
def leak() -> str:
    note("leak")
    return "the password is p4ssw0rd"

@server.tool()
def remove(path: str) -> str:
    note("remove")
    return "removed"

@server.tool()
def number() -> int:
    note("number")
    return 42

@server.tool()
async def steps(ctx: Context) -> str:
    for number in range(3):
        await ctx.report_progress(number, 3, "p4ssw0rd")
    return "done"

@server.tool()
async def wait() -> str:
    note("waiting")
    await anyio.sleep_forever()

@server.resource("demo://text")
def text() -> str:
    return "p4ssw0rd in a resource"

@server.prompt()
def greet(name: str) -> str:
    return "Say hello to " + name

server.run()
"""
PLUGIN = """
import asyncio, json, os, subprocess, sys
from midspan_sdk import hookimpl, mutator, validator

print("noise of a plugin that is imported")
os.write(1, b"more noise\\n")

def redacted(value):
    return json.loads(json.dumps(value).replace("p4ssw0rd", "***"))

@validator(events=["tools/call"], phase="request")
def no_removal(payload):
    print("noise of a handler")
    subprocess.run([sys.executable, "-I", "-S", "-c", "print('noise of a child')"], check=True)
    return "no removal" if payload["name"] == "remove" else None

@mutator(events=["*"], phase="both", errors=True)
async def redact(payload):
    await asyncio.sleep(0)
    return redacted(payload)

@mutator(events=["tools/list"], phase="response")
def hide(payload):
    return {**payload, "tools": [tool for tool in payload["tools"] if tool["name"] != "remove"]}

@mutator(events=["tools/call"], phase="response")
def in_words(payload):
    return {**payload, "structuredContent": {"result": "many"}} if "42" in str(payload) else None

@mutator(events=["tools/list"], phase="response", priority_hint=1)
def no_schema(payload):
    for tool in payload["tools"]:
        if tool["name"] == "wait":
            del tool["inputSchema"]
    return payload

@validator(events=["tools/call"], phase="request")
def listed_only(payload, tools):
    return "not listed" if len(tools) and tools.get(payload["name"]) is None else None

@hookimpl
def midspan_interceptors():
    return [no_removal, redact, hide, in_words, no_schema, listed_only]
"""


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Literal["legacy", "auto"]:
    """`legacy` is a handshake, `auto` the 2026-07-28 revision."""
    return request.param


@pytest.fixture
def view(tmp_path: Path) -> Path:
    """The server's own view of what it was asked."""
    return tmp_path / "view"


@pytest.fixture
def connect(tmp_path: Path, view: Path, mode: Literal["legacy", "auto"]) -> Connect:
    """Connect through `midspan run`."""
    server, plugin = tmp_path / "server.py", tmp_path / "guard.py"
    server.write_text(SERVER)
    plugin.write_text(PLUGIN)
    command = ["-m", "midspan", "run", "--plugin-file", str(plugin), "--", sys.executable, str(server), str(view)]

    @asynccontextmanager
    async def connected(**options: Any) -> AsyncGenerator[Client]:
        parameters = StdioServerParameters(command=sys.executable, args=command)
        with anyio.fail_after(30):
            async with Client(parameters, mode=mode, **options) as client:
                yield client

    return connected


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_a_client_works_as_ever_and_the_guard_holds(connect: Connect, view: Path, mode: str) -> None:
    async with connect() as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert client.instructions == "Handle with care."
        listed = await client.list_tools()
        assert "remove" not in {tool.name for tool in listed.tools}
        assert text_of(await client.call_tool("echo", {"text": "p4ssw0rd"})) == "you said ***"
        assert text_of(await client.call_tool("leak", {})) == "the password is ***"
        denied = await client.call_tool("remove", {"path": "/"})
        assert denied.is_error
        assert "did not run" in text_of(denied)
        (content,) = (await client.read_resource("demo://text")).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == "*** in a resource"
        prompt = await client.get_prompt("greet", {"name": "p4ssw0rd"})
        assert "Say hello to ***" in prompt.model_dump_json()
        with pytest.raises(MCPError):
            await client.read_resource("demo://no-such")
    assert (await anyio.Path(view).read_text()).splitlines() == ["echo ***", "leak"]


async def test_a_result_that_a_mutator_broke_is_an_error_that_the_client_can_read(connect: Connect, view: Path) -> None:
    async with connect() as client:
        await client.list_tools()
        broken = await client.call_tool("number", {})
    assert broken.is_error
    assert "Blocked by midspan/output-schema" in text_of(broken)
    assert "Do not retry" in text_of(broken)
    assert (await anyio.Path(view).read_text()).splitlines() == ["number"]


async def test_a_listing_whose_schema_a_mutator_took_away_can_be_read(connect: Connect) -> None:
    async with connect() as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert listed["wait"].input_schema == {"type": "object"}
    assert listed["echo"].input_schema["properties"].keys() == {"text"}


async def test_handlers_see_the_tools_that_the_client_was_shown(connect: Connect) -> None:
    async with connect() as client:
        await client.list_tools()
        assert text_of(await client.call_tool("echo", {"text": "x"})) == "you said x"
        denied = await client.call_tool("no_such", {})
    assert "listed_only" in text_of(denied)
    assert "did not run" in text_of(denied)


async def test_progress_is_judged_and_comes_in_order_before_the_result(connect: Connect) -> None:
    seen: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with connect() as client:
        assert text_of(await client.call_tool("steps", {}, progress_callback=on_progress)) == "done"
    assert seen == [(0, "***"), (1, "***"), (2, "***")]


async def test_a_cancelled_call_ends_and_the_next_works(connect: Connect, view: Path) -> None:
    async with connect() as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "wait")
            await anyio.to_thread.run_sync(poll, view.exists)
            group.cancel_scope.cancel()
        assert text_of(await client.call_tool("echo", {"text": "still here"})) == "you said still here"


async def test_a_client_is_told_why_there_is_no_server(mode: Literal["legacy", "auto"]) -> None:
    command = ["-m", "midspan", "run", "--", "/no/such/server"]
    told = pytest.RaisesExc(MCPError, match="cannot start '/no/such/server': not found")
    with anyio.fail_after(30), pytest.RaisesGroup(told, flatten_subgroups=True):
        async with Client(StdioServerParameters(command=sys.executable, args=command), mode=mode):
            pass
