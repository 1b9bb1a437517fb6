"""`serve_stdio`: one client on two pipes, who may send anything."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server import Server
from mcp_types import RequestParams

from midspan.relay import open_reader, open_writer
from midspan.serve import serve_stdio
from midspan_sdk import validator
from midspan_sdk.mcp import InterceptorsExtension

pytestmark = pytest.mark.anyio


@validator(events=["tools/call"], phase="request")
def guard(payload: dict[str, Any]) -> str:
    return repr(payload)


class Params(RequestParams):
    """Takes anything."""


class Peer:
    """A client that writes lines as it likes."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self.writer = writer

    async def tell(self, line: str | bytes) -> None:
        await self.writer.send(line.encode() if isinstance(line, str) else line)

    async def hear(self) -> dict[str, Any]:
        return json.loads(await anext(self._reader))

    async def ask(self, line: str | bytes) -> dict[str, Any]:
        await self.tell(line)
        return await self.hear()

    async def list(self, number: int = 99) -> dict[str, Any]:
        return await self.ask(json.dumps({"jsonrpc": "2.0", "id": number, "method": "interceptors/list"}))


HELLO = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "peer", "version": "0"},
        },
    }
)


@asynccontextmanager
async def peer() -> AsyncGenerator[Peer]:
    """Serve the guard to a client, and see the server end with it."""
    server = Server("guards")
    InterceptorsExtension(guard).install(server)

    async def odd(ctx: Any, params: Params) -> dict[str, Any]:
        return {"text": "\ud800"}

    server.add_request_handler("odd/answer", Params, odd)
    server_in, client_out = os.pipe()
    client_in, server_out = os.pipe()
    with anyio.fail_after(10):
        reader, writer = await open_reader(client_in), await open_writer(client_out)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(serve_stdio, server, (server_in, server_out))
                client = Peer(reader, writer)
                await client.ask(HELLO)
                await client.tell('{"jsonrpc":"2.0","method":"notifications/initialized"}')
                yield client
                await writer.aclose()
        finally:
            reader.close()


def invocation(payload: str) -> str:
    return (
        '{"jsonrpc":"2.0","id":1,"method":"interceptor/invoke","params":{"name":"guard","event":"tools/call",'
        f'"phase":"request","payload":{payload}}}}}'
    )


async def test_a_client_is_served_and_its_end_is_the_servers() -> None:
    async with peer() as client:
        answer = await client.ask(invocation('{"z":null,"a":[1.0,1152921504606846977],"e":"\\ud83d\\ude00"}'))
    assert answer["result"]["messages"][0]["message"] == "{'z': None, 'a': [1.0, 1152921504606846977], 'e': '😀'}"


async def test_a_lone_surrogate_is_refused_and_the_server_lives() -> None:
    async with peer() as client:
        answer = await client.ask(invocation('{"a":"\\ud800"}'))
        assert answer["error"]["code"] == -32602
        assert answer["error"]["data"]["interceptor"] == "guard"
        assert "lone surrogate" in answer["error"]["data"]["reason"]
        assert "result" in await client.list()


async def test_a_payload_that_is_nested_too_deeply_is_refused_and_the_server_lives() -> None:
    async with peer() as client:
        answer = await client.ask(invocation('{"a":' + "[" * 300 + "]" * 300 + "}"))
        assert answer["error"]["data"]["reason"] == "the payload is nested deeper than 199 levels"
        assert "result" in await client.list()


@pytest.mark.parametrize(
    ("line", "answered", "code", "reason"),
    [
        ("garbage", None, -32700, "not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\xff"}}', 1, -32700, "not UTF-8"),
        (invocation("[" * 100_000), 1, -32600, "nested too deeply"),
        ("[]", None, -32600, "batches are not accepted"),
        ('{"jsonrpc":"1.0","id":7,"method":"x"}', 7, -32600, "not a JSON-RPC 2.0 message"),
        ('{"jsonrpc":"2.0","id":1.0,"method":"x"}', 1.0, -32600, "the id must be a string or an integer"),
        ('{"jsonrpc":"2.0","id":null,"method":"x"}', None, -32600, "id must be a string or a number"),
        (invocation('{"a":1,"a":2}'), 1, -32600, "duplicate keys in an object"),
        (invocation('{"a":NaN}'), 1, -32600, "NaN is not JSON"),
        (invocation('{"a":1e999}'), 1, -32600, "a number is out of range"),
    ],
)
async def test_a_line_that_cannot_be_read_is_answered(
    line: str | bytes, answered: object, code: int, reason: str
) -> None:
    async with peer() as client:
        answer = await client.ask(line)
        assert (answer["id"], answer["error"]["code"]) == (answered, code)
        assert answer["error"]["message"] == f"refused the message: {reason}"
        assert "result" in await client.list()


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,"a":2}}',
        '{"jsonrpc":"2.0","id":4,"result":{"a":NaN}}',
        '{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"x","data":1e999}}',
    ],
)
async def test_a_notification_or_answer_that_cannot_be_read_is_not_answered(line: str) -> None:
    async with peer() as client:
        await client.tell(line)
        assert (await client.list(5))["id"] == 5


async def test_an_answer_that_cannot_be_written_is_an_error_and_the_server_lives() -> None:
    async with peer() as client:
        answer = await client.ask('{"jsonrpc":"2.0","id":3,"method":"odd/answer"}')
        assert (answer["id"], answer["error"]["code"]) == (3, -32603)
        echoed = await client.ask('{"jsonrpc":"2.0","id":"\\ud800","method":"\\ud800"}')
        assert (echoed["id"], echoed["error"]["code"]) == ("\ud800", -32603)
        assert "result" in await client.list()
