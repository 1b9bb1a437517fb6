"""Sessions of the handshake revisions over HTTP, each with a server of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import midspan.bridge._sessions as sessions
from tests.hostapp.bridge.fronted import (
    HOLD,
    JSON_ONLY,
    begin,
    fronted,
    initialize,
    lines_seen,
    listen,
    progress,
    seen,
    seen_reaches,
    stream,
    telling,
)
from tests.hostapp.http.wire import HANDSHAKE, JSON_HEADERS, Fields, notification
from tests.hostapp.relay.harness import alive, b64, gone, request, result, send, server_command, written

pytestmark = pytest.mark.anyio

LOG = notification("notifications/message", {"level": "info", "data": "x"})


async def test_each_session_has_a_server_of_its_own_that_ends_with_it(log: Path, tmp_path: Path) -> None:
    async with fronted(log) as link:
        one, two = await begin(link), await begin(link)
        pids: list[int] = []
        for name, session in (("a", one), ("b", two)):
            steps = ("tell", str(tmp_path / name)), ("child", str(tmp_path / f"{name}-child")), send(result(1, {}))
            await link.post(request(1, "ping", None, *steps), session=session)
            pids += [(await written(tmp_path / file))["pid"] for file in (name, f"{name}-child")]
        assert len(set(pids)) == 4
        assert (await link.send("DELETE", b"", [("mcp-session-id", one)])).status == 200
        assert (await link.post(request(2, "ping"), session=one)).status == 404
        await gone(*pids[:2])
        assert (await link.post(request(2, "ping"), session=two)).json()["result"] == {}
    await gone(*pids)


async def test_a_request_belongs_to_a_session_that_is_there(log: Path) -> None:
    async with fronted(log) as link:
        assert (await link.post(request(1, "ping"))).status == 400
        unknown = await link.post(request(1, "ping"), session="unknown")
        assert (unknown.status, unknown.json()["id"], unknown.json()["error"]["code"]) == (404, 1, -32600)
        assert (await link.send("GET", b"", [("accept", "text/event-stream")])).status == 400
        assert (await link.send("DELETE", b"", [("mcp-session-id", "unknown")])).status == 404
        assert (await link.send("PUT", b"{}")).header("allow") == "GET, POST, DELETE"
    assert seen(log) == []


async def test_a_session_has_one_stream_of_its_own_and_no_id_twice(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        first = await listen(link, session)
        assert (await listen(link, session)).head.status == 409
        pending = await link.connect()
        await pending.start("POST", request(1, "a", None, HOLD), [*HANDSHAKE, ("mcp-session-id", session)])
        await seen_reaches(log, 2)
        refused = await link.post(request(1.0, "b"), session=session)
        assert (refused.status, refused.json()["error"]["message"]) == (400, "midspan: the id is already in use")
        await first.connection.close()
    assert [message["method"] for message in seen(log)] == ["initialize", "a"]


REFUSED = [
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', HANDSHAKE, 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"', HANDSHAKE, 400, -32700),
    (b"\xff", HANDSHAKE, 400, -32700),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', HANDSHAKE, 400, -32600),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', HANDSHAKE, 400, -32600),
    (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', HANDSHAKE, 400, -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', HANDSHAKE, 400, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', [("content-type", "text/plain")], 415, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', [*HANDSHAKE, ("content-encoding", "gzip")], 415, -32600),
]


@pytest.mark.parametrize("era", ["session", "alone"])
async def test_what_readers_could_differ_on_goes_no_further(log: Path, era: str) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        for body, fields, status, code in REFUSED:
            own: Fields = fields
            if era == "alone":
                own = [(key, "2026-07-28" if key == "mcp-protocol-version" else text) for key, text in fields]
            response = await link.post(body, own, session=session)
            assert (response.status, response.json()["error"]["code"]) == (status, code), body
    assert len(seen(log)) == 1


async def test_a_message_over_several_lines_is_one_line_to_the_server(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        body = b'{"jsonrpc":"2.0",\r\n "id":1,\n"method":"ping"}\n'
        assert (await link.post(body, session=session)).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert len(seen(log)) == 2


@pytest.mark.parametrize("before", [[], [LOG]])
async def test_a_session_whose_initialize_is_refused_is_none(log: Path, tmp_path: Path, before: list[bytes]) -> None:
    refusal = b'{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}'
    async with fronted(log) as link:
        response = await link.post(initialize(("tell", str(tmp_path / "it")), send(*before, refusal)), JSON_HEADERS)
        session = response.header("mcp-session-id")
        assert b'"code":-32602' in response.body
        assert (await link.post(request(1, "ping"), session=session)).status == 404
        await gone((await written(tmp_path / "it"))["pid"])


async def test_a_session_that_its_client_never_learnt_of_ends(log: Path, tmp_path: Path) -> None:
    async with fronted(log) as link:
        connection = await link.connect()
        await connection.start("POST", initialize(("tell", str(tmp_path / "it"))), JSON_HEADERS)
        pid = (await written(tmp_path / "it"))["pid"]
        await connection.close()
        await gone(pid)


async def test_a_command_that_cannot_be_started_is_one_clear_line() -> None:
    async with fronted(["./no-such-command"]) as link:
        response = await link.post(initialize(), JSON_HEADERS)
        assert response.status == 502
        assert response.json() == {
            "jsonrpc": "2.0",
            "id": 0,
            "error": {
                "code": -32000,
                "message": "midspan: cannot start './no-such-command': not found; install it or give its full path",
            },
        }


async def test_when_the_server_dies_all_are_told_at_once(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        fields = [*HANDSHAKE, ("mcp-session-id", session)]
        pending = [await link.connect() for _ in range(3)]
        for number, connection in enumerate(pending):
            await connection.start("POST", request(number, "a", None, HOLD), fields)
        streaming = await listen(link, session)
        await seen_reaches(log, 4)
        assert (await link.post(request("x", "b", None, ("exit", 3)), session=session)).json()["error"][
            "code"
        ] == -32000
        assert await streaming.rest() == []
        assert (await link.post(request(5, "ping"), session=session)).status == 404
        for connection in pending:
            assert b'"code":-32000' in await connection.reader.readuntil(b"}}")
        await begin(link)


async def test_a_server_that_is_started_anew_keeps_the_session(log: Path) -> None:
    async with fronted(log, restart="on-failure") as link:
        session = await begin(link)
        await link.post(notification("notifications/initialized"), session=session)
        died = await link.post(request(1, "a", None, ("exit", 3)), session=session)
        assert died.json()["error"]["code"] == -32000
        assert (await link.post(request(2, "ping"), session=session)).json()["result"] == {}
    shook = ["initialize", "notifications/initialized"]
    assert [message["method"] for message in seen(log)] == [*shook, "a", *shook, "ping"]


async def test_an_answer_alone_is_json_and_with_company_a_stream(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        alone = await link.post(request(1, "ping"), session=session)
        assert alone.header("content-type") == "application/json"
        assert alone.header("mcp-session-id") is None
        events = await stream(link, request(2, "a", None, send(LOG, result(2, {"é": 1.0}))), session=session)
        assert [await events.raw(), await events.raw(), await events.raw()] == [LOG, result(2, {"é": 1.0}), None]


async def test_a_client_that_takes_json_only_gets_that(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        step = ("long", b64('{"jsonrpc":"2.0","id":1,"result":{"x":"'), 3_000_000, b64('"}}\n'))
        response = await link.post(request(1, "a", None, send(LOG), step), JSON_ONLY, session=session)
        assert response.header("content-type") == "application/json"
        assert len(response.json()["result"]["x"]) == 3_000_000
        assert json.dumps(await (await listen(link, session)).next()).encode() == LOG


async def test_a_long_answer_alone_is_json(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        step = ("long", b64('{"jsonrpc":"2.0","id":1,"result":{"x":"'), 3_000_000, b64('"}}\n'))
        response = await link.post(request(1, "a", None, step), session=session)
        assert response.header("content-type") == "application/json"


async def test_progress_goes_to_the_request_that_asked_for_it(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        fields = [*HANDSHAKE, ("mcp-session-id", session)]
        first, second = await link.connect(), await link.connect()
        for number, (connection, token) in enumerate([(first, "t"), (second, 7)]):
            body = request(number, "a", {"_meta": {"progressToken": token}}, HOLD)
            await connection.start("POST", body, fields)
        await seen_reaches(log, 3)
        said = progress("t", "first"), progress(7, "second"), progress("t", "again"), LOG
        answers = result(0, {}), result(2, {}), result(1, {})
        third = await stream(link, request(2, "b", None, send(*said, *answers)), session=session)
        assert [message.get("method") for message in await third.rest()] == ["notifications/message", None]
        for connection, expected in ((first, ["first", "again"]), (second, ["second"])):
            body = (await connection.reader.readuntil(b"0\r\n\r\n")).decode()
            assert [body.count(f'"message": "{word}"') for word in expected] == [1] * len(expected)
            assert body.count("notifications/progress") == len(expected)


async def test_what_the_server_asks_reaches_the_client_and_its_answer_the_server(log: Path) -> None:
    asked = request("s-1", "sampling/createMessage", {"messages": []})
    answer = b'{"jsonrpc":"2.0","id":"s-1","result":{"role":"assistant","x":1.0,"y":null}}'
    async with fronted(log) as link:
        session = await begin(link)
        for number in (1, 2):
            steps = send(asked), ("read", 1), send(result(number, {}))
            events = await stream(link, request(number, "tools/call", None, *steps), session=session)
            assert await events.raw() == asked
            assert (await link.post(answer, session=session)).status == 202
            assert [one["id"] for one in await events.rest()] == [number]
    assert lines_seen(log).count(answer) == 2


async def test_what_the_server_says_by_itself_waits_for_the_stream(log: Path, tmp_path: Path) -> None:
    changed = notification("notifications/tools/list_changed", {})
    asked = request("r", "roots/list")
    async with fronted(log) as link:
        session = await begin(link)
        steps = send(changed, asked), ("tell", str(tmp_path / "said"))
        told = telling({"method": "notifications/initialized"}, *steps)
        assert (await link.post(told, session=session)).status == 202
        await written(tmp_path / "said")
        events = await listen(link, session)
        assert [await events.raw(), await events.raw()] == [changed, asked]
        await link.post(telling({"method": "notifications/x"}, send(changed)), session=session)
        assert await events.raw() == changed


async def test_a_cancelled_request_ends_and_its_late_answer_goes_to_nobody(log: Path) -> None:
    cancel = notification("notifications/cancelled", {"requestId": "one", "reason": "1.0"})
    async with fronted(log) as link:
        session = await begin(link)
        steps = send(progress("t")), ("read", 1), send(result("one", {"late": True}))
        body = request("one", "tools/call", {"_meta": {"progressToken": "t"}}, *steps)
        events = await stream(link, body, session=session)
        assert (await events.next())["method"] == "notifications/progress"
        assert (await link.post(cancel, session=session)).status == 202
        assert [one["error"]["code"] for one in await events.rest()] == [-32800]
        assert (await link.post(request(2, "ping"), session=session)).json()["id"] == 2
    assert cancel in lines_seen(log)


async def test_who_waits_does_not_wait_for_a_server_that_is_slow_to_end(log: Path, tmp_path: Path) -> None:
    async with fronted(server_command(log, stay=True)) as link:
        session = await begin(link)
        steps = ("tell", str(tmp_path / "it")), send(LOG)
        events = await stream(link, request(1, "a", None, *steps), session=session)
        assert (await events.next())["method"] == "notifications/message"
        pid = (await written(tmp_path / "it"))["pid"]
        await link.send("DELETE", b"", [("mcp-session-id", session)])
        assert [one["error"]["code"] for one in await events.rest()] == [-32000]
        assert alive(pid)
        await gone(pid)


async def test_lines_that_are_no_messages_are_dropped(log: Path) -> None:
    garbage = "Starting...", '{"x":1}', "[]", '{"method": oops', "\x1b[0m", '{"jsonrpc":"2.0","id":9,"result":{}}'
    async with fronted(log) as link:
        session = await begin(link)
        response = await link.post(request(1, "a", None, send(*garbage, result(1, {}))), session=session)
        assert response.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_requests_that_wait_for_answers_keep_no_room_from_others(log: Path) -> None:
    async with fronted(log, max_message=100_000) as link:
        fields = [*HANDSHAKE, ("mcp-session-id", await begin(link))]
        for number in range(6):
            body = request(number, "a", {"x": "x" * 90_000}, HOLD)
            await (await link.connect()).start("POST", body, fields)
        await seen_reaches(log, 7)


async def test_so_many_requests_may_wait_and_no_more(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST_PENDING", 3)
    async with fronted(log) as link:
        session = await begin(link)
        for number in range(3):
            connection = await link.connect()
            await connection.start("POST", request(number, "a", None, HOLD), [*HANDSHAKE, ("mcp-session-id", session)])
            await seen_reaches(log, number + 2)
            await connection.close()
        assert (await link.post(request(3, "a"), session=session)).status == 429


async def test_requests_around_a_delete_are_all_answered(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        statuses: list[int] = []

        async def ping(number: int) -> None:
            response = await link.post(request(number, "ping"), session=session)
            statuses.append(response.status)
            assert response.json()["id"] == number

        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(ping(number))
            group.create_task(link.send("DELETE", b"", [("mcp-session-id", session)]))
            for number in range(20, 40):
                group.create_task(ping(number))
        assert set(statuses) <= {200, 404}
        assert len(statuses) == 40
