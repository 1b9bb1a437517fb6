"""A stdio client in front of a streamable HTTP server that fails: every request still gets exactly one answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest

from tests.hostapp.http.wire import Answer, call, notification, result, stateless_call

from .stdio_front import JSON, after_handshake, error, event, fronted, initialize, keys

pytestmark = pytest.mark.anyio

Step = Callable[[Answer], Awaitable[None]]
PROGRESS = notification("notifications/progress", {"progressToken": 1, "progress": 1})
NO_ANSWER = error(1, -32000, "the server's stream ended before the answer")


def streams(*events: bytes, end: bool = True) -> Step:
    """Answer with events, and with `end=False` break off behind them."""

    async def step(answer: Answer) -> None:
        await answer.stream(*events, end=end)
        if not end:
            await answer.break_off()

    return step


def sends(body: bytes, status: str = "200 OK", kind: str | None = "application/json") -> Step:
    """Answer with a body."""

    async def step(answer: Answer) -> None:
        await answer.send(body, status=status, fields=[("content-type", kind)] if kind else ())

    return step


def says(status: str) -> Step:
    """Answer with a status alone."""
    return sends(b"", status, None)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resume without waiting."""
    monkeypatch.setattr("midspan.bridge._http_connection._RETRY", 0.0)


# Streams that break off


@pytest.mark.parametrize("end", [True, False])
async def test_a_stream_that_ended_is_resumed_after_its_last_event(end: bool) -> None:
    first = event(PROGRESS, id="a", retry=2) + event(b"", id="b")
    server = keys(streams(first, end=end), streams(event(PROGRESS, id="c"), end=end), streams(event(result(1, {}))))
    async with fronted(server) as front:
        await front.send(call(1))
        assert [await front.receive() for _ in range(3)] == [PROGRESS, PROGRESS, result(1, {})]
    gets = front.seen[1:]
    assert [(one.method, one.header("last-event-id"), one.body) for one in gets] == [
        ("GET", "b", b""),
        ("GET", "c", b""),
    ]


@pytest.mark.parametrize("events", [[], [event(PROGRESS)], [event(PROGRESS, id="a"), event(PROGRESS, id="")]])
async def test_a_stream_that_cannot_be_resumed_is_an_error(events: list[bytes]) -> None:
    async with fronted(keys(streams(*events, end=False), sends(result(2, {})))) as front:
        await front.send(call(1))
        assert [await front.receive() for _ in events] == [PROGRESS] * len(events)
        assert await front.receive() == NO_ANSWER
        assert await front.ask(call(2)) == result(2, {})


async def test_resuming_that_fails_for_ever_ends(at_once: None) -> None:
    failing: list[Step] = [streams(end=False), says("503 Service Unavailable"), streams(b": nothing\n\n")] * 2
    async with fronted(keys(streams(event(b"", id="a")), *failing)) as front:
        assert await front.ask(call(1)) == NO_ANSWER
    assert [one.method for one in front.seen] == ["POST"] + ["GET"] * 5


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "400 Bad Request", "404 Not Found", "200 OK"])
async def test_resuming_that_the_server_refuses_is_not_tried_again(at_once: None, status: str) -> None:
    async with fronted(keys(streams(event(b"", id="a")), says(status), sends(result(2, {})))) as front:
        answer = json.loads(await front.ask(call(1)))
        assert (answer["id"], answer["error"]["code"]) == (1, -32000)
        assert await front.ask(call(2)) == result(2, {})


# Refusals


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "200 OK", "500 Internal Server Error"])
@pytest.mark.parametrize("named", [b'"id":1,', b'"id":null,', b'"id":"server-error",', b""])
async def test_the_servers_own_error_is_given_with_the_id_of_the_request(status: str, named: bytes) -> None:
    body = b'{"jsonrpc":"2.0",  %s"error":{"code":-32001, "message":"no","data":1e2}}'
    async with fronted(keys(sends(body % named, status))) as front:
        line = await front.ask(call(1))
    if named:
        assert line == body % b'"id":1,'
    else:
        assert json.loads(line)["id"] == 1
        assert line.endswith(b'"error":{"code":-32001, "message":"no","data":1e2}}')


async def test_an_answer_to_nobody_in_a_stream_is_the_requests() -> None:
    async with fronted(keys(streams(event(result("1", {"a": 1.0}))))) as front:
        assert await front.ask(call(1)) == result(1, {"a": 1.0})


REFUSED = "the server refused the request (HTTP 500)"


@pytest.mark.parametrize(
    ("step", "code", "text"),
    [
        (says("404 Not Found"), -32601, "the server does not know the method (HTTP 404)"),
        (
            sends(b'{"error":"invalid_token"}', "401 Unauthorized"),
            -32603,
            "the server does not let the client in (HTTP 401); give credentials with --header",
        ),
        (sends(b"<html>\n", "500 Internal Server Error", "text/html"), -32603, REFUSED),
        (sends(b'{"error":{"code":1e999}', "500 Internal Server Error"), -32603, REFUSED),
        (says("202 Accepted"), -32603, "the server gave no answer (HTTP 202)"),
        (sends(b"", "200 OK"), -32603, "the server gave no answer (HTTP 200)"),
        (sends(b"hello", kind="text/plain"), -32603, "the server gave no answer (HTTP 200)"),
        (sends(b"hello"), -32603, "the server's answer is no JSON-RPC message"),
        (sends(b"hello\n"), -32603, "the server's answer is not JSON"),
        (sends(b"[]"), -32603, "the server's answer is no JSON-RPC message"),
    ],
)
async def test_a_request_without_an_answer_is_told_why(step: Step, code: int, text: str) -> None:
    async with fronted(keys(step, sends(result(2, {})))) as front:
        assert await front.ask(call(1)) == error(1, code, text)
        assert await front.ask(call(2)) == result(2, {})


async def test_a_redirect_is_not_followed() -> None:
    async def server(answer: Answer) -> None:
        await answer.send(status="307 Temporary Redirect", fields=[("location", "http://u:p@other/mcp?key=1")])

    async with fronted(server) as front:
        text = "the server redirects to http://other/mcp; use that URL"
        assert await front.ask(call(1)) == error(1, -32603, text)
    assert len(front.seen) == 1


async def test_a_notification_that_is_refused_ends_nothing() -> None:
    async with fronted(keys(says("400 Bad Request"), says("307 Temporary Redirect"), sends(result(1, {})))) as front:
        await front.send(notification("notifications/x"), notification("notifications/y"), call(1))
        assert await front.receive() == result(1, {})


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (b"", error(1, -32000, "the server has ended the session (HTTP 404)")),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}', None),
    ],
)
async def test_a_session_that_the_server_has_ended_ends_the_process(body: bytes, given: bytes | None) -> None:
    async def server(answer: Answer) -> None:
        if answer.request.json()["id"] == 1:
            await answer.send(body, status="404 Not Found", fields=JSON)
        else:
            await answer.stream(event(PROGRESS), end=False)

    async with fronted(after_handshake(server)) as front:
        await front.shake_hands()
        assert await front.ask(call(0)) == PROGRESS
        assert await front.ask(call(1)) == (given or body.replace(b"null", b"1"))
        assert await front.rest() == [error(0, -32000, "the server has ended the session")]
        assert await front.running == 1
    assert "DELETE" not in [one.method for one in front.seen]


async def test_a_method_that_is_not_known_ends_no_session() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}'
    async with fronted(after_handshake(sends(body, "404 Not Found"))) as front:
        await front.shake_hands()
        assert await front.ask(call(1)) == body
        front.half_close()
        assert await front.running == 0


async def test_a_batch_of_one_is_refused_as_a_whole() -> None:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no batches"}}'
    async with fronted(keys(sends(body, "400 Bad Request"), sends(b"[" + body + b"]"))) as front:
        assert await front.ask(b"[" + call(1) + b"]") == body.replace(b"null", b"1")
        assert await front.ask(call(1)) == b"[" + body + b"]"
        assert await front.receive() == error(1, -32603, "the server gave no answer (HTTP 200)")


async def test_a_stateless_request_ends_no_session() -> None:
    async def server(answer: Answer) -> None:
        assert answer.request.header("mcp-session-id") is None
        await answer.send(status="404 Not Found", fields=())

    async with fronted(after_handshake(server)) as front:
        await front.shake_hands()
        answer = json.loads(await front.ask(stateless_call(1)))
        assert answer["error"]["code"] == -32601
        front.half_close()
        assert await front.running == 0


async def test_a_second_handshake_is_one() -> None:
    async with fronted(after_handshake(says("500 No"))) as front:
        await front.shake_hands()
        await front.ask(initialize())
        again = front.posted("initialize")[1]
        assert again.header("mcp-session-id") is None
        assert again.header("mcp-protocol-version") is None


async def test_a_broken_connection_is_an_error() -> None:
    async def breaks(answer: Answer) -> None:
        await answer.break_off()

    async with fronted(keys(breaks, sends(result(2, {})))) as front:
        answer = json.loads(await front.ask(call(1)))
        assert answer["id"] == 1
        assert "broke off" in answer["error"]["message"]
        assert await front.ask(call(2)) == result(2, {})


# Messages that are too long

LONG = {"text": "x" * 5000}
LAST = b'{"result":{"text":"' + b"x" * 5000 + b'"},"jsonrpc":"2.0","id":1}'
HIDDEN = b'{"result":{"text":"' + b"x" * 5000 + b'"},"id":1,"more":{"text":"' + b"x" * 5000 + b'"}}'


@pytest.mark.parametrize("body", [result(1, LONG), LAST, HIDDEN], ids=["first", "last", "hidden"])
@pytest.mark.parametrize("form", ["json", "events"])
async def test_an_answer_that_is_too_long_is_an_error(body: bytes, form: str) -> None:
    step = sends(body) if form == "json" else streams(event(body))
    async with fronted(keys(step, sends(result(2, {}))), max_message=2000) as front:
        answer = json.loads(await front.ask(call(1)))
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        assert "longer than the limit" in answer["error"]["message"]
        assert await front.ask(call(2)) == result(2, {})


async def test_an_event_that_is_too_long_and_no_answer_is_dropped_alone() -> None:
    long = notification("notifications/message", LONG)
    async with fronted(keys(streams(event(long), event(result(1, {})))), max_message=2000) as front:
        assert await front.ask(call(1)) == result(1, {})


# Cancellation in the handshake era


async def test_a_cancellation_is_posted_at_once_and_nobody_waits_any_more() -> None:
    cancel = notification("notifications/cancelled", {"requestId": 1})
    waiting: list[Answer] = []

    async def server(answer: Answer) -> None:
        if answer.request.body == cancel:
            await waiting[0].end()
            await answer.send(status="202 Accepted", fields=())
        elif answer.request.json()["id"] == 1:
            waiting.append(answer)
            await answer.stream(event(PROGRESS, id="a"), end=False)
        else:
            await answer.send(result(2, {}))

    async with fronted(after_handshake(server)) as front:
        await front.shake_hands()
        assert await front.ask(call(1)) == PROGRESS
        await front.send(cancel, call(2))
        assert await front.receive() == result(2, {})
        front.half_close()
        assert await front.rest() == []
        assert await front.running == 0
    assert front.posted("notifications/cancelled")[0].header("mcp-session-id") == "s-1"
    assert [one.method for one in front.seen].count("GET") == 1  # nothing was resumed
