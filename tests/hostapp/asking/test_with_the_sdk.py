"""The SDK's client asks its user what a handler wants to know: over every way, in both eras."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from midspan.interception import Denials
from midspan_sdk import Answer, Ask, AskError, mutator, validator

from .users import ERAS, WAYS, Keeping, Tools, User, asking, text_of

pytestmark = [pytest.mark.anyio]
EVERYWHERE = [pytest.mark.parametrize("way", WAYS), pytest.mark.parametrize("era", ERAS)]
CALL = "tools/call"
FORM = {"type": "object", "properties": {"why": {"type": "string", "minLength": 3}}, "required": ["why"]}


def everywhere(test: Any) -> Any:
    for mark in EVERYWHERE:
        test = mark(test)
    return test


@validator(events=[CALL], phase="request")
async def sure(payload: dict[str, Any], ask: Ask) -> str | None:
    if payload["name"] != "delete":
        return None
    return None if await ask(f"Delete {payload['arguments']['path']}?") else "the user said no"


async def delete(client: Client, path: str = "/a") -> types.CallToolResult:
    return await client.call_tool("delete", {"path": path})


@everywhere
async def test_a_call_that_the_user_accepts_runs_once(way: str, era: str) -> None:
    tools, user, kept = Tools(), User(delete="accept"), Keeping()
    async with asking(way, era, tools, sure, user=user, observers=[kept]) as client:
        assert text_of(await delete(client)) == "deleted /a"
        assert text_of(await delete(client, "/b")) == "deleted /b"
    assert user.asked == ["Delete /a?", "Delete /b?"]
    assert user.schemas[0] == {"type": "object", "properties": {}}
    assert tools.ran == ["/a", "/b"]
    records = kept.of(CALL)[: 1 if era == "legacy" else 2]
    assert [record.entries[0].asked for record in records] == [("open",), ("accepted",)][-len(records) :]
    assert [record.entries[0].verdict for record in records] == ["asked", "allowed"][-len(records) :]


@everywhere
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_call_that_the_user_does_not_accept_never_reaches_the_server(way: str, era: str, action: str) -> None:
    tools, user, kept = Tools(), User(delete=action), Keeping()
    options = {"denials": Denials(detail="reason")}
    async with asking(way, era, tools, sure, user=user, observers=[kept], **options) as client:
        denied = await delete(client)
    assert denied.is_error
    assert "the user said no. The tool did not run" in text_of(denied)
    assert tools.ran == []
    assert kept.of(CALL)[-1].entries[0].asked == ("declined" if action == "decline" else "cancelled",)


@everywhere
async def test_a_client_that_cannot_ask_is_denied_with_that_reason(way: str, era: str) -> None:
    tools, kept = Tools(), Keeping()
    async with asking(way, era, tools, sure, observers=[kept]) as client:
        denied = await delete(client)
    assert denied.is_error
    assert "the client cannot ask its user. The tool did not run" in text_of(denied)
    assert tools.ran == []
    assert kept.of(CALL)[-1].entries[0].asked == ("failed",)


@everywhere
async def test_one_that_fails_open_is_let_through_when_nobody_can_be_asked(way: str, era: str) -> None:
    tools = Tools()
    async with asking(way, era, tools, sure, overrides={"sure": {"failOpen": True}}) as client:
        assert text_of(await delete(client)) == "deleted /a"


@everywhere
async def test_a_handler_asks_twice_and_gets_each_answer(way: str, era: str) -> None:
    tools, user = Tools(), User(first={"why": "one"}, second={"why": "two"})
    seen: list[Any] = []

    @mutator(events=[CALL], phase="request")
    async def asks(payload: dict[str, Any], ask: Ask) -> dict[str, Any]:
        answers = [await ask("First?", schema=FORM), await ask("Second?", schema=FORM)]
        seen.append(answers)
        return {**payload, "arguments": {"path": "-".join(str(answer and answer["why"]) for answer in answers)}}

    async with asking(way, era, tools, asks, user=user) as client:
        assert text_of(await delete(client)) == "deleted one-two"
    assert user.asked == ["First?", "Second?"]
    assert user.schemas == [FORM, FORM]
    assert seen == [[{"why": "one"}, {"why": "two"}]]
    assert tools.ran == ["one-two"]


@everywhere
async def test_two_validators_ask_at_once(way: str, era: str) -> None:
    both = asyncio.Event()
    count = 0

    async def together() -> str:
        nonlocal count
        count += 1
        if count == 2:
            both.set()
        await both.wait()
        return "accept"

    @validator(events=[CALL], phase="request")
    async def one(ask: Ask) -> str | None:
        return None if await ask("One?") else "no"

    @validator(events=[CALL], phase="request")
    async def two(ask: Ask) -> str | None:
        return None if await ask("Two?") else "no"

    tools, user, kept = Tools(), User(one=together, two=together), Keeping()
    async with asking(way, era, tools, one, two, user=user, observers=[kept]) as client:
        assert text_of(await delete(client)) == "deleted /a"
    assert sorted(user.asked) == ["One?", "Two?"]
    assert len(kept.of(CALL)) == (1 if era == "legacy" else 2)


@everywhere
@pytest.mark.parametrize("answer", [{"why": "x"}, {}, {"else": "abc"}], ids=["too short", "nothing", "something else"])
async def test_an_answer_that_does_not_fit_is_none(way: str, era: str, answer: Any) -> None:
    @validator(events=[CALL], phase="request")
    async def asks(ask: Ask) -> None:
        await ask("Why?", schema=FORM)

    tools, user = Tools(), User(why=answer)
    async with asking(way, era, tools, asks, user=user) as client:
        denied = await delete(client)
    assert "the answer does not fit the question's schema" in text_of(denied)
    assert tools.ran == []


@everywhere
async def test_a_mutator_asks_and_answers_in_the_place_of_the_server(way: str, era: str) -> None:
    @mutator(events=[CALL], phase="request")
    async def answers(ask: Ask) -> Answer:
        yes = await ask("Pretend?")
        text = f"pretended: {yes is not None}"
        return Answer({"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}})

    @validator(events=[CALL], phase="response")
    async def sees(ask: Ask) -> str | None:
        return None if await ask("Show it?") else "not shown"

    tools, user = Tools(), User(pretend="accept", show="accept")
    async with asking(way, era, tools, answers, sees, user=user) as client:
        assert text_of(await delete(client)) == "pretended: True"
    assert user.asked == ["Pretend?", "Show it?"]
    assert tools.ran == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("action", "text"), [("accept", "deleted /a"), ("decline", "Do not retry")])
async def test_after_a_handshake_a_result_is_held_until_the_user_has_answered(way: str, action: str, text: str) -> None:
    @validator(events=[CALL], phase="response")
    async def show(ask: Ask) -> str | None:
        return None if await ask("Show?") else "not to be seen"

    tools, user = Tools(), User(show=action)
    async with asking(way, "legacy", tools, show, user=user) as client:
        assert text in text_of(await delete(client))
    assert tools.ran == ["/a"]


@pytest.mark.parametrize("way", WAYS)
async def test_without_sessions_nobody_is_asked_about_a_result(way: str) -> None:
    @validator(events=[CALL], phase="response")
    async def show(ask: Ask) -> str | None:
        return None if await ask("Show?") else "not to be seen"

    tools, user = Tools(), User(show="accept")
    async with asking(way, "auto", tools, show, user=user) as client:
        denied = await delete(client)
    assert "the server has answered" in text_of(denied)
    assert "Do not retry" in text_of(denied)
    assert tools.ran == ["/a"]
    assert user.asked == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_s_questions_and_the_gateway_s_are_asked_in_the_same_call(way: str) -> None:
    """The server seals its state and refuses it when a byte has changed."""

    @validator(events=[CALL], phase="request")
    async def first(ask: Ask) -> str | None:
        return None if await ask("May it ask?") else "no"

    tools, user = Tools(), User(may="accept", your={"value": "x"})
    async with asking(way, "auto", tools, first, user=user) as client:
        assert text_of(await client.call_tool("survey", {})) == "name x, age x"
    assert user.asked == ["May it ask?", "Your name?", "Your age?"]
    assert tools.ran == ["survey None", "survey asked the name", "survey name x"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_about_a_server_s_answer_keeps_what_the_client_said_to_the_server(way: str) -> None:
    @validator(events=[CALL], phase="request")
    async def looks(payload: dict[str, Any], ask: Ask) -> str | None:
        for key in payload.get("inputResponses", {}):
            if not await ask(f"Tell the {key}?"):
                return "not told"
        return None

    tools, user = Tools(), User(tell="accept", your={"value": "x"})
    async with asking(way, "auto", tools, looks, user=user) as client:
        assert text_of(await client.call_tool("survey", {})) == "name x, age x"
    assert user.asked == ["Your name?", "Tell the name?", "Your age?", "Tell the age?"]
    assert tools.ran == ["survey None", "survey asked the name", "survey name x"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_user_who_does_not_answer_in_time_is_asked_no_more(way: str) -> None:
    taken_back = asyncio.Event()

    async def never() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.set()
        raise AssertionError

    tools, user = Tools(), User(delete=never)
    async with asking(way, "legacy", tools, sure, user=user, ask_timeout=0.2) as client:
        denied = await delete(client)
        assert "the user did not answer within 0.2 s. The tool did not run" in text_of(denied)
        await taken_back.wait()
    assert tools.ran == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_whose_user_interface_fails_gets_a_denial(way: str) -> None:
    tools, user = Tools(), User(delete=types.ErrorData(code=-32603, message="no screen"))
    async with asking(way, "legacy", tools, sure, user=user) as client:
        assert "the client could not ask its user" in text_of(await delete(client))
    assert tools.ran == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_that_is_cancelled_takes_its_question_back(way: str) -> None:
    asked, taken_back = asyncio.Event(), asyncio.Event()

    async def never() -> str:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.set()
        raise AssertionError

    tools, user = Tools(), User(delete=never)
    async with asking(way, "legacy", tools, sure, user=user) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(delete, client)
            await asked.wait()
            group.cancel_scope.cancel()
        await taken_back.wait()
        assert (await client.list_tools()).tools
    assert tools.ran == []


@everywhere
async def test_about_a_listing_a_user_is_asked_where_the_era_allows_it(way: str, era: str) -> None:
    seen: list[str] = []

    @validator(events=["tools/list"], phase="request")
    async def lists(ask: Ask) -> None:
        try:
            seen.append(str(await ask("List?")))
        except AskError as error:
            seen.append(error.reason)

    tools, user = Tools(), User(list="accept")
    async with asking(way, era, tools, lists, user=user) as client:
        assert (await client.list_tools()).tools
    told = "in this revision nobody can be asked about tools/list"
    assert seen[0] == ("{'confirmed': True}" if era == "legacy" else told)
