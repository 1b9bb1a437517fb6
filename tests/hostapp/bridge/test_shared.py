"""Requests of 2026-07-28 over HTTP, which share a server by principal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest

from tests.hostapp.bridge.fronted import (
    ALONE,
    HOLD,
    Events,
    alone,
    bearer,
    fronted,
    lines_seen,
    progress,
    seen,
    seen_reaches,
    stream,
)
from tests.hostapp.http.wire import (
    STATELESS_META,
    Connection,
    Fields,
    Link,
    call,
    notification,
    read_head,
    request,
    stateless,
)
from tests.hostapp.relay.harness import Step, alive, b64, gone, result, send, written

pytestmark = pytest.mark.anyio

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LISTEN = stateless("subscriptions/listen")


async def started(link: Link, log: Path, body: bytes, fields: Fields = ALONE) -> Connection:
    """Send a request, and wait until the server has it."""
    before = len(lines_seen(log))
    connection = await link.connect()
    await connection.start("POST", body, fields)
    await seen_reaches(log, before + 1)
    return connection


async def works(link: Link, message_id: int = 99) -> None:
    response = await link.post(alone(message_id), ALONE)
    assert (response.status, response.json()) == (200, {"jsonrpc": "2.0", "id": message_id, "result": {}})


async def test_each_principal_has_a_server_of_its_own(log: Path, tmp_path: Path) -> None:
    async with fronted(log) as link:
        pids: list[int] = []
        for number, fields in enumerate([ALONE, ALONE, bearer("a"), bearer("b"), bearer("a")]):
            file = tmp_path / str(number)
            # Towards the server a request has the next number of its connection.
            number_there = (1, 2, 1, 1, 2)[number]
            await link.post(alone(7, ("tell", str(file)), send(result(number_there, {}))), fields)
            pids.append((await written(file))["pid"])
        assert pids[0] == pids[1]
        assert pids[2] == pids[4]
        assert len(set(pids)) == 3
    assert not any(alive(pid) for pid in pids)


async def test_concurrent_first_requests_share_one_server(log: Path) -> None:
    async with fronted(log) as link:
        responses = await asyncio.gather(*(link.post(alone(5), ALONE) for _ in range(20)))
        assert [response.json()["id"] for response in responses] == [5] * 20
    assert sorted(message["id"] for message in seen(log)) == list(range(1, 21))


@pytest.mark.parametrize(
    "text", ['"a\\u0041\\"\\\\x"', '"é😀"', "7", "-0", "1.0", "1e2", "123456789012345678901234567890", '""', '"1"']
)
async def test_ids_and_tokens_come_back_as_they_were_written(log: Path, text: str) -> None:
    raw = text.encode()
    async with fronted(log) as link:
        events = await stream(link, alone(raw, send(progress(1), result(1, {})), token=raw), ALONE)
        assert await events.raw() == progress(1).replace(b'"progressToken": 1', b'"progressToken": ' + raw)
        assert await events.raw() == result(1, {}).replace(b'"id": 1', b'"id": ' + raw)
        assert await events.raw() is None
    (line,) = lines_seen(log)
    assert line.startswith(b'{"jsonrpc": "2.0", "id": 1, ')
    assert b'"progressToken": 1}' in line


async def test_two_clients_may_use_one_id_and_token_at_once(log: Path) -> None:
    async with fronted(log) as link:
        first = await started(link, log, alone(1, HOLD, token=b'"t"'))
        said = send(progress(2, "second"), progress(1, "first"), result(2, {"for": 2}), result(1, {"for": 1}))
        second = await stream(link, alone(1, said, token=b'"t"'), ALONE)
        for number, events in enumerate([Events(first, await read_head(first.reader)), second], 1):
            noted, answer = await events.rest()
            assert noted["params"] == {"progressToken": "t", "progress": 1, "message": ["first", "second"][number - 1]}
            assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"for": number}}


async def test_closing_the_connection_cancels(log: Path) -> None:
    async with fronted(log) as link:
        await started(link, log, alone(b"1", HOLD))
        events = await stream(link, alone(1, send(progress(2)), ("read", 1), send(result(2, {})), token=b"1"), ALONE)
        assert (await events.next())["method"] == "notifications/progress"
        await events.connection.close()
        await seen_reaches(log, 3)
        await works(link)
    cancels = [one for one in seen(log) if one["method"] == "notifications/cancelled"]
    assert cancels[0]["params"] == {"requestId": 2}


async def test_closing_before_anything_came_cancels(log: Path) -> None:
    async with fronted(log) as link:
        connection = await started(link, log, alone(1, HOLD))
        await connection.close()
        cancelled = (await seen_reaches(log, 2))[1]
        assert (cancelled["method"], cancelled["params"]) == ("notifications/cancelled", {"requestId": 1})
        await works(link)


async def test_a_posted_cancellation_is_taken_and_goes_no_further(log: Path) -> None:
    async with fronted(log) as link:
        pending = await started(link, log, alone(1, HOLD))
        body = notification("notifications/cancelled", {"requestId": 1, "_meta": STATELESS_META})
        response = await link.post(body, stateless("notifications/cancelled"))
        assert (response.status, response.body) == (202, b"")
        other = notification("notifications/x", {"_meta": STATELESS_META})
        assert (await link.post(other, stateless("notifications/x"))).status == 202
        await link.post(alone(2, send(result(1, {}), result(2, {}))), ALONE)
        assert b'"id": 1' in await pending.reader.readuntil(b"}}")
    assert lines_seen(log)[1] == other


META = {"_meta": STATELESS_META}
WRONG = [
    (alone(1), stateless("tools/call"), 400, -32020),
    (alone(1), [one for one in ALONE if one[0] != "mcp-method"], 400, -32020),
    (call(1, "echo", None, _meta=STATELESS_META), stateless("tools/call", "other"), 400, -32020),
    (call(1, "echo", None, _meta=STATELESS_META), stateless("tools/call"), 400, -32020),
    (alone(1).replace(b"2026-07-28", b"2025-11-25"), ALONE, 400, -32020),
    (request(1, "tools/list"), ALONE, 400, -32602),
    (request(1, "initialize", META), stateless("initialize"), 404, -32601),
    (result(1, {}), ALONE, 400, -32600),
    (alone(1, method="subscriptions/listen"), [*LISTEN[2:], LISTEN[0], ("accept", "application/json")], 406, -32600),
]


async def test_what_a_server_of_this_era_refuses_is_refused(log: Path) -> None:
    async with fronted(log) as link:
        for body, fields, status, code in WRONG:
            response = await link.post(body, fields)
            assert (response.status, response.json()["error"]["code"]) == (status, code), (body, fields)
        for method in ("GET", "DELETE"):
            response = await link.send(method, b"", [("mcp-protocol-version", "2026-07-28")])
            assert (response.status, response.header("allow")) == (405, "POST")
    assert seen(log) == []


@pytest.mark.parametrize(
    ("code", "status"), [(-32601, 404), (-32602, 400), (-32022, 400), (-32021, 400), (-32603, 200), (7, 200)]
)
async def test_an_error_has_the_status_of_its_code(log: Path, code: int, status: int) -> None:
    error = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "é", "data": None}}).encode()
    async with fronted(log) as link:
        response = await link.post(alone(b'"x"', send(error)), ALONE)
        assert (response.status, response.body) == (status, error.replace(b'"id": 1', b'"id": "x"'))


def changed(number: int) -> bytes:
    return notification("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION: number}})


async def test_subscriptions_stay_open_and_get_what_is_theirs(log: Path) -> None:
    async with fronted(log) as link:
        subscriptions: list[Events] = []
        for number in (1, 2):
            step = send(changed(number))
            body = alone(b'"s"', step, method="subscriptions/listen")
            subscriptions.append(await stream(link, body, LISTEN))
        for events in subscriptions:
            assert await events.raw() == changed(0).replace(b"0}", b'"s"}')
        end = result(2, {"_meta": {SUBSCRIPTION: 2}})
        response = await link.post(alone(1, send(changed(2), changed(1), changed(2), end, result(3, {}))), ALONE)
        assert response.header("content-type") == "application/json"
        method = json.loads(changed(2))["method"]
        assert [one.get("method") for one in await subscriptions[1].rest()] == [method, method, None]
        assert (await subscriptions[0].next())["params"] == {"_meta": {SUBSCRIPTION: "s"}}
        await subscriptions[0].connection.close()
        cancelled = (await seen_reaches(log, 4))[3]
        assert cancelled["params"] == {"requestId": 1}


async def test_a_client_that_does_not_read_holds_nobody(log: Path) -> None:
    flood: Step = ("flood", b64(progress(1, "x" * 100_000) + b"\n"), 350)
    async with fronted(log) as link:
        connection = await link.connect()
        cast("asyncio.Transport", connection.writer.transport).pause_reading()
        await connection.start("POST", alone(1, flood, send(result(1, {})), token=b"1"), ALONE)
        await works(link)
        await works(link)
    assert {"requestId": 1} in [one["params"] for one in seen(log)]


async def test_when_the_server_dies_all_are_told_and_the_next_gets_a_new_one(log: Path) -> None:
    async with fronted(log) as link:
        pending = [await started(link, log, alone(number, HOLD)) for number in range(3)]
        died = await link.post(alone(b"1.0", ("exit", 1)), ALONE)
        assert b'"id":1.0,"error":{"code":-32000' in died.body
        for connection in pending:
            assert b'"code":-32000' in await connection.reader.readuntil(b"}}")
        await works(link)
        assert seen(log)[-1]["id"] == 1


async def test_a_server_that_will_not_stay_is_an_error_each_time(tmp_path: Path) -> None:
    async with fronted(["false"]) as link:
        for _ in range(3):
            response = await link.post(alone(b'"x"'), ALONE)
            assert (response.json()["id"], response.json()["error"]["code"]) == ("x", -32000)
    async with fronted([str(tmp_path / "none")]) as link:
        response = await link.post(alone(4), ALONE)
        assert (response.status, response.json()["id"]) == (502, 4)
        assert "\n" not in response.json()["error"]["message"]


async def test_a_server_that_dies_idle_is_let_go(log: Path, tmp_path: Path) -> None:
    async with fronted(log) as link:
        steps = ("tell", str(tmp_path / "it")), send(result(1, {})), ("exit", 0)
        await link.post(alone(1, *steps), ALONE)
        await gone((await written(tmp_path / "it"))["pid"])
        await works(link)


async def test_a_server_started_anew_serves_on(log: Path) -> None:
    async with fronted(log, restart="on-failure") as link:
        died = await link.post(alone(1, ("exit", 1)), ALONE)
        assert died.json()["error"]["code"] == -32000
        await works(link)
    assert [one["id"] for one in seen(log)] == [1, 2]


async def test_lines_that_are_no_messages_are_dropped(log: Path) -> None:
    garbage = (
        "Starting...",
        '{"x":1}',
        "[]",
        '[{"jsonrpc":"2.0","id":1,"result":{}}]',
        '{"method": oops',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[]}}',
        '{"jsonrpc":"2.0","id":9,"result":{}}',
        '{"jsonrpc":"2.0","id":"1","result":{}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"\\ud800\\x":1,"id":9,"method":"x"',
    )
    async with fronted(log) as link:
        response = await link.post(alone(1, send(*garbage, b"\xff\xfe", result(1, {}))), ALONE)
        assert response.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        await works(link)


async def test_a_server_that_asks_something_is_told_that_nobody_answers(log: Path) -> None:
    async with fronted(log) as link:
        steps = send(request("q", "sampling/createMessage")), ("read", 1), send(result(1, {"went": "on"}))
        assert (await link.post(alone(1, *steps), ALONE)).json()["result"] == {"went": "on"}
    told = json.loads(lines_seen(log)[1])
    assert (told["id"], told["error"]["code"]) == ("q", -32601)


async def test_a_client_that_takes_json_only_gets_that(log: Path) -> None:
    fields = [*[one for one in ALONE if one[0] != "accept"], ("accept", "application/json")]
    long: Step = ("long", b64('{"jsonrpc":"2.0","id":1,"result":{"x":"'), 3_000_000, b64('"}}\n'))
    async with fronted(log) as link:
        response = await link.post(alone(1, send(progress(1)), long, token=b"1"), fields)
        assert response.header("content-type") == "application/json"
        assert len(response.json()["result"]["x"]) == 3_000_000


async def test_log_messages_go_to_who_wants_them(log: Path) -> None:
    logged = notification("notifications/message", {"level": "info", "data": "x"})
    async with fronted(log) as link:
        wants = alone(1, HOLD).replace(b'"_meta": {', b'"_meta": {"io.modelcontextprotocol/logLevel": "info", ')
        first = await started(link, log, wants)
        response = await link.post(alone(2, send(logged, result(2, {}), result(1, {}))), ALONE)
        assert response.header("content-type") == "application/json"
        events = Events(first, await read_head(first.reader))
        assert await events.raw() == logged


async def test_an_answer_over_the_limit_is_an_error(log: Path) -> None:
    async with fronted(log, max_message=10_000) as link:
        step: Step = ("long", b64('{"jsonrpc":"2.0","id":1,"result":{"x":"'), 20_000, b64('"}}\n'))
        response = await link.post(alone(b'"big"', step), ALONE)
        assert (response.json()["id"], response.json()["error"]["code"]) == ("big", -32000)
        await works(link)


async def test_requests_that_wait_for_answers_keep_no_room_from_others(log: Path) -> None:
    async with fronted(log, max_message=100_000) as link:
        # Bodies share a budget of four times the limit.
        for number in range(6):
            await started(link, log, alone(number, HOLD).replace(b"{", b"{" + b" " * 90_000, 1))
