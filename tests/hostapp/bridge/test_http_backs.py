"""A stdio client in front of a server that speaks streamable HTTP: sessions, headers, answers in every form."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from midspan_sdk import mutator, validator
from tests.hostapp.http.wire import Answer, call, notification, request, result

from .stdio_front import (
    INITIALIZED,
    JSON,
    SESSION,
    after_handshake,
    error,
    event,
    fronted,
    initialize,
    initialized,
    shake,
    to_url,
)

pytestmark = pytest.mark.anyio


async def test_a_session_has_its_headers_a_stream_and_an_end() -> None:
    listening = asyncio.Event()

    async def server(answer: Answer) -> None:
        if answer.request.method == "GET":
            await answer.stream(b": here\n\n", end=False)
            listening.set()
        elif not await shake(answer):
            await answer.send(result(1, {}))

    async with fronted(server, headers={"X-Key": "k"}) as front:
        assert await front.ask(initialize()) == initialized()
        assert [one.method for one in front.seen] == ["POST"]
        await front.send(INITIALIZED)
        await listening.wait()
        assert await front.ask(call(1)) == result(1, {})
        front.half_close()
        assert await front.running == 0
        seen = front.seen
    assert sorted(one.method for one in seen) == ["DELETE", "GET", "POST", "POST", "POST"]
    assert seen[0].header("mcp-session-id") is None
    assert seen[0].header("mcp-protocol-version") is None
    for later in seen[1:]:
        assert later.header("mcp-session-id") == "s-1"
        assert later.header("mcp-protocol-version") == "2025-11-25"
    assert {one.header("x-key") for one in seen} == {"k"}
    posts = [one for one in seen if one.method == "POST"]
    assert {one.header("accept") for one in posts} == {"application/json, text/event-stream"}
    assert {one.header("content-type") for one in posts} == {"application/json"}
    assert next(one for one in seen if one.method == "GET").header("accept") == "text/event-stream"


async def test_without_a_session_nobody_listens_and_nothing_is_ended() -> None:
    async def server(answer: Answer) -> None:
        if not await shake(answer, session=False):
            await answer.send(result(1, {}))

    async with fronted(server) as front:
        await front.shake_hands()
        await front.ask(call(1))
    assert [one.method for one in front.seen] == ["POST"] * 3
    assert front.seen[2].header("mcp-protocol-version") == "2025-11-25"


async def test_what_the_server_asks_over_the_stream_is_answered_by_a_post() -> None:
    asked = request("from-server", "roots/list")

    async def server(answer: Answer) -> None:
        if answer.request.method == "GET":
            await answer.stream(event(asked), end=False)
        elif not await shake(answer):
            await answer.send(status="202 Accepted", fields=())

    async with fronted(server) as front:
        await front.shake_hands()
        assert await front.receive() == asked
        count = len(front.seen)
        await front.send(result("from-server", {"roots": []}))
        await front.seen.reach(count + 1)
        assert front.seen[-1].body == result("from-server", {"roots": []})
        assert front.seen[-1].header("mcp-session-id") == "s-1"


async def test_the_stream_is_opened_again_where_it_ended() -> None:
    gets: list[str | None] = []

    async def server(answer: Answer) -> None:
        if answer.request.method == "GET":
            gets.append(answer.request.header("last-event-id"))
            if len(gets) == 3:  # the end of the stream before has not come to be known there
                await answer.send(status="409 Conflict", fields=())
            elif len(gets) == 2:
                await answer.break_off()
            else:
                said = event(notification("notifications/message", {"n": len(gets)}), id=f"e{len(gets)}", retry=1)
                await answer.stream(said, end=len(gets) == 1)
        else:
            await shake(answer)

    async with fronted(server) as front:
        await front.shake_hands()
        assert (await front.read())["params"] == {"n": 1}
        assert (await front.read())["params"] == {"n": 4}
    assert gets == [None, "e1", "e1", "e1"]


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "404 Not Found", "200 OK", "204 No Content"])
async def test_a_server_without_such_a_stream_is_not_asked_again(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midspan.bridge._http_connection._RETRY", 0.0)
    gets: list[str] = []

    async def server(answer: Answer) -> None:
        if answer.request.method == "GET":
            gets.append(status)
            await answer.send(status=status, fields=JSON)
        elif not await shake(answer):
            await answer.send(result(answer.request.json()["id"], {}))

    async with fronted(server) as front:
        await front.shake_hands()
        await front.seen.reach(3)
        for number in range(3):
            assert await front.ask(call(number)) == result(number, {})
        front.half_close()
        assert await front.running == 0
    assert gets == [status]


PRETTY = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "a\nb"}}, indent=2).encode()
EXACT = (
    b'{"result": {"z":1.0,"a":1152921504606846977,"s":"\\ud800","e":1e2,"dup":1,"dup":2,"\xf0\x9f\x98\x80":null},'
    b'  "x":[ ],"id":1,"jsonrpc":"2.0"}'
)


@pytest.mark.parametrize("body", [result(1, {"a": 1}), PRETTY, PRETTY.replace(b"\n", b"\r\n"), EXACT])
async def test_an_answer_as_json_arrives_as_one_line(body: bytes) -> None:
    async def server(answer: Answer) -> None:
        await answer.send(body)

    async with fronted(server) as front:
        line = await front.ask(call(1))
        assert line == body or (b"\n" in body and json.loads(line) == json.loads(body))
        assert line == body.replace(b"\r", b" ").replace(b"\n", b" ")


def one_byte_each(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


PROGRESS = notification("notifications/progress", {"progressToken": 1, "progress": 1})
LINES = b"".join(b"data: " + line + b"\n" for line in PRETTY.split(b"\n")) + b"\n"


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([event(result(1, {}))], [result(1, {})]),
        ([event(EXACT)], [EXACT]),
        ([LINES], [PRETTY.replace(b"\n", b" ")]),
        (one_byte_each(b"event: message\nid:\n" + event(PROGRESS) + event(result(1, {}))), [PROGRESS, result(1, {})]),
        (one_byte_each((event(PROGRESS) + event(result(1, {}))).replace(b"\n", b"\r\n")), [PROGRESS, result(1, {})]),
        ([b": ping\n\ndata:\n\n", event(b"no JSON"), event(b"{}"), event(result(1, {}))], [result(1, {})]),
        ([event(PROGRESS, event="other") + event(result(1, {}))], [result(1, {})]),
        ([event(result(1, {})) + event(PROGRESS)], [result(1, {}), PROGRESS]),
    ],
)
async def test_an_answer_as_events_arrives_as_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    async def server(answer: Answer) -> None:
        await answer.stream(*chunks)

    async with fronted(server) as front:
        await front.send(call(1))
        assert [await front.receive() for _ in lines] == lines
        front.half_close()
        assert await front.rest() == []


async def test_a_stream_that_ends_after_its_answer_leaves_the_connection_for_the_next_request() -> None:
    connections: set[int] = set()

    async def server(answer: Answer) -> None:
        connections.add(id(answer.writer))
        await answer.stream(event(result(answer.request.json()["id"], {})), end=False)
        await asyncio.sleep(0)
        await answer.end()

    async with fronted(server) as front:
        await front.ask(call(1))
        await front.send(call(2))
        assert await front.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        await front.ask(call(3))
    assert len(connections) < 3


async def test_a_stream_that_stays_open_behind_its_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midspan.bridge._http_connection._LINGER", 0.0)
    closed = asyncio.Event()

    async def server(answer: Answer) -> None:
        await answer.stream(event(result(1, {})), end=False)
        await answer.gone()
        closed.set()

    async with fronted(server) as front:
        assert await front.ask(call(1)) == result(1, {})
        await closed.wait()


async def test_requests_are_under_way_together_and_answered_in_any_order() -> None:
    second = asyncio.Event()

    async def server(answer: Answer) -> None:
        number = answer.request.json()["id"]
        if number == 1:
            await second.wait()
        await answer.send(result(number, {}))
        second.set()

    async with fronted(server) as front:
        await front.send(call(1), call(2))
        assert [(await front.read())["id"] for _ in range(2)] == [2, 1]


async def test_a_handshake_in_one_piece_keeps_its_order() -> None:
    async def server(answer: Answer) -> None:
        if not await shake(answer):
            await answer.send(result(1, {}))

    async with fronted(server) as front:
        await front.send(initialize(), INITIALIZED, call(1))
        assert [await front.receive(), await front.receive()] == [initialized(), result(1, {})]
    posts = [one for one in front.seen if one.method == "POST"]
    assert [one.json()["method"] for one in posts] == ["initialize", "notifications/initialized", "tools/call"]
    assert [one.header("mcp-session-id") for one in posts] == [None, "s-1", "s-1"]


async def test_what_the_server_asks_before_the_handshake_is_done_is_answered() -> None:
    asked = request("s", "ping")
    answered = asyncio.Event()

    async def server(answer: Answer) -> None:
        if answer.request.json().get("method") == "initialize":
            await answer.stream(event(asked), fields=SESSION, end=False)
            await answered.wait()
            await answer.write(event(initialized()))
            await answer.end()
        else:
            answered.set()
            await answer.send(status="202 Accepted", fields=())

    async with fronted(server) as front:
        assert await front.ask(initialize()) == asked
        assert await front.ask(result("s", {})) == initialized()
        assert front.seen[1].header("mcp-session-id") == "s-1"


async def test_a_batch_is_answered_as_it_is_and_as_a_whole() -> None:
    batch = b"[" + call(1) + b"," + notification("notifications/x") + b"," + call("two") + b"]"

    async def server(answer: Answer) -> None:
        if len(front.seen) == 1:
            await answer.send(b"[" + result("two", {}) + b", " + result(1, {}) + b"]")
        elif len(front.seen) == 2:
            await answer.stream(event(result(1, {})), event(result("two", {})))
        else:
            await answer.stream(event(result("two", {})))

    async with fronted(server) as front:
        assert await front.ask(batch) == b"[" + result("two", {}) + b", " + result(1, {}) + b"]"
        await front.send(batch)
        assert [await front.receive(), await front.receive()] == [result(1, {}), result("two", {})]
        await front.send(batch)
        assert await front.receive() == result("two", {})
        assert await front.receive() == error(1, -32000, "the server's stream ended before the answer")


@validator(events=["tools/call"], phase="request")
def refuses_rm(payload: dict[str, Any]) -> str | None:
    return "no rm" if payload["name"] == "rm" else None


@mutator(events=["tools/call"], phase="response")
def redacts(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "text": "***"}


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_interceptors_act_on_both_kinds_of_back(transport: str) -> None:
    stream: list[Answer] = []

    async def server(answer: Answer) -> None:
        if answer.request.method == "GET":
            stream.append(answer)
            await answer.stream(event(b"/mcp", event="endpoint"), end=False)
        elif stream:
            await answer.send(status="202 Accepted", fields=())
            await stream[0].write(event(result(answer.request.json()["id"], {"text": "secret", "more": 1.0})))
        else:
            await answer.send(result(answer.request.json()["id"], {"text": "secret", "more": 1.0}))

    async with fronted(server, refuses_rm, redacts, transport=transport) as front:
        await front.send(call(1, "rm"))
        denied = await front.read()
        assert denied["result"]["isError"] is True
        assert await front.ask(call(2)) == b'{"jsonrpc":"2.0","id":2,"result":{"text":"***","more":1.0}}'
    assert [one.json()["id"] for one in front.seen if one.method == "POST"] == [2]


async def test_an_unreachable_server_is_told_of_and_found_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with to_url(f"http://127.0.0.1:{port}/mcp") as front:
        answer = json.loads(await front.ask(call(1)))
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        assert "cannot be reached" in answer["error"]["message"]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            body = result(2, {})
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
            writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", port):
            assert await front.ask(call(2)) == result(2, {})


async def test_half_closed_a_client_still_gets_its_answers() -> None:
    go = asyncio.Event()

    async def server(answer: Answer) -> None:
        await go.wait()
        await answer.stream(event(PROGRESS), event(result(answer.request.json()["id"], {})))

    async with fronted(after_handshake(server)) as front:
        await front.shake_hands()
        await front.send(call(1), call(2))
        await front.seen.reach(5)
        front.half_close()
        go.set()
        assert sorted(await front.rest()) == sorted([PROGRESS, PROGRESS, result(1, {}), result(2, {})])
        assert await front.running == 0
    assert front.seen[-1].method == "DELETE"


async def test_when_the_client_dies_everything_is_closed() -> None:
    gone = asyncio.Event()

    async def server(answer: Answer) -> None:
        await answer.stream(event(PROGRESS), end=False)
        await answer.gone()
        gone.set()

    async with fronted(after_handshake(server)) as front:
        await front.shake_hands()
        await front.ask(call(1))
        front.die()
        assert await front.running == 0
        await gone.wait()
    assert front.seen[-1].method == "DELETE"


async def test_a_gateway_that_is_cancelled_leaves_nothing_open() -> None:
    gone = asyncio.Event()

    async def server(answer: Answer) -> None:
        await answer.stream(event(PROGRESS), end=False)
        await answer.gone()
        gone.set()

    async with fronted(server) as front:
        await front.ask(call(1))
        front.running.cancel()
        await gone.wait()


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_client_that_does_not_read_stops_the_reading_from_the_server(transport: str) -> None:
    line = notification("notifications/message", {"data": "x" * 65_000})
    written = 0
    stalled = asyncio.Event()
    total = 400

    async def server(answer: Answer) -> None:
        nonlocal written
        if answer.request.method == "POST" and transport == "sse":
            await answer.send(status="202 Accepted", fields=())
            return
        await answer.stream(event(b"/mcp", event="endpoint"), end=False)
        for _ in range(total):
            try:
                async with asyncio.timeout(0.3):
                    await answer.write(event(line))
            except TimeoutError:
                stalled.set()
                await answer.writer.drain()
            written += 1
        await answer.write(event(result(1, {})))
        await answer.end()

    async with fronted(server, transport=transport) as front:
        front.pause()
        await front.send(call(1))
        await stalled.wait()
        assert written < total / 2
        front.go_on()
        received = [await front.receive() for _ in range(total + 1)]
    assert received == [line] * total + [result(1, {})]
