"""With interceptors every message in a body and in a stream is judged, and nothing else changes."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from typing import Any, cast

import anyio
import pytest

from midspan_sdk import DecisionRecord, Invocation, Observer, State, deny, mutator, validator

from .wire import (
    HANDSHAKE,
    JSON_HEADERS,
    Answer,
    Fields,
    call,
    events_of,
    guarded,
    notification,
    read_head,
    request,
    result,
    stateless,
    stateless_call,
)

pytestmark = pytest.mark.anyio

CALLS = "tools/call"


@validator(events=[CALLS], phase="request")
def no_rm(payload: dict[str, Any]) -> str | None:
    return "no rm" if payload["name"] == "rm" else None


@mutator(events=[CALLS], phase="response")
def upper(payload: dict[str, Any]) -> dict[str, Any] | None:
    changed = json.loads(json.dumps(payload).replace("secret", "SECRET"))
    return changed if changed != payload else None


@mutator(events=[CALLS], phase="request")
def plain_name(payload: dict[str, Any]) -> dict[str, Any] | None:
    return {**payload, "name": "echo"} if payload["name"] != "echo" else None


@mutator(events=["notifications/message"], phase="request")
def quiet(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "data": "***"}


@validator(events=["notifications/*"], phase="request")
def no_notes(payload: dict[str, Any]) -> str:
    return "no"


@validator(events=["sampling/createMessage"], phase="request")
def no_sampling(payload: dict[str, Any]) -> str:
    return "no sampling"


@validator(events=["*"], phase="both", errors=True)
def everything(payload: dict[str, Any]) -> None:
    return None


def answers(value: Any) -> Any:
    """Return a handler that answers every request with this result."""

    async def handler(answer: Answer) -> None:
        message = answer.request.json()
        if "id" in message:
            await answer.send(result(message["id"], value))
        else:
            await answer.send(status="202 Accepted", fields=[])

    return handler


# Requests and their answers


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_denied_request_is_answered_in_the_shape_of_its_era_and_never_forwarded(era: str) -> None:
    async with guarded(answers({}), no_rm) as link:
        if era == "handshake":
            response = await link.post(call(5, "rm"))
        else:
            response = await link.post(stateless_call(5, "rm"), stateless(CALLS, "rm"))
        assert (response.status, response.header("content-type")) == (200, "application/json")
        answer = response.json()
        assert (answer["id"], answer["result"]["isError"]) == (5, True)
        assert ("resultType" in answer["result"]) == (era == "stateless")
        assert link.seen == []
        assert (await link.post(call(5, "ls"))).json() == {"jsonrpc": "2.0", "id": 5, "result": {}}


async def test_a_denied_notification_is_accepted_and_dropped() -> None:
    async with guarded(answers({}), no_notes) as link:
        response = await link.post(notification("notifications/progress", {"progress": 1}))
        assert (response.status, response.body) == (202, b"")
        assert link.seen == []


async def test_what_no_interceptor_could_match_passes_byte_for_byte() -> None:
    body = (
        b'{"jsonrpc": "2.0", "id": 1, "method": "custom/x",\r\n "params": {"n": 1.0, "e": "\\ud83d", "a": 1, "a": 2}}'
    )
    reply = b'{ "id":1,"jsonrpc":"2.0","result":{"x":1e400, "y":"\\u0041"}}\n'

    async def handler(answer: Answer) -> None:
        await answer.send(reply)

    async with guarded(handler, no_rm, upper) as link:
        response = await link.post(body)
        assert link.seen[0].body == body
        assert response.body == reply


async def test_a_json_answer_is_judged_and_its_headers_stay() -> None:
    async def handler(answer: Answer) -> None:
        body = result(1, {"content": [{"type": "text", "text": "a secret"}]})
        await answer.send(
            body, fields=[("content-type", "application/json; charset=utf-8"), ("x-a", "1"), ("etag", "e")]
        )

    async with guarded(handler, upper) as link:
        response = await link.post(call(1))
        assert response.json()["result"]["content"][0]["text"] == "a SECRET"
        assert response.header("x-a") == "1"
        assert response.header("content-type") == "application/json; charset=utf-8"
        assert response.header("etag") is None  # it named another body


async def test_a_denied_answer_is_replaced_and_says_that_the_tool_ran() -> None:
    @validator(events=[CALLS], phase="response")
    def no_answer(payload: dict[str, Any]) -> str:
        return "no"

    async with guarded(answers({"content": []}), no_answer) as link:
        answer = (await link.post(call(1))).json()
        assert answer["result"]["_meta"]["midspan/verdict"]["ran"] is True


# Streams


async def test_events_are_judged_one_by_one_and_all_but_their_data_stays() -> None:
    note = notification("notifications/message", {"level": "info", "data": "secret"})
    split = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "secret"}}, indent=1).encode()
    chunks = [
        b": hello\r\n\r\n",
        b"id: 1\r\nretry: 5\r\ndata:\r\n\r\n",
        b"event: message\r\nid: 2\r\ndata: " + note + b"\r\n\r\n",
        b": between\r\nid: 3\r\n"
        + b"".join(b"data: " + line + b"\r\n" for line in split.split(b"\n"))
        + b"x: y\r\n\r\n",
    ]

    async def handler(answer: Answer) -> None:
        await answer.stream(*chunks, fields=[("mcp-session-id", "s"), ("cache-control", "no-cache")])

    async with guarded(handler, upper, quiet) as link:
        response = await link.post(call(1))
        assert response.header("mcp-session-id") == "s"
        assert response.header("cache-control") == "no-cache"
        assert response.body == (
            chunks[0]
            + chunks[1]
            + b"event: message\r\nid: 2\r\n"
            + b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"***"}}\r\n\r\n'
            + b": between\r\nid: 3\r\n"
            + b'data: {"jsonrpc":"2.0","id":1,"result":{"text":"SECRET"}}\r\nx: y\r\n\r\n'
        )


async def test_events_that_no_interceptor_could_match_pass_byte_for_byte() -> None:
    stream = b'data:{"jsonrpc": "2.0",\ndata:"method": "notifications/x", "params": {"n": 1.0}}\nid:7\n\n'
    stream += b"event: ping\ndata: now\n\n" + b'data: {"id": 1,  "jsonrpc":"2.0", "result":{}}\n\n'

    async def handler(answer: Answer) -> None:
        await answer.stream(*(stream[start : start + 1] for start in range(len(stream))))

    async with guarded(handler, no_rm) as link:
        assert (await link.post(request(1, "custom/x"))).body == stream


async def test_each_event_leaves_as_soon_as_it_is_complete() -> None:
    go_on = asyncio.Event()

    async def handler(answer: Answer) -> None:
        await answer.stream(b": c\n", end=False)
        await go_on.wait()
        await answer.write(b"data: " + result(1, {}) + b"\n\n")
        await answer.gone()

    async with guarded(handler, everything) as link:
        connection = await link.connect()
        await connection.start("POST", call(1))
        await read_head(connection.reader)
        assert await connection.reader.readuntil(b": c\n")
        go_on.set()
        assert await connection.reader.readuntil(b"\n\n")


async def test_a_dropped_event_keeps_its_id_for_whoever_resumes() -> None:
    async def handler(answer: Answer) -> None:
        note = notification("notifications/message", {"data": 1})
        await answer.stream(b"event: message\nid: 8\ndata: " + note + b"\n\n", b"data: " + note + b"\n\n")

    async with guarded(handler, no_notes) as link:
        response = await link.send("GET", fields=[("mcp-session-id", "s")])
        assert response.body == b"id: 8\n\n"


async def test_a_denied_request_of_the_server_is_answered_to_the_server_and_hidden_from_the_client() -> None:
    answered = asyncio.Event()

    async def handler(answer: Answer) -> None:
        if answer.request.method == "GET":
            await answer.stream(b"data: " + request(9, "sampling/createMessage") + b"\n\n", end=False)
            await answered.wait()
            await answer.end()
        else:
            await answer.send(status="202 Accepted", fields=[])
            answered.set()

    fields: Fields = [("mcp-session-id", "s"), ("authorization", "Bearer t"), ("mcp-protocol-version", "2025-11-25")]
    async with guarded(handler, no_sampling) as link:
        response = await link.send("GET", fields=fields)
        assert response.body == b""
        denial = link.seen[1]
        assert (denial.method, denial.json()["id"]) == ("POST", 9)
        assert denial.json()["error"]["code"] == -32602
        assert [(name, value) for name, value in denial.fields if (name, value) in fields] == [*fields]


async def test_an_answer_of_the_client_is_paired_with_the_request_of_the_server() -> None:
    @mutator(events=["roots/list"], phase="response")
    def no_roots(payload: dict[str, Any]) -> dict[str, Any]:
        return {"roots": []}

    answered = asyncio.Event()

    async def handler(answer: Answer) -> None:
        message = answer.request.json()
        if message.get("method") == CALLS:
            await answer.stream(b"data: " + request(1, "roots/list") + b"\n\n", end=False)
            await answered.wait()
            await answer.write(b"data: " + result(1, {"done": True}) + b"\n\n")
            await answer.end()
        elif "result" in message:
            await answer.send(status="202 Accepted", fields=[])
            answered.set()
        else:
            await answer.send(result(0, {}), fields=[("content-type", "application/json"), ("mcp-session-id", "s")])

    async with guarded(handler, no_roots) as link:
        await link.post(initialize(), JSON_HEADERS)
        connection = await link.connect()
        await connection.start("POST", call(1), [*HANDSHAKE, ("mcp-session-id", "s")])
        await read_head(connection.reader)
        assert b"roots/list" in (await events_of(connection, 1))[0]
        response = await link.post(result(1, {"roots": [{"uri": "file:///"}]}), session="s")
        assert response.status == 202
        assert link.seen[-1].json()["result"] == {"roots": []}
        assert b"done" in (await events_of(connection, 1))[0]


def initialize() -> bytes:
    """Return the first message of a session."""
    return request(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})


# Sessions


class Sessions:
    """A server that gives out sessions, and answers a call with what the call says."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, answer: Answer) -> None:
        message = answer.request.json()
        if message.get("method") == "initialize":
            self.count += 1
            fields = [("content-type", "application/json"), ("mcp-session-id", f"s{self.count}")]
            await answer.send(result(message["id"], {"protocolVersion": "2025-11-25"}), fields=fields)
        elif answer.request.method == "DELETE":
            await answer.send()
        elif answer.request.header("mcp-session-id") == "gone":
            await answer.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}', status="404 No")
        else:
            await answer.send(result(message["id"], {}))


@validator(events=[CALLS], phase="request")
def thrice(session_state: State, payload: dict[str, Any], invocation: Invocation) -> str | None:
    session_state["count"] = session_state.get("count", 0) + 1
    return "enough" if session_state["count"] > 2 else None


def is_denied(response: Any) -> bool:
    """Tell whether a call was denied."""
    return bool(response.json()["result"].get("isError"))


async def test_state_belongs_to_one_session_and_ends_with_it() -> None:
    async with guarded(Sessions(), thrice) as link:
        one, other = [(await link.post(initialize(), JSON_HEADERS)).header("mcp-session-id") for _ in range(2)]
        assert (one, other) == ("s1", "s2")
        assert [is_denied(await link.post(call(1), session=one)) for _ in range(3)] == [False, False, True]
        assert [is_denied(await link.post(call(1), session=other)) for _ in range(2)] == [False, False]
        assert (await link.send("DELETE", fields=[("mcp-session-id", "s1")])).status == 200
        assert not is_denied(await link.post(call(1), session=one))
        assert is_denied(await link.post(call(1), session=other))


async def test_requests_of_a_session_that_began_before_the_gateway_share_its_state() -> None:
    async with guarded(Sessions(), thrice) as link:
        said = [is_denied(await link.post(call(number), session="older")) for number in range(3)]
        assert said == [False, False, True]


async def test_carriage_returns_between_the_parts_of_a_message_are_white_space() -> None:
    body = call(1).replace(b", ", b",\r\n")
    async with guarded(answers({}), no_rm) as link:
        assert (await link.post(body)).json()["result"] == {}
        assert link.seen[0].json() == json.loads(body)


async def test_a_session_that_the_server_does_not_know_leaves_nothing_behind() -> None:
    async with guarded(Sessions(), thrice) as link:
        for number in range(5):
            response = await link.post(call(number), session="gone")
            assert response.status == 404


async def test_in_the_stateless_era_state_belongs_to_the_principal() -> None:
    def of(token: str) -> Fields:
        return [*stateless(CALLS, "echo"), ("authorization", f"Bearer {token}")]

    async with guarded(answers({}), thrice) as link:
        said = [is_denied(await link.post(stateless_call(1), of("a"))) for _ in range(3)]
        assert said == [False, False, True]
        assert not is_denied(await link.post(stateless_call(1), of("b")))


async def test_in_the_stateless_era_nobody_shares_state_with_the_unknown() -> None:
    async with guarded(answers({}), thrice) as link:
        # No principal, no session: what needs one fails, and it fails closed.
        assert (await link.post(stateless_call(1), stateless(CALLS, "echo"))).json()["result"]["isError"] is True
        assert link.seen == []


async def test_interceptors_learn_session_principal_server_and_version() -> None:
    seen: list[Any] = []

    @validator(events=[CALLS], phase="request")
    def looks(context: Any, payload: dict[str, Any]) -> None:
        seen.append(context)

    async with guarded(Sessions(), looks, name="guarded") as link:
        session = (await link.post(initialize(), JSON_HEADERS)).header("mcp-session-id")
        await link.post(call(1), session=session)
        await link.post(call(2), [*HANDSHAKE, ("authorization", "Bearer t")], session=session)
        await link.post(stateless_call(3), [*stateless(CALLS, "echo"), ("authorization", "Bearer t")])
        first, second, third = seen
        assert first.session_id == second.session_id != third.session_id
        assert "s1" not in first.session_id  # whoever has the session's id is in the session
        assert (first.server, first.protocol_version) == ("guarded", "2025-11-25")
        assert (first.principal.type, first.principal.id) == ("anonymous", None)
        assert third.principal.type == "user"
        assert third.principal.id == third.flow
        assert "Bearer" not in third.principal.id
        assert third.protocol_version == "2026-07-28"


async def test_sessions_with_the_same_ids_at_the_same_time_are_never_mixed() -> None:
    """Each answer is paired with its own request: the response phase sees the arguments of that request."""

    @mutator(events=[CALLS], phase="response")
    def asked(payload: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
        return {**payload, "asked": request["arguments"]["x"]}

    arrived = 0
    all_there = asyncio.Event()

    async def handler(answer: Answer) -> None:
        nonlocal arrived
        message = answer.request.json()
        if message["method"] == "initialize":
            fields = [("content-type", "application/json"), ("mcp-session-id", message["params"]["n"])]
            await answer.send(result(0, {}), fields=fields)
            return
        arrived += 1
        if arrived == 60:
            all_there.set()
        await all_there.wait()
        said = result(1, {"x": message["params"]["arguments"]["x"]})
        await (answer.send(said) if arrived % 2 else answer.stream(b"data: " + said + b"\n\n"))

    async with guarded(handler, asked) as link:

        async def one(number: int) -> None:
            session = f"s{number}"
            await link.post(request(0, "initialize", {"n": session}), JSON_HEADERS)
            fields = HANDSHAKE if number % 2 else [*stateless(CALLS, "echo")]
            body = call(1, arguments={"x": number}) if number % 2 else stateless_call(1, arguments={"x": number})
            response = await link.post(body, fields, session=session if number % 2 else None)
            answer = json.loads(response.body.decode().strip().removeprefix("data: "))
            assert answer["result"] == {"x": number, "asked": number}

        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(one, number)


# Resumption


async def test_an_answer_that_is_delivered_again_is_judged_again() -> None:
    async def handler(answer: Answer) -> None:
        if answer.request.method == "POST":
            await answer.stream(b"id: 1\ndata:\n\n", b"id: 2\ndata: " + result(1, {"text": "secret"}) + b"\n\n")
        else:
            assert answer.request.header("last-event-id") == "1"
            await answer.stream(b"id: 2\ndata: " + result(1, {"text": "secret"}) + b"\n\n")

    async with guarded(handler, upper) as link:
        first = await link.post(call(1), session="s")
        again = await link.send("GET", fields=[("mcp-session-id", "s"), ("last-event-id", "1")])
        assert first.body.endswith(again.body)
        assert b"SECRET" in again.body


async def test_a_request_can_be_answered_on_a_stream_opened_after_its_own_ended() -> None:
    async def handler(answer: Answer) -> None:
        if answer.request.method == "POST":
            await answer.stream(b"id: 1\nretry: 1\ndata:\n\n")
        else:
            await answer.stream(b"id: 2\ndata: " + result(1, {"text": "secret"}) + b"\n\n")

    async with guarded(handler, upper) as link:
        await link.post(call(1), session="s")
        resumed = await link.send("GET", fields=[("mcp-session-id", "s"), ("last-event-id", "1")])
        assert b"SECRET" in resumed.body


async def test_a_request_of_the_server_that_is_delivered_again_passes_again() -> None:
    asked = b"id: 3\ndata: " + request(4, "roots/list") + b"\n\n"

    async def handler(answer: Answer) -> None:
        await answer.stream(asked)

    async with guarded(handler, everything) as link:
        for _ in range(2):
            response = await link.send("GET", fields=[("mcp-session-id", "s")])
            assert json.loads(response.body.split(b"data: ")[1])["method"] == "roots/list"


async def test_another_request_cannot_take_the_id_of_one_that_is_open() -> None:
    go_on = asyncio.Event()

    async def handler(answer: Answer) -> None:
        await go_on.wait()
        await answer.send(result(answer.request.json()["id"], {}))

    async with guarded(handler, everything) as link:
        connection = await link.connect()
        go_on.set()
        await link.post(request(0, "ping"), session="s")
        go_on.clear()
        await connection.start("POST", call(1, "one"), [*HANDSHAKE, ("mcp-session-id", "s")])
        await link.seen.reach(2)
        refused = await link.post(call(1, "other"), session="s")
        assert refused.json()["error"]["code"] == -32600
        go_on.set()
        assert (await read_head(connection.reader)).status == 200


async def test_a_request_that_is_cancelled_while_it_is_judged_never_goes_on() -> None:
    judging = asyncio.Event()

    @validator(events=[CALLS], phase="request", timeout=5)
    async def slow(payload: dict[str, Any]) -> None:
        judging.set()
        await asyncio.Event().wait()

    async with guarded(answers({}), slow) as link:
        await link.post(request(0, "ping"), session="s")
        connection = await link.connect()
        await connection.start("POST", call(1), [*HANDSHAKE, ("mcp-session-id", "s")])
        await judging.wait()
        cancel = await link.post(notification("notifications/cancelled", {"requestId": 1}), session="s")
        assert cancel.status == 202
        response = await read_head(connection.reader)
        assert response.status == 200
        assert b"-32800" in await connection.reader.read(4096)
        assert len(link.seen) == 1


async def test_a_client_that_goes_while_its_request_is_judged_ends_the_judgement() -> None:
    judging, ended = asyncio.Event(), asyncio.Event()

    @validator(events=[CALLS], phase="request", timeout=5)
    async def slow(payload: dict[str, Any]) -> None:
        judging.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with guarded(answers({}), slow) as link:
        connection = await link.connect()
        await connection.start("POST", call(1))
        await judging.wait()
        await connection.close()
        await ended.wait()
        assert link.seen == []


# Strictness


def only(value: Any) -> Any:
    """Return the only message of a batch, or the message that is none."""
    if not isinstance(value, list):
        return value
    (message,) = cast("list[Any]", value)
    return message


@pytest.mark.parametrize(
    "body",
    [
        b"[" + call(1) + b"]",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping","params":{"name":"x"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","name":"y"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","n":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","n":1e999}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","n":' + b"1" * 5000 + b"}}",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","n":' + b"[" * 5000 + b"]" * 5000 + b"}}",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xff"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"r\rm"}}',
        b"\xef\xbb\xbf" + call(1),
        b'{"jsonrpc":"2.0",',
        b"",
    ],
    ids=[
        "batch",
        "two methods",
        "two names",
        "NaN",
        "overflow",
        "digits",
        "nesting",
        "not UTF-8",
        "a return in a string",
        "BOM",
        "torn",
        "empty",
    ],
)
async def test_json_that_cannot_be_judged_is_refused_and_the_connection_lives_on(body: bytes) -> None:
    async with guarded(answers({}), no_rm) as link:
        connection = await link.connect()
        response = await connection.post(body)
        error = only(response.json())["error"]
        assert error["code"] in (-32700, -32600)
        assert response.status in (200, 400)
        assert link.seen == []
        assert (await connection.post(call(2))).status == 200


@pytest.mark.parametrize(
    "fields",
    [
        [("content-type", "text/plain")],
        [("content-type", "application/json; charset=utf-16")],
        [("content-type", "application/json"), ("content-type", "application/x")],
        [("content-type", "application/json"), ("content-encoding", "gzip")],
        [],
    ],
    ids=["text", "charset", "two types", "gzip", "none"],
)
async def test_a_body_in_a_form_that_is_not_judged_is_refused(fields: Fields) -> None:
    async with guarded(answers({}), no_rm) as link:
        body = gzip.compress(call(1)) if ("content-encoding", "gzip") in fields else call(1)
        response = await link.send("POST", body, fields)
        assert (response.status, response.json()["error"]["code"]) == (415, -32600)
        assert link.seen == []


async def test_a_get_with_a_body_is_refused() -> None:
    async with guarded(answers({}), no_rm) as link:
        assert (await link.send("GET", call(1))).status == 400
        assert link.seen == []


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"\x1f\x8b", [("content-type", "application/json"), ("content-encoding", "gzip")]),
        (b"\x1f\x8b", [("content-type", "text/event-stream"), ("content-encoding", "gzip")]),
        (result(1, {}), [("content-type", "application/json-patch+json")]),
        (result(1, {}), [("content-type", "text/plain; application/json")]),
        (result(1, {}), [("content-type", "text/plain")]),
        (result(1, {}), []),
        (b"[" + result(1, {}) + b"]", [("content-type", "application/json")]),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"result":{"x":1}}', [("content-type", "application/json")]),
        (result(2, {}), [("content-type", "application/json")]),
        (b"not json", [("content-type", "application/json")]),
    ],
    ids=["gzip", "gzip stream", "like json", "says json", "text", "none", "batch", "two results", "other id", "torn"],
)
async def test_an_answer_that_cannot_be_judged_is_withheld(body: bytes, fields: Fields) -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(body, fields=fields)

    async with guarded(handler, everything) as link:
        response = await link.post(call(1))
        answer = only(response.json())
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        assert response.status in (200, 502)


async def test_an_event_beyond_the_limit_becomes_an_error_and_the_stream_goes_on() -> None:
    async def handler(answer: Answer) -> None:
        long = result(1, {"x": "y" * 100_000})
        note = b"data: " + notification("notifications/x") + b"\n\n"
        chunks = [b"id: 5\ndata: " + long[:50_000], long[50_000:] + b"\n\n", note]
        await answer.stream(*chunks)

    async with guarded(handler, everything, max_message=20_000) as link:
        response = await link.post(call(1))
        first, second, _ = response.body.split(b"\n\n")
        error = json.loads(first.split(b"data: ")[1])
        assert first.startswith(b"id: 5\n")
        assert (error["id"], error["error"]["code"]) == (1, -32603)
        assert b"notifications/x" in second


async def test_a_json_answer_beyond_the_limit_becomes_an_error() -> None:
    async with guarded(answers({"x": "y" * 100_000}), everything, max_message=20_000) as link:
        answer = (await link.post(call(1))).json()
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)


async def test_an_error_without_an_id_is_judged_as_the_answer_to_the_request_it_comes_with() -> None:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a secret"}}'

    async def handler(answer: Answer) -> None:
        await answer.send(body, status="400 Bad Request")

    @mutator(events=[CALLS], phase="response", errors=True)
    def hides(payload: dict[str, Any]) -> dict[str, Any] | None:
        error = payload.get("error")
        return {"error": {**error, "message": "hidden"}} if error else None

    async with guarded(handler, hides) as link:
        response = await link.post(call(1))
        assert response.status == 400
        assert response.json() == {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "hidden"}}
    async with guarded(handler, no_rm) as link:
        response = await link.post(call(1))
        assert (response.status, response.body) == (400, body)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"a secret page", "text/html"), (b'{"error":"invalid_token"}', "application/json")],
)
async def test_the_text_of_an_http_error_is_withheld_only_where_errors_are_read(body: bytes, content_type: str) -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(body, status="403 Forbidden", fields=[("content-type", content_type)])

    async with guarded(handler, no_rm) as link:
        response = await link.post(call(1))
        assert (response.status, response.body) == (403, body)
    async with guarded(handler, everything) as link:
        response = await link.post(call(1))
        assert (response.status, response.header("content-type")) == (403, "application/json")
        assert body not in response.body


async def test_observers_get_a_record_of_every_decision() -> None:
    records: list[DecisionRecord] = []

    class Notes(Observer):
        name = "notes"
        durable = True

        async def observe(self, record: DecisionRecord) -> None:
            records.append(record)

    async with guarded(answers({}), no_rm, observers=[Notes()]) as link:
        await link.post(call(1, "rm"))
        await link.post(call(2, "ls"))
    assert [(record.phase, record.blocked_by is not None) for record in records] == [
        ("request", True),
        ("request", False),
        ("response", False),
    ]


# Headers and body


async def test_headers_follow_a_body_that_was_changed() -> None:
    @mutator(events=[CALLS], phase="request")
    def west(payload: dict[str, Any]) -> dict[str, Any]:
        arguments = {**payload["arguments"], "region": "z\u00fcrich", "count": 3}
        del arguments["gone"]
        return {**payload, "arguments": arguments}

    arguments = {"region": "eu", "count": 2, "gone": True, "kept": "k"}
    sent: Fields = [
        *stateless(CALLS, "shell"),
        ("mcp-param-region", "eu"),
        ("mcp-param-count", "2"),
        ("mcp-param-gone", "true"),
        ("mcp-param-kept", "k"),
    ]
    async with guarded(answers({}), plain_name, west) as link:
        response = await link.post(stateless_call(1, "shell", arguments), sent)
        assert response.status == 200
        got = link.seen[0]
        assert got.json()["params"]["name"] == got.header("mcp-name") == "echo"
        assert got.header("mcp-method") == CALLS
        assert got.header("mcp-param-region") == "=?base64?esO8cmljaA==?="
        assert got.header("mcp-param-count") == "3"
        assert got.header("mcp-param-gone") is None
        assert got.header("mcp-param-kept") == "k"


async def test_a_change_that_leaves_a_header_uncertain_is_not_sent() -> None:
    @mutator(events=[CALLS], phase="request")
    def one(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "arguments": {"a": "x", "b": "y"}}

    async with guarded(answers({}), one) as link:
        fields = [*stateless(CALLS, "echo"), ("mcp-param-region", "x")]
        response = await link.post(stateless_call(1, "echo", {"a": "x", "b": "x"}), fields)
        assert response.json()["error"]["code"] == -32603
        assert link.seen == []


@pytest.mark.parametrize(
    "fields",
    [
        [("mcp-method", "ping"), ("mcp-name", "echo")],
        [("mcp-method", CALLS), ("mcp-name", "rm")],
        [("mcp-method", CALLS), ("mcp-name", "echo"), ("mcp-param-x", "2")],
        [("mcp-method", CALLS), ("mcp-method", CALLS), ("mcp-name", "echo")],
        [("mcp-method", CALLS), ("mcp-name", "=?base64?###?=")],
    ],
    ids=["method", "name", "param", "twice", "torn"],
)
async def test_headers_that_contradict_the_body_stop_the_request(fields: Fields) -> None:
    async with guarded(answers({}), everything) as link:
        sent = [*JSON_HEADERS, ("mcp-protocol-version", "2026-07-28"), *fields]
        response = await link.post(stateless_call(1, "echo", {"x": "1"}), sent)
        assert (response.status, response.json()["error"]["code"], response.json()["id"]) == (400, -32020, 1)
        assert link.seen == []


async def test_a_body_of_another_version_than_the_header_stops_the_request() -> None:
    async with guarded(answers({}), everything) as link:
        response = await link.post(stateless_call(1))
        assert (response.status, response.json()["error"]["code"]) == (400, -32600)
        assert link.seen == []


async def test_a_header_that_names_a_guarded_method_counts_when_the_body_names_another() -> None:
    async with guarded(answers({}), no_rm) as link:
        sent = [*HANDSHAKE, ("mcp-method", CALLS)]
        assert (await link.post(request(1, "ping"), sent)).status == 400
        assert (await link.post(request(1, "ping"), [*HANDSHAKE, ("mcp-method", "pong")])).status == 200


async def test_a_validator_can_deny_with_a_reason_over_http() -> None:
    @validator(events=["resources/read"], phase="request")
    def closed(payload: dict[str, Any]) -> Any:
        return deny("closed")

    async with guarded(answers({}), closed) as link:
        answer = (await link.post(request(1, "resources/read", {"uri": "file:///x"}))).json()
        assert answer["error"]["code"] == -32602
