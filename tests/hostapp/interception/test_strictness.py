"""Nothing ambiguous passes: what two readers may read differently is refused, both ways, and the link lives on."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from midspan.relay import INTERNAL_ERROR
from midspan_sdk import validator
from tests.hostapp.relay.harness import guarded, request, send

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def usual_depth() -> Generator[None]:
    """Keep Python's own limit: hypothesis raises it for its tests, and with it what can be judged."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


DEEP = b"[" * 5000 + b"]" * 5000
DIGITS = b"9" * 5000


@validator(events=["tools/call"], phase="both", errors=True)
def no_danger(payload: dict[str, Any]) -> str | None:
    return "dangerous" if payload.get("name") == "danger" else None


def call(arguments: bytes = b"{}", *, name: bytes = b'"name":"danger"') -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{' + name + b',"arguments":{"a":' + arguments + b"}}}"
    )


SMUGGLED = b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"danger"}}'
REFUSED: dict[str, tuple[bytes, Any]] = {
    "batch": (b"[" + call() + b"]", 7),
    "batch of two": (b"[" + call() + b',{"jsonrpc":"2.0","method":"n"}]', 7),
    "empty batch": (b"[]", None),
    "method twice": (call()[:-1] + b',"method":"ping"}', 7),
    "method twice, escaped": (call()[:-1] + b',"m\\u0065thod":"ping"}', 7),
    "params twice": (call()[:-1] + b',"params":{"name":"safe"}}', 7),
    "id twice": (call()[:-1] + b',"id":9}', None),
    "name twice": (call(name=b'"name":"danger","name":"safe"'), 7),
    "argument twice": (call(b'{"b":1,"b":2}'), 7),
    "NaN": (call(b"NaN"), 7),
    "Infinity": (call(b"Infinity"), 7),
    "-Infinity": (call(b"-Infinity"), 7),
    "1e999": (call(b"1e999"), 7),
    "too deep": (call(DEEP), 7),
    "deep enough to read, too deep to judge": (call(b"[" * 600 + b"]" * 600), 7),
    "too many digits": (call(DIGITS), 7),
    "not UTF-8": (call(b'"\xff"'), 7),
    "surrogate in UTF-8": (call(b'"\xed\xa0\x80"'), 7),
    "not JSON inside": (call(b"tru"), 7),
    "not JSON": (b"tools/call danger", None),
    "cut off": (call()[:-1], 7),
    "two in one line": (call() + SMUGGLED, 7),
    "byte order mark": (b"\xef\xbb\xbf" + call(), None),
    "a scalar": (b"7", None),
    "an empty object": (b"{}", None),
    "params a list": (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":["danger"]}', 7),
    "params a text": (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"danger"}', 7),
    "params null": (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":null}', 7),
    "id null": (call().replace(b'"id":7', b'"id":null'), None),
    "id true": (call().replace(b'"id":7', b'"id":true'), None),
    "id an object": (call().replace(b'"id":7', b'"id":{}'), None),
    "method a number": (call().replace(b'"tools/call"', b"5"), 7),
    "method a list": (call().replace(b'"tools/call"', b'["tools/call"]'), 7),
    "method and result": (call()[:-1] + b',"result":{}}', 7),
    "method and error": (call()[:-1] + b',"error":null}', 7),
    "another message behind a carriage return": (
        b'{"jsonrpc":"2.0","id":7,"method":"ping","x":\r' + SMUGGLED + b"\r}",
        7,
    ),
    "Method": (call().replace(b'"method"', b'"Method"'), 7),
    "method and Method": (b'{"id":7,"method":"ping","Method":"tools/call","params":{"name":"danger"}}', 7),
    "PARAMS": (call().replace(b'"params"', b'"PARAMS"'), 7),
    "Name": (call(name=b'"Name":"danger"'), 7),
    "name and NAME": (call(name=b'"name":"safe","NAME":"danger"'), 7),
    "notification with NaN": (b'{"jsonrpc":"2.0","method":"tools/call","params":{"a":NaN}}', None),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_an_ambiguous_request_is_refused_and_never_forwarded(log: Path, name: str) -> None:
    line, message_id = REFUSED[name]
    async with guarded(log, no_danger) as link:
        await link.send(line)
        answer = await link.read()
        assert answer["id"] == message_id
        assert answer["error"]["code"] in (-32700, -32600)
        assert answer["error"]["message"].startswith("midspan refused the message: ")
        await link.works()
        assert [message["method"] for message in link.seen_messages()] == ["ping"]


async def test_every_call_of_a_refused_batch_gets_its_answer(log: Path) -> None:
    async with guarded(log, no_danger) as link:
        await link.send(b'[{"id":1,"method":"a"},{"method":"b"},{"id":"2","method":"c"}]')
        assert [(await link.read())["id"], (await link.read())["id"]] == [1, "2"]
        await link.works()
        assert len(link.seen()) == 1


RESULT = b'{"jsonrpc":"2.0","id":7,"result":'
UNUSABLE: dict[str, bytes] = {
    "key twice": RESULT + b'{"a":1,"a":2}}',
    "result twice": RESULT + b'{},"result":{"a":1}}',
    "id twice": RESULT + b'{},"id":7}',
    "NaN": RESULT + b'{"a":NaN}}',
    "1e999": RESULT + b'{"a":1e999}}',
    "too deep": RESULT + DEEP + b"}",
    "too deep, id last": b'{"result":' + DEEP + b',"id":7}',
    "deep enough to read, too deep to judge": RESULT + b'{"a":' + b"[" * 600 + b"]" * 600 + b"}}",
    "too many digits": RESULT + b'{"a":' + DIGITS + b"}}",
    "too many digits, id last": b'{"result":{"a":' + DIGITS + b'},"jsonrpc":"2.0","id":7}',
    "not UTF-8": RESULT + b'{"a":"\xff"}}',
    "not JSON inside": RESULT + b'{"a":}}',
    "cut off": RESULT + b'{"a":1}',
    "result null": RESULT + b"null}",
    "result a list": RESULT + b"[1]}",
    "result a text": RESULT + b'"done"}',
    "result and error": RESULT + b'{},"error":{"code":1,"message":"x"}}',
    "error a text": b'{"jsonrpc":"2.0","id":7,"error":"broken"}',
    "Result too": RESULT + b'{},"Result":{"secret":1}}',
    "result and method": RESULT + b'{},"method":"ping"}',
    "in a batch": b"[" + RESULT + b"{}}]",
    "a carriage return inside": RESULT + b'{\r"a":1}}',
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_answer_that_cannot_be_judged_becomes_an_error_for_whoever_asked(log: Path, name: str) -> None:
    async with guarded(log, no_danger) as link:
        answer = await link.call(7, "tools/call", {"name": "safe"}, send(UNUSABLE[name]))
        assert answer["id"] == 7
        assert answer["error"]["code"] == INTERNAL_ERROR
        assert answer["error"]["message"].startswith("midspan refused the answer: ")
        await link.works()


async def test_an_answer_that_fails_is_not_answered_twice(log: Path) -> None:
    async with guarded(log, no_danger) as link:
        answer = await link.call(7, "tools/call", {"name": "safe"}, send(UNUSABLE["NaN"], RESULT + b"{}}"))
        assert "error" in answer
        await link.works()


@pytest.mark.parametrize(
    "stray",
    [
        b"Server listening on stdio",
        b"DEBUG: \xff\xfe",
        b'"quoted"',
        b'{"level":"info","msg":"started"}',
        b'{"id":99,"result":{}}',
        b"[1,2]",
        b"null",
        b'{"jsonrpc":"2.0","id":99,"result":' + DEEP + b"}",
    ],
    ids=range(8),
)
async def test_a_stray_line_of_the_server_is_dropped(log: Path, stray: bytes) -> None:
    async with guarded(log, no_danger) as link:
        answer = await link.call(7, "tools/call", {"name": "safe"}, send(stray, RESULT + b'{"a":1}}'))
        assert answer == {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}
        await link.works()
        # Nobody talked back to the server either.
        assert len(link.seen()) == 2


async def test_a_request_of_the_server_that_cannot_be_judged_is_answered_to_the_server(log: Path) -> None:
    @validator(events=["sampling/createMessage"], phase="request")
    def allowed(payload: dict[str, Any]) -> None: ...

    ask = b'{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"a":NaN}}'
    async with guarded(log, allowed) as link:
        await link.send(request(1, "go", None, send(ask), ("read", 1), send(b'{"id":1,"result":{}}')))
        assert (await link.read())["id"] == 1
        _, refusal = link.seen_messages()
        assert (refusal["id"], refusal["error"]["code"]) == (3, -32600)


@pytest.mark.parametrize("first", [True, False], ids=["id first", "id last"])
async def test_an_oversized_call_and_an_oversized_answer_are_refused(log: Path, first: bool) -> None:
    body = {"method": "tools/call", "params": {"name": "danger", "text": "x" * 5000}}
    line = json.dumps({"id": 7, **body} if first else {**body, "id": 7})
    big = json.dumps({"result": {"text": "x" * 5000}})
    answer = '{"id":8,' + big[1:] if first else big[:-1] + ',"id":8}'
    async with guarded(log, no_danger, max_message=4000, at_start=[("read", 1), send(answer)]) as link:
        await link.send(line)
        refusal = await link.read()
        assert (refusal["id"], refusal["error"]["code"]) == (7, -32600)
        await link.send(request(8, "tools/call", {"name": "safe"}))
        refusal = await link.read()
        assert (refusal["id"], refusal["error"]["code"]) == (8, INTERNAL_ERROR)
        await link.works()
        assert [message["id"] for message in link.seen_messages()] == [8, "still works"]


SDK_SERVER = """
import sys
from mcp.server import MCPServer
server = MCPServer("target")
@server.tool()
def danger() -> str:
    open(sys.argv[1], "w").close()
    return "ran"
@server.tool()
def safe() -> str:
    return "ran"
server.run()
"""


async def test_no_spelling_gets_a_denied_call_to_a_server_of_the_python_sdk(tmp_path: Path) -> None:
    ran = tmp_path / "danger-ran"
    command = [sys.executable, "-c", SDK_SERVER, str(ran)]
    async with guarded(tmp_path / "unused", no_danger, command=command) as link:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        await link.call(0, "initialize", hello)
        await link.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        for line, _ in REFUSED.values():
            await link.send(line)
            assert "error" in await link.read()
        answer = await link.call(8, "tools/call", {"name": "safe", "arguments": {}})
        assert answer["result"]["content"] == [{"type": "text", "text": "ran"}]
    assert not ran.exists()
