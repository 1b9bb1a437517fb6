"""`Gateway.run_stdio`: one client over two pipes, in front of any kind of server."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.mcpserver import MCPServer

from midspan import Gateway
from midspan.errors import OperatorError
from tests.patience import PATIENCE

from .sample import ERAS, Pipes, at_url, chain_of, copies, no_rm, over_stdio, pipes_to, sample_server, story

pytestmark = pytest.mark.anyio

SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("behind")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

server.run()
"""
COMMAND = [sys.executable, "-c", SERVER]
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"raw","version":"0"}}}'
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def call(message_id: int, name: str, **arguments: Any) -> bytes:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "method": "tools/call", "params": params}).encode()


async def shake_hands(pipes: Pipes) -> None:
    pipes.say(INITIALIZE)
    assert json.loads(await pipes.hear())["result"]["protocolVersion"] == "2025-11-25"
    pipes.say(INITIALIZED)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("interceptors", [(), (copies,)], ids=["relayed", "judged"])
async def test_a_server_object_is_the_same_with_and_without_the_gateway(mode: str, interceptors: Any) -> None:
    direct = await story(sample_server(), mode)
    assert direct["version"] == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert direct["progress"] == [(0, 3, None), (1, 3, None), (2, 3, None)]
    async with chain_of(*interceptors) as chain:
        assert await story(over_stdio(Gateway(sample_server(), chain)), mode) == direct


@pytest.mark.parametrize("mode", ERAS)
async def test_a_denied_tool_of_a_server_object_does_not_run(mode: str) -> None:
    async with chain_of(no_rm) as chain:
        gateway = Gateway(sample_server(), chain)
        async with Client(over_stdio(gateway), mode=mode) as client:
            assert (await client.call_tool("rm", {})).is_error
            assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error


def to_command() -> AbstractAsyncContextManager[Any]:
    return stdio_client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]))


@pytest.mark.parametrize("backend", [COMMAND, to_command], ids=["command", "transport"])
@pytest.mark.parametrize("mode", ERAS)
async def test_a_command_and_a_transport_that_starts_it_do_the_same(backend: Any, mode: str) -> None:
    async with Client(over_stdio(Gateway(backend)), mode=mode) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_stdio_client_reaches_a_server_over_http(mode: str) -> None:
    async with at_url(Gateway(sample_server())) as url:
        direct = await story(url, mode)
        assert await story(over_stdio(Gateway(url)), mode) == direct


async def test_the_exit_code_is_the_command_s() -> None:
    async with pipes_to(Gateway([sys.executable, "-c", "raise SystemExit(7)"])) as pipes:
        assert await pipes.hear() == b""
        assert await pipes.running == 7


async def test_a_server_object_ends_with_its_client_and_with_0() -> None:
    async with pipes_to(Gateway(sample_server())) as pipes:
        await shake_hands(pipes)
        pipes.close()
        assert await pipes.running == 0


async def test_it_runs_inside_of_the_gateway_s_block_too() -> None:
    async with Gateway(sample_server()) as gateway, pipes_to(gateway) as pipes:
        await shake_hands(pipes)


@pytest.mark.parametrize(
    ("backend", "line"),
    [
        (["/no/such/server"], "cannot start '/no/such/server': not found; install it or give its full path"),
        (lambda: stdio_client(StdioServerParameters(command="/no/such/server")), "cannot connect: [Errno 2] No such"),
        (lambda: Path("/no/such/file").read_text(), "the transport cannot be made: [Errno 2] No such file"),
        (lambda: "streams", "the function must return one of the SDK's transports, not str"),
        (anyio.Lock(), "cannot connect: NoneType is not the pair of streams that a transport gives"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_one_line(backend: Any, line: str) -> None:
    async with pipes_to(Gateway(backend)) as pipes:
        with pytest.raises(OperatorError) as caught:
            await pipes.running
        assert str(caught.value).startswith(line)


async def test_a_working_directory_that_is_not_there_is_named(tmp_path: Any) -> None:
    gateway = Gateway(COMMAND, cwd=tmp_path / "none")
    line = f"cannot start {sys.executable!r}: its working directory is not there: {tmp_path / 'none'}"
    with pytest.raises(OperatorError) as caught:
        gateway.check()
    assert str(caught.value) == line
    async with pipes_to(gateway) as pipes:
        with pytest.raises(OperatorError) as caught:
            await pipes.running
        assert str(caught.value) == line


async def test_one_transport_serves_one_connection() -> None:
    gateway = Gateway(to_command())
    async with pipes_to(gateway) as pipes:
        await shake_hands(pipes)
        pipes.close()
        assert await pipes.running == 0
    async with pipes_to(gateway) as pipes:
        with pytest.raises(OperatorError, match="serves one connection; give a function that returns a new one"):
            await pipes.running


async def test_a_server_object_that_fails_at_its_start_answers_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def broken(_: Any) -> AsyncGenerator[None]:
        if sample_server().name:
            raise RuntimeError("no database")
        yield

    async with pipes_to(Gateway(MCPServer("broken", lifespan=broken))) as pipes:
        pipes.say(INITIALIZE)
        answer = json.loads(await pipes.hear())
        assert answer["error"] == {"code": -32000, "message": "midspan: the server ended before it answered"}
        assert await pipes.running == 1
    assert "no database" in caplog.text


TORN = {"code": -32603, "message": "midspan: the answer cannot be written as JSON"}


async def test_an_answer_of_a_server_object_that_is_no_text_is_an_error_and_the_connection_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with pipes_to(Gateway(sample_server())) as pipes:
        await shake_hands(pipes)
        pipes.say(call(2, "torn"))
        assert json.loads(await pipes.hear()) == {"jsonrpc": "2.0", "id": 2, "error": TORN}
        pipes.say(call(3, "add", a=1, b=2))
        assert json.loads(await pipes.hear())["result"]["structuredContent"] == {"result": 3}
    assert "half" not in caplog.text


async def test_a_message_that_a_server_object_cannot_take_is_refused_and_the_connection_goes_on() -> None:
    async with pipes_to(Gateway(sample_server())) as pipes:
        await shake_hands(pipes)
        pipes.say(rb'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":"\ud800"}}}')
        refused = json.loads(await pipes.hear())
        assert (refused["id"], refused["error"]["code"]) == (2, -32600)
        pipes.say(b'{"jsonrpc":"2.0","id":3,"method":4}', call(4, "add", a=1, b=2))
        answers = [json.loads(await pipes.hear()) for _ in range(2)]
        assert [answer["id"] for answer in answers] == [3, 4]
        assert answers[0]["error"]["code"] == -32600


UNREADABLE = """
import sys
for line in sys.stdin:
    print('{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"secret \\\\ud800"}}', flush=True)
    print('no JSON with a secret', flush=True)
    print('{"jsonrpc":"2.0","id":1,"result":{}}', flush=True)
"""


async def test_what_a_transport_cannot_read_is_dropped_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    def transport() -> AbstractAsyncContextManager[Any]:
        return stdio_client(StdioServerParameters(command=sys.executable, args=["-c", UNREADABLE]))

    async with pipes_to(Gateway(transport)) as pipes:
        pipes.say(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        assert json.loads(await pipes.hear()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    own = [record.getMessage() for record in caplog.records if record.name.startswith("midspan")]
    assert len([line for line in own if "its transport cannot read it" in line]) == 2
    assert "secret" not in "".join(own)


async def test_a_client_that_goes_while_the_server_works_ends_it() -> None:
    started = anyio.Event()
    ended = anyio.Event()
    server = MCPServer("slow")

    @server.tool()
    async def wait() -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    del wait
    with anyio.fail_after(PATIENCE):
        async with pipes_to(Gateway(server)) as pipes:
            await shake_hands(pipes)
            pipes.say(call(2, "wait"))
            await started.wait()
        await ended.wait()
