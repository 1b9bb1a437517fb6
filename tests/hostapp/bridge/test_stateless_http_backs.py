"""A stdio client of 2026-07-28 in front of a streamable HTTP server: headers repeat what the body says."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from midspan_sdk import mutator
from tests.hostapp.http.wire import STATELESS_META, Answer, call, notification, request, result, stateless_call

from .stdio_front import after_handshake, error, event, fronted

pytestmark = pytest.mark.anyio


def stateless(message_id: object, method: str, **params: Any) -> bytes:
    return request(message_id, method, {**params, "_meta": STATELESS_META})


async def answers(answer: Answer) -> None:
    message = answer.request.json()
    if "id" in message:
        await answer.send(result(message["id"], {}))
    else:
        await answer.send(status="202 Accepted", fields=())


def stamps(answer: Any) -> dict[str, str]:
    """Return the headers that the protocol has."""
    return {name: text for name, text in answer.fields if name.startswith("mcp-")}


PROGRESS = notification("notifications/progress", {"progressToken": 1, "progress": 1})
NAME = "wetter-für-☂"
IN_BASE64 = "=?base64?" + base64.b64encode(NAME.encode()).decode() + "?="


@pytest.mark.parametrize(
    ("line", "method", "name"),
    [
        (stateless_call(1), "tools/call", "echo"),
        (stateless_call(1, NAME), "tools/call", IN_BASE64),
        (stateless(1, "prompts/get", name=" spaced"), "prompts/get", "=?base64?IHNwYWNlZA==?="),
        (stateless(1, "resources/read", uri="file:///x"), "resources/read", "file:///x"),
        (stateless(1, "tools/list"), "tools/list", None),
        (stateless(1, "acme/own", name="n"), "acme/own", None),
    ],
)
async def test_headers_repeat_the_body(line: bytes, method: str, name: str | None) -> None:
    async with fronted(answers, headers={"Authorization": "Bearer t"}) as front:
        assert await front.ask(line) == result(1, {})
    expected = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    assert stamps(front.seen[0]) == (expected if name is None else {**expected, "mcp-name": name})
    assert front.seen[0].header("authorization") == "Bearer t"
    assert front.seen[0].body == line


@mutator(events=["tools/call"], phase="request")
def renames(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "name": NAME}


async def test_the_header_is_of_the_body_that_leaves() -> None:
    async with fronted(answers, renames) as front:
        await front.ask(stateless_call(1, "echo"))
    assert front.seen[0].json()["params"]["name"] == NAME
    assert front.seen[0].header("mcp-name") == IN_BASE64


async def test_a_name_that_no_header_can_carry_is_refused() -> None:
    async with fronted(answers) as front:
        refused = await front.ask(stateless_call(1, "\ud800"))
        assert refused == error(1, -32603, "a header cannot carry a lone surrogate")
        await front.ask(stateless_call(2))
    assert len(front.seen) == 1


def listing(**tools: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "inputSchema": schema} for name, schema in tools.items()]}


REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


async def test_arguments_stand_in_headers_as_the_listings_that_came_say() -> None:
    listed = [listing(echo=REGION), listing(echo={"type": "object"})]

    async def server(answer: Answer) -> None:
        if answer.request.json()["method"] == "tools/list":
            await answer.stream(event(result(answer.request.json()["id"], listed.pop(0))))
        else:
            await answers(answer)

    arguments = {"region": "München", "other": 1}
    async with fronted(server) as front:
        for number in range(3):
            await front.ask(stateless_call(number, "echo", arguments))
            if listed:
                await front.ask(stateless(f"list {number}", "tools/list"))
    calls = front.posted("tools/call")
    assert [one.header("mcp-param-region") for one in calls] == [None, "=?base64?TcO8bmNoZW4=?=", None]


async def test_cancelling_closes_the_stream_and_posts_nothing() -> None:
    closed = asyncio.Event()

    async def server(answer: Answer) -> None:
        if answer.request.json()["id"] == 1:
            await answer.stream(event(PROGRESS, id="a"), end=False)
            await answer.gone()
            closed.set()
        else:
            await answers(answer)

    async with fronted(server) as front:
        assert await front.ask(stateless_call(1)) == PROGRESS
        await front.send(notification("notifications/cancelled", {"requestId": 1}))
        await closed.wait()
        await front.send(notification("notifications/cancelled", {"requestId": 1, "_meta": STATELESS_META}))
        assert await front.ask(stateless_call(2)) == result(2, {})
        front.half_close()
        assert await front.rest() == []
        assert await front.running == 0
    assert [one.json()["id"] for one in front.seen] == [1, 2]


async def test_the_requests_era_says_how_it_is_cancelled() -> None:
    """A client may ask in one era and go on in the other."""
    closed = asyncio.Event()

    async def server(answer: Answer) -> None:
        if answer.request.json().get("id") == 1:
            await answer.stream(event(PROGRESS), end=False)
            await answer.gone()
            closed.set()
        else:
            await answers(answer)

    async with fronted(after_handshake(server)) as front:
        await front.shake_hands()
        assert await front.ask(stateless_call(1)) == PROGRESS
        await front.send(notification("notifications/cancelled", {"requestId": 1}))
        await closed.wait()
    assert front.posted("notifications/cancelled") == []


async def test_a_notification_is_of_the_version_of_the_requests() -> None:
    async with fronted(answers) as front:
        await front.ask(stateless_call(1))
        await front.send(notification("acme/told"))
        await front.ask(stateless_call(2))
    assert stamps(front.seen[1]) == {"mcp-protocol-version": "2026-07-28", "mcp-method": "acme/told"}


async def test_what_names_no_version_and_has_no_session_has_no_headers() -> None:
    async with fronted(answers) as front:
        await front.send(notification("acme/told"))
        await front.ask(call(1))
    assert [stamps(one) for one in front.seen] == [{}, {}]


async def test_a_subscription_lasts_until_the_client_has_no_more_to_say() -> None:
    changed = notification("notifications/tools/list_changed")
    closed = asyncio.Event()

    async def server(answer: Answer) -> None:
        await answer.stream(event(changed), end=False)
        await answer.gone()
        closed.set()

    async with fronted(server) as front:
        assert await front.ask(stateless("listen", "subscriptions/listen")) == changed
        front.half_close()
        lines = await front.rest()
        assert [json.loads(line)["id"] for line in lines] == ["listen"]
        assert await front.running == 0
        await closed.wait()
