"""What a transparent gateway must not lose, row by row of the specification's table, over HTTP.

Each row is sent by a hand-written server that speaks awkward but legal JSON, in a handshake era and in 2026-07-28,
through a gateway that only relays and through one that judges and rewrites every message without changing any.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from midspan_sdk import mutator, validator

from .wire import (
    HANDSHAKE,
    STATELESS_META,
    Answer,
    Connection,
    Fields,
    Link,
    events_of,
    guarded,
    notification,
    read_head,
    relayed,
    request,
    result,
    stateless,
)

pytestmark = pytest.mark.anyio

EVERYTHING = ["*", "initialize", "server/discover"]


@validator(events=EVERYTHING, phase="both", errors=True)
def looks(payload: dict[str, Any]) -> None:
    return None


@mutator(events=EVERYTHING, phase="both", errors=True)
def copies(payload: dict[str, Any]) -> dict[str, Any]:
    return dict(payload)


ROWS: dict[str, tuple[str, dict[str, Any], str]] = {
    "server info and instructions": (
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}},
        '{"protocolVersion":"2025-11-25","serverInfo":{"name":"n","title":"T","version":"1","websiteUrl":"https://x",'
        '"icons":[{"src":"data:,","sizes":["any"]}]},"instructions":"do \\"this\\"\\n","capabilities":{}}',
    ),
    "capabilities": (
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {"experimental": {"a/b": {}}, "roots": {"listChanged": True}},
        },
        '{"protocolVersion":"2025-11-25","serverInfo":{},"capabilities":{"experimental":{"x":{"y":null}},'
        '"extensions":{"io.x/y":{"z":[1]}},"tools":{"listChanged":true},"resources":{"subscribe":true}}}',
    ),
    "a page with a cursor": ("tools/list", {"cursor": "c1"}, '{"tools":[],"nextCursor":"c1"}'),
    "unknown keys": (
        "tools/list",
        {"unknown": {"deep": [None]}},
        '{"tools":[{"name":"t","inputSchema":{"type":"object","$x":1},"annotations":{"future":true},"new":{}}],"more":0}',
    ),
    "_meta of requests and results, a string as progress token": (
        "tools/call",
        {"name": "t", "arguments": {}, "_meta": {"progressToken": "7", "a/b": 1}},
        '{"content":[],"_meta":{"io.x/y":{"z":[]},"plain":0}}',
    ),
    "completion of a URI template": (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "a://{b}"}, "argument": {"name": "b", "value": ""}, "context": {}},
        '{"completion":{"values":["x"],"total":1,"hasMore":false}}',
    ),
    "subscribe": ("resources/subscribe", {"uri": "a://b"}, "{}"),
    "a custom method": ("acme/turn", {"by": 90}, '{"turned":[[[]]]}'),
    "several contents in one resource": (
        "resources/read",
        {"uri": "a://b"},
        '{"contents":[{"uri":"a://b","text":"1"},{"uri":"a://b","blob":"AA=="},{"uri":"a://c","text":""}]}',
    ),
    "null, a large integer, 1.0 and emoji": (
        "tools/call",
        {"name": "t", "arguments": {"n": None, "i": 2**60 + 1, "f": 1.0, "e": "\U0001f600"}},
        '{"content":[],"structuredContent":{"n":null,"i":1152921504606846977,"f":1.0,"e":"\U0001f600","s":"\\ud83d"}}',
    ),
    "a result that violates its own outputSchema": (
        "tools/call",
        {"name": "typed", "arguments": {}},
        '{"content":[],"structuredContent":{"count":"not a number"}}',
    ),
    "100 KB": ("tools/call", {"name": "t", "arguments": {}}, '{"content":"' + "x" * 100_000 + '"}'),
    "5 MB": ("tools/call", {"name": "t", "arguments": {}}, '{"content":"' + "y" * 5_000_000 + '"}'),
    "an input_required round": (
        "tools/call",
        {"name": "t", "arguments": {}, "requestState": "opaque==", "inputResponses": {"q": {"action": "accept"}}},
        '{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?"}}},'
        '"requestState":"b3BhcXVl\\u002f+=="}',
    ),
}

ERAS = ["handshake", "stateless"]
GATEWAYS = ["relay", "pass-through"]


def sent(era: str, method: str, params: dict[str, Any], message_id: object = 1) -> tuple[bytes, Fields]:
    """Return a request and its headers."""
    if era == "handshake":
        return request(message_id, method, params), HANDSHAKE
    params = {**params, "_meta": {**STATELESS_META, **params.get("_meta", {})}}
    target = params.get("uri") if method == "resources/read" else params.get("name")
    return request(message_id, method, params), stateless(method, target)


def exact(text: bytes | str) -> Any:
    """Read JSON so that 1 and 1.0, and key orders, differ."""
    return json.loads(text, object_pairs_hook=lambda pairs: ("object", pairs), parse_float=lambda number: ("f", number))


@asynccontextmanager
async def behind(gateway: str, handler: Any, **options: Any) -> AsyncGenerator[Link]:
    """Run a server behind one of the two gateways."""
    interceptors = [looks, copies] if gateway == "pass-through" else []
    made = guarded(handler, *interceptors, **options) if interceptors else relayed(handler, **options)
    async with made as link:
        yield link


@pytest.mark.parametrize("gateway", GATEWAYS)
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("form", ["json", "stream", "single bytes"])
@pytest.mark.parametrize("row", ROWS)
async def test_a_call_and_its_result_pass(row: str, form: str, era: str, gateway: str) -> None:
    method, params, answered = ROWS[row]
    if form == "single bytes" and len(answered) > 10_000:
        answered = answered[:1000] + answered[-2:]
    reply = f'{{"jsonrpc":"2.0","id":1,"result":{answered}}}'.encode()

    async def handler(answer: Answer) -> None:
        if form == "json":
            await answer.send(reply)
            return
        event = b"id: 1\ndata: " + reply + b"\n\n"
        size = 1 if form == "single bytes" else len(event) // 2
        await answer.stream(*(event[start : start + size] for start in range(0, len(event), size)))

    async with behind(gateway, handler) as link:
        body, fields = sent(era, method, params)
        response = await link.post(body, fields)
        assert exact(link.seen[0].body) == exact(body)
        got = response.body if form == "json" else response.body.split(b"data: ")[1]
        assert exact(got) == exact(reply)
        assert len(link.seen) == 1  # one request upstream for one of the client's


@pytest.mark.parametrize("gateway", GATEWAYS)
@pytest.mark.parametrize("era", ERAS)
async def test_an_error_passes_with_code_and_data(era: str, gateway: str) -> None:
    reply = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"a":[1.0,null]},"extra":1},"more":2}'

    async def handler(answer: Answer) -> None:
        await answer.send(reply, status="404 Not Found")

    async with behind(gateway, handler) as link:
        body, fields = sent(era, "tools/call", {"name": "t"})
        response = await link.post(body, fields)
        assert response.status == 404
        assert exact(response.body) == exact(reply)


NOTES = [
    notification("notifications/progress", {"progressToken": "7", "progress": 1.0, "total": None}),
    notification("notifications/message", {"level": "info", "data": {"any": ["thing"]}, "logger": "l"}),
    notification("notifications/tools/list_changed"),
    notification("notifications/prompts/list_changed"),
    notification("notifications/resources/list_changed"),
    notification("notifications/resources/updated", {"uri": "a://b", "title": "t"}),
    notification("acme/happened", {"x": 1}),
]


@pytest.mark.parametrize("gateway", GATEWAYS)
@pytest.mark.parametrize("era", ERAS)
async def test_notifications_of_every_kind_pass_in_order_before_the_result(era: str, gateway: str) -> None:
    async def handler(answer: Answer) -> None:
        await answer.stream(*(b"data: " + note + b"\n\n" for note in [*NOTES, result(1, {})]))

    async with behind(gateway, handler) as link:
        body, fields = sent(era, "tools/call", {"name": "t"})
        response = await link.post(body, fields)
        events = response.body.split(b"\n\n")[:-1]
        got = [exact(event.removeprefix(b"data: ")) for event in events]
        assert got == [exact(note) for note in [*NOTES, result(1, {})]]


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_the_stream_of_a_get_carries_notifications_at_once(gateway: str) -> None:
    go_on = asyncio.Event()

    async def handler(answer: Answer) -> None:
        await answer.stream(end=False)
        for note in NOTES:
            await answer.write(b"data: " + note + b"\n\n")
            await go_on.wait()
            go_on.clear()
        await answer.gone()

    async with behind(gateway, handler) as link:
        connection = await link.connect()
        await connection.start("GET", fields=[("mcp-session-id", "s"), ("accept", "text/event-stream")])
        await read_head(connection.reader)
        for note in NOTES:
            (event,) = await events_of(connection, 1)
            assert exact(event.removeprefix(b"data: ")) == exact(note)
            go_on.set()


ASKED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sampling/createMessage", {"messages": [], "maxTokens": 1, "new": True}, {"role": "assistant", "content": []}),
    ("elicitation/create", {"message": "?", "requestedSchema": {"type": "object"}}, {"action": "decline"}),
    ("elicitation/create", {"mode": "url", "url": "https://x", "elicitationId": "e"}, {"action": "cancel"}),
    ("roots/list", {}, {"roots": [{"uri": "file:///", "_meta": {"a": 1.0}}]}),
    ("ping", {}, {}),
]


@pytest.mark.parametrize("gateway", GATEWAYS)
@pytest.mark.parametrize(
    ("method", "params", "value"), ASKED, ids=[f"{row[0]} {number}" for number, row in enumerate(ASKED)]
)
async def test_requests_of_the_server_pass_during_a_call_twice_in_one_session(
    method: str, params: dict[str, Any], value: dict[str, Any], gateway: str
) -> None:
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def handler(answer: Answer) -> None:
        message = answer.request.json()
        if message.get("method") == "tools/call":
            # Another id than the call's in the first round, the same in the second.
            asked = request(message["id"], method, params) if message["id"] == 2 else request("q", method, params)
            await answer.stream(b"data: " + asked + b"\n\n", end=False)
            got = await answers.get()
            assert exact(got)[1][-1] == ("result", exact(json.dumps(value)))
            await answer.write(b"data: " + result(message["id"], {"round": message["id"]}) + b"\n\n")
            await answer.end()
        elif "method" not in message:
            answers.put_nowait(answer.request.body)
            await answer.send(status="202 Accepted", fields=[])
        else:
            await answer.send(result(0, {}), fields=[("content-type", "application/json"), ("mcp-session-id", "s")])

    async with behind(gateway, handler) as link:
        await link.post(request(0, "initialize", {}), HANDSHAKE)
        for number in (1, 2):
            connection = await link.connect()
            fields = [*HANDSHAKE, ("mcp-session-id", "s")]
            await connection.start("POST", request(number, "tools/call", {"name": "t"}), fields)
            await read_head(connection.reader)
            (event,) = await events_of(connection, 1)
            asked = json.loads(event.removeprefix(b"data: "))
            assert (asked["method"], asked["params"]) == (method, params)
            assert (await link.post(result(asked["id"], value), session="s")).status == 202
            (event,) = await events_of(connection, 1)
            assert json.loads(event.removeprefix(b"data: "))["result"] == {"round": number}


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_a_cancellation_passes_at_once_with_the_right_id_also_out_of_order(gateway: str) -> None:
    waiting: dict[int, asyncio.Event] = {1: asyncio.Event(), 2: asyncio.Event()}

    async def handler(answer: Answer) -> None:
        message = answer.request.json()
        if message["method"] == "notifications/cancelled":
            await answer.send(status="202 Accepted", fields=[])
            waiting[message["params"]["requestId"]].set()
            return
        await waiting[message["id"]].wait()
        await answer.send(b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32800,"message":"over"}}' % message["id"])

    async with behind(gateway, handler) as link:
        connections: list[Connection] = []
        for number in (1, 2):
            connection = await link.connect()
            connections.append(connection)
            fields = [*HANDSHAKE, ("mcp-session-id", "s")]
            await connection.start("POST", request(number, "tools/call", {"name": "t"}), fields)
            await link.seen.reach(number)
        for number in (2, 1):
            cancel = notification("notifications/cancelled", {"requestId": number, "reason": "r"})
            assert (await link.post(cancel, session="s")).status == 202
            assert exact(link.seen[-1].body) == exact(cancel)
            assert (await read_head(connections[number - 1].reader)).status == 200


@pytest.mark.parametrize("gateway", GATEWAYS)
async def test_a_subscription_stream_stays_open_and_its_ids_pass(gateway: str) -> None:
    key = "io.modelcontextprotocol/subscriptionId"
    notes: Sequence[bytes] = [
        notification("notifications/subscriptions/acknowledged", {"_meta": {key: 1}, "notifications": {}}),
        notification("notifications/tools/list_changed", {"_meta": {key: 1}}),
    ]

    async def handler(answer: Answer) -> None:
        await answer.stream(*(b"data: " + note + b"\n\n" for note in notes), end=False)
        await answer.gone()

    async with behind(gateway, handler) as link:
        connection = await link.connect()
        body, fields = sent("stateless", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await connection.start("POST", body, fields)
        await read_head(connection.reader)
        got = await events_of(connection, 2)
        assert [exact(event.removeprefix(b"data: ")) for event in got] == [exact(note) for note in notes]
