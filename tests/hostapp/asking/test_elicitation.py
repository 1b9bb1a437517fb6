"""Questions of the handshake revisions, message by message: whose they are, and when they end."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from midspan_sdk import Ask, AskError, Interceptor, validator
from tests.hostapp.http.wire import HANDSHAKE, Answer, events_of, read_head
from tests.hostapp.http.wire import Link as HTTPLink
from tests.hostapp.http.wire import guarded as guarded_http
from tests.hostapp.relay.harness import Link, guarded, notification, request, result, send

pytestmark = pytest.mark.anyio

CALL = "tools/call"
FORMS: dict[str, Any] = {"elicitation": {}}


@validator(events=[CALL], phase="request")
async def sure(ask: Ask) -> str | None:
    return None if await ask("Sure?") else "the user said no"


def initialize(capabilities: Any) -> bytes:
    return request("init", "initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities})


@asynccontextmanager
async def begun(
    log: Path, *interceptors: Interceptor[..., Any], capabilities: Any = FORMS, **options: Any
) -> AsyncGenerator[Link]:
    async with guarded(log, *(interceptors or (sure,)), **options) as link:
        await link.send(initialize(capabilities))
        await link.read()
        yield link


async def asked(link: Link, message_id: object = 1, name: str = "go", *steps: Any) -> dict[str, Any]:
    """Call; return the gateway's question."""
    await link.send(request(message_id, CALL, {"name": name}, *steps))
    question = await link.read()
    assert question["method"] == "elicitation/create"
    return question


def accept(question: dict[str, Any]) -> bytes:
    return result(question["id"], {"action": "accept", "content": {}})


def text_of(answer: dict[str, Any]) -> str:
    assert answer["result"]["isError"]
    return answer["result"]["content"][0]["text"]


async def test_the_question_and_its_answer_stay_between_client_and_gateway(log: Path) -> None:
    async with begun(log) as link:
        question = await asked(link)
        form: dict[str, Any] = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
        assert question == {"jsonrpc": "2.0", "id": question["id"], "method": "elicitation/create", "params": form}
        again = await asked(link, 2)
        assert question["id"] != again["id"]
        assert len(question["id"]) > 32
        await link.send(accept(again))
        assert await link.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        await link.send(accept(question))
        assert await link.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert [message["id"] for message in link.seen_messages()] == ["init", 2, 1]


async def test_interceptors_of_elicitation_do_not_see_it(log: Path) -> None:
    seen: list[str] = []

    @validator(events=["elicitation/create"], phase="both")
    def looks(phase: str) -> None:
        seen.append(phase)

    async with begun(log, sure, looks) as link:
        await link.send(accept(await asked(link)))
        assert (await link.read())["id"] == 1
    assert seen == []


async def test_a_server_cannot_answer_in_the_place_of_the_user(log: Path) -> None:
    async with begun(log) as link:
        question = await asked(link)
        line = send(accept(question))
        await link.send(request(2, "ping", None, line, send(result(2, {}))))
        assert await link.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}
        await link.send(result(question["id"], {"action": "decline"}))
        assert "Blocked by sure. The tool did not run" in text_of(await link.read())


async def test_a_server_s_own_questions_pass_beside_it(log: Path) -> None:
    async with begun(log) as link:
        question = await asked(link)
        own = request("midspan-1", "elicitation/create", {"message": "mine"})
        assert await link.call(2, "go", None, send(own), ("read", 1), send(result(2, {}))) == json.loads(own)
        await link.send(accept({"id": "midspan-1"}))
        assert (await link.read())["id"] == 2
        await link.send(accept(question))
        assert (await link.read())["id"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        '{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","action":"accept"}}',
        '{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"},"result":{}}',
        '{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":NaN}}',
        '{"jsonrpc":"2.0","id":%s,"result":{"action":"maybe"}}',
        '{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":[]}}',
        '{"jsonrpc":"2.0","id":%s,"result":null}',
    ],
)
async def test_an_answer_that_cannot_be_read_denies(log: Path, answer: str) -> None:
    async with begun(log) as link:
        question = await asked(link)
        await link.send(answer % json.dumps(question["id"]))
        replies = [await link.read()]
        if "error" in replies[0]:  # a refusal that a sender of requests would want too
            replies.append(await link.read())
        assert "the client's answer cannot be read" in text_of(replies[-1])
        assert [message["id"] for message in link.seen_messages()] == ["init"]


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}, {"elicitation": None}, None, []])
async def test_a_client_that_takes_no_forms_is_not_asked(log: Path, capabilities: Any) -> None:
    async with begun(log, capabilities=capabilities) as link:
        assert "the client cannot ask its user" in text_of(await link.call(1, CALL, {"name": "go"}))


async def test_before_the_handshake_nobody_is_asked(log: Path) -> None:
    async with guarded(log, sure) as link:
        assert "the client cannot ask its user" in text_of(await link.call(1, CALL, {"name": "go"}))


async def test_about_the_handshake_itself_nobody_is_asked(log: Path) -> None:
    reasons: list[str] = []

    @validator(events=["initialize"], phase="both")
    async def asks(ask: Ask) -> None:
        try:
            await ask("Begin?")
        except AskError as error:
            reasons.append(error.reason)

    async with begun(log, asks):
        pass
    assert reasons == ["nobody can be asked before the session has begun"] * 2


async def test_about_a_notification_nobody_is_asked(log: Path) -> None:
    reasons: list[str] = []

    @validator(events=["notifications/custom"], phase="request")
    async def asks(ask: Ask) -> None:
        try:
            await ask("Tell?")
        except AskError as error:
            reasons.append(error.reason)

    async with begun(log, asks) as link:
        await link.send(notification("notifications/custom"))
        await link.works()
    assert reasons == ["nobody can be asked about a notification: its sender does not wait"]


async def test_a_user_is_asked_about_what_the_server_wants_of_the_client(log: Path) -> None:
    @validator(events=["sampling/createMessage"], phase="both")
    async def asks(ask: Ask, phase: str) -> str | None:
        return None if await ask(f"Let it {phase}?") else "no"

    own = request("s", "sampling/createMessage", {})
    async with begun(log, asks) as link:
        question = await link.call(1, "go", None, send(own), ("read", 1), send(result(1, {"done": True})))
        assert question["params"]["message"] == "Let it request?"
        await link.send(accept(question))
        assert await link.read() == json.loads(own)
        await link.send(result("s", {"text": "x"}))
        question = await link.read()
        assert question["params"]["message"] == "Let it response?"
        await link.send(accept(question))
        assert (await link.read())["result"] == {"done": True}


async def test_a_client_that_hangs_up_leaves_no_question_behind(log: Path) -> None:
    async with begun(log) as link:
        await asked(link)
        link.hang_up(both=False)
        assert "the client is gone" in text_of(await link.read())


async def test_too_many_questions_are_not_put(log: Path) -> None:
    async with begun(log) as link:
        questions = [await asked(link, number) for number in range(16)]
        told = text_of(await link.call("one more", CALL, {"name": "go"}))
        assert "too many questions are with the user already" in told
        await link.send(accept(questions[0]))
        assert (await link.read())["id"] == 0
        await asked(link, "again")


async def test_messages_that_wait_for_the_user_keep_no_others_from_being_read(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midspan.relay._relay.MAX_JUDGED_AT_ONCE", 1)
    async with begun(log) as link:
        one, two = await asked(link, 1), await asked(link, 2)
        await link.send(accept(one))
        assert (await link.read())["id"] == 1
        await link.send(accept(two))
        assert (await link.read())["id"] == 2


async def test_a_cancelled_result_takes_its_question_back(log: Path) -> None:
    @validator(events=[CALL], phase="response")
    async def show(ask: Ask) -> str | None:
        return None if await ask("Show?") else "no"

    async with begun(log, show) as link:
        question = await asked(link)
        await link.send(notification("notifications/cancelled", {"requestId": 1}))
        taken_back = await link.read()
        assert taken_back["method"] == "notifications/cancelled"
        assert taken_back["params"]["requestId"] == question["id"]
        await link.send(accept(question))  # too late, and for nobody
        assert "the request was cancelled" in text_of(await link.read())
        await link.works()
        cancelled = [message for message in link.seen_messages() if message["method"] == "notifications/cancelled"]
        assert [message["params"] for message in cancelled] == [{"requestId": 1}]


async def test_a_cancelled_request_takes_its_question_back_and_never_goes_on(log: Path) -> None:
    async with begun(log) as link:
        question = await asked(link)
        await link.send(notification("notifications/cancelled", {"requestId": 1}))
        taken_back = await link.read()
        assert taken_back["params"]["requestId"] == question["id"]
        await link.works()
        assert [message["method"] for message in link.seen_messages()] == ["initialize", "ping"]


# Over HTTP, where the response to the request becomes a stream


async def over_http(link: HTTPLink, *, accepts: str = "application/json, text/event-stream") -> Any:
    """Begin a session and call; return the connection on which the call waits."""
    body = initialize(FORMS)
    assert (await link.post(body)).status == 200
    connection = await link.connect()
    fields = [field for field in HANDSHAKE if field[0] != "accept"]
    call = request(1, CALL, {"name": "go"})
    await connection.start("POST", call, [*fields, ("accept", accepts), ("mcp-session-id", "s")])
    return connection


async def question_on(connection: Any) -> dict[str, Any]:
    head = await read_head(connection.reader)
    assert (head.status, head.header("content-type")) == (200, "text/event-stream")
    return await message_on(connection)


async def message_on(connection: Any) -> dict[str, Any]:
    (event,) = await events_of(connection, 1)
    return json.loads(event.split(b"data: ", 1)[1])


def server(*, status: str = "200 OK", body: bytes | None = None, kind: str = "application/json", breaks: bool = False):
    async def handler(answer: Answer) -> None:
        asked = answer.request.json()
        if asked.get("method") == "initialize":
            made = result(asked["id"], {"protocolVersion": "2025-11-25"})
            await answer.send(made, fields=[("content-type", "application/json"), ("mcp-session-id", "s")])
        elif breaks:
            await answer.break_off()
        else:
            sent = body if body is not None else result(asked["id"], {"done": True})
            await answer.send(sent, status=status, fields=[("content-type", kind)])

    return handler


async def test_over_http_an_answer_in_one_piece_ends_the_stream_of_the_question() -> None:
    async with guarded_http(server(), sure) as link:
        connection = await over_http(link)
        question = await question_on(connection)
        assert [message.json()["method"] for message in link.seen] == ["initialize"]
        taken = await link.post(accept(question), session="s")
        assert (taken.status, taken.body) == (202, b"")
        assert await message_on(connection) == {"jsonrpc": "2.0", "id": 1, "result": {"done": True}}
        assert [message.json()["method"] for message in link.seen] == ["initialize", CALL]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"status": "401 Unauthorized", "body": b""}, "HTTP status 401"),
        ({"status": "404 Not Found", "body": b'{"error":"x"}'}, "HTTP status 404"),
        ({"status": "500 Oh", "body": b"<html>", "kind": "text/html"}, "HTTP status 500"),
        ({"kind": "text/html", "body": b"<html>"}, "cannot be judged"),
        ({"breaks": True}, "midspan: "),
    ],
)
async def test_over_http_what_is_no_answer_becomes_an_error_on_that_stream(options: Any, text: str) -> None:
    async with guarded_http(server(**options), sure) as link:
        connection = await over_http(link)
        await link.post(accept(await question_on(connection)), session="s")
        failed = await message_on(connection)
        assert failed["id"] == 1
        assert text in failed["error"]["message"]


async def test_over_http_a_denial_ends_that_stream_too() -> None:
    async with guarded_http(server(), sure) as link:
        connection = await over_http(link)
        question = await question_on(connection)
        await link.post(result(question["id"], {"action": "cancel"}), session="s")
        assert "The tool did not run" in text_of(await message_on(connection))
        assert [message.json()["method"] for message in link.seen] == ["initialize"]


async def test_over_http_another_session_cannot_answer() -> None:
    async with guarded_http(server(), sure) as link:
        connection = await over_http(link)
        question = await question_on(connection)
        await link.post(accept(question), session="another")
        await link.post(result(question["id"], {"action": "decline"}), session="s")
        assert "The tool did not run" in text_of(await message_on(connection))


async def test_over_http_a_client_without_streams_is_not_asked() -> None:
    async with guarded_http(server(), sure) as link:
        connection = await over_http(link, accepts="application/json")
        head = await read_head(connection.reader)
        assert head.header("content-type") == "application/json"
        body = json.loads(await connection.reader.readexactly(int(head.header("content-length") or 0)))
        assert "the client cannot be reached" in text_of(body)
