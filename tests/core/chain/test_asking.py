"""Handlers ask the user: what they get, who waits, what stops, and what is recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest

from midspan_sdk import (
    Ask,
    AskError,
    Chain,
    ChainExecutionResult,
    DecisionRecord,
    DefinitionError,
    Interceptor,
    Question,
    Reply,
    State,
    deny,
    mutator,
    sink,
    validator,
)
from midspan_sdk.testing import chain_with, run

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "delete", "arguments": {"path": "/a"}}
FORM = {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}


class Keeping:
    """A durable observer."""

    name = "keeping"
    durable = True

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []

    async def observe(self, record: DecisionRecord) -> None:
        self.records.append(record)


class User:
    """A mount's asker that gives these replies, in order; None leaves a question open."""

    def __init__(self, *replies: Reply | Exception | None) -> None:
        self.asked: list[Question] = []
        self._replies = list(replies)

    async def __call__(self, question: Question, /) -> Reply | None:
        self.asked.append(question)
        await asyncio.sleep(0)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


ACCEPT, DECLINE, CANCEL = Reply(action="accept"), Reply(action="decline"), Reply(action="cancel")


@validator(events=["tools/call"], phase="request")
async def sure(payload: dict[str, Any], ask: Ask) -> str | None:
    return None if await ask(f"Run {payload['name']}?") else "the user said no"


async def execute(
    chain: Chain, user: Any = None, phase: Any = "request", payload: dict[str, Any] | None = None
) -> ChainExecutionResult:
    with anyio.fail_after(5):
        return await chain.execute(event="tools/call", phase=phase, payload=payload or dict(CALL), ask=user)


def chain_of(*interceptors: Interceptor[..., Any], **options: Any) -> Chain:
    chain = Chain(gives=("session", "store", "ask"), **options)
    chain.add(*interceptors)
    return chain


# What a handler gets


@pytest.mark.parametrize(("reply", "answer"), [(ACCEPT, {"confirmed": True}), (DECLINE, None), (CANCEL, None)])
async def test_a_plain_question_is_a_yes_or_nothing(reply: Reply, answer: Any) -> None:
    seen: list[Any] = []

    @validator(events=["*"], phase="request")
    async def asks(ask: Ask) -> None:
        seen.append(await ask("Sure?"))

    user = User(reply)
    assert (await execute(chain_of(asks), user)).status == "success"
    assert seen == [answer]
    assert user.asked == [Question(interceptor="asks", event="tools/call", phase="request", message="Sure?")]


async def test_an_answer_to_a_form_is_a_copy_of_what_was_filled_in() -> None:
    content: dict[str, Any] = {"why": "because", "tags": ["a"]}
    seen: list[Mapping[str, Any] | None] = []

    @mutator(events=["*"], phase="request")
    async def asks(payload: dict[str, Any], ask: Ask) -> dict[str, Any]:
        answer = await ask("Why?", schema=FORM)
        seen.append(answer)
        assert answer is not None
        answer["tags"].append("b")
        return {**payload, "_meta": {"why": answer["why"]}}

    user = User(Reply(action="accept", content=content))
    result = await execute(chain_of(asks), user)
    assert result.final_payload == {**CALL, "_meta": {"why": "because"}}
    assert content["tags"] == ["a"]
    assert user.asked[0].schema == FORM


async def test_an_accepted_form_without_content_is_an_empty_answer() -> None:
    seen: list[Any] = []

    @validator(events=["*"], phase="request")
    async def asks(ask: Ask) -> None:
        seen.append(await ask("Why?", schema={"type": "object", "properties": {}}))

    await execute(chain_of(asks), User(ACCEPT))
    assert seen == [{}]


@pytest.mark.parametrize(
    ("message", "schema", "raised"),
    [
        ("", None, "TypeError"),
        (5, None, "TypeError"),
        ("x" * 16385, None, "ValueError"),
        ("?", {"type": "string"}, "ValueError"),
        ("?", {"type": "object"}, "ValueError"),
        ("?", {"type": "object", "properties": {"a": {"type": "object"}}}, "ValueError"),
        ("?", {"type": "object", "properties": {"a": 1}}, "ValueError"),
        ("?", {"type": "object", "properties": {}, "x": object()}, None),
    ],
)
async def test_a_question_that_cannot_be_put_is_the_handlers_fault(message: Any, schema: Any, raised: str) -> None:
    @validator(events=["*"], phase="request")
    async def asks(ask: Ask) -> None:
        await ask(message, schema=schema)

    user = User()
    result = await execute(chain_of(asks), user)
    assert result.status == "validation_failed"
    assert result.aborted_at is not None
    expected = f"the validator raised {raised}" if raised else "the validator returned something that is not JSON"
    assert result.aborted_at.reason == expected
    assert user.asked == []


async def test_an_ask_that_is_kept_asks_nobody_later() -> None:
    kept: list[Ask] = []

    @validator(events=["*"], phase="request")
    async def keeps(ask: Ask) -> None:
        kept.append(ask)
        await asyncio.sleep(0)

    user = User()
    await execute(chain_of(keeps), user)
    with pytest.raises(RuntimeError, match="only while the handler runs"):
        await kept[0]("Still there?")
    assert user.asked == []


def test_a_sink_cannot_ask() -> None:
    async def asks(ask: Ask) -> None: ...

    with pytest.raises(DefinitionError, match="a sink runs when the message has left"):
        sink(events=["*"], phase="request")(asks)


# Deadlines


async def test_no_deadline_runs_while_the_user_thinks() -> None:
    thinking, done = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def user(question: Question, /) -> Reply:
        thinking.set()
        await done.wait()
        return ACCEPT

    async def later() -> None:
        await thinking.wait()
        # Longer than both deadlines, by the clock that they run by.
        loop.call_later(0.25, done.set)

    waiting = asyncio.create_task(later())
    chain = chain_of(
        validator(events=["*"], phase="request", timeout=0.1, name="slow")(sure.handler), sure, timeout=0.1
    )
    result = await execute(chain, user)
    await waiting
    assert result.status == "success", result.aborted_at


@pytest.mark.parametrize(("entry", "chain", "by"), [(0.05, 10.0, "asks"), (10.0, 0.05, "chain")])
async def test_deadlines_go_on_when_the_answer_is_there(entry: float, chain: float, by: str) -> None:
    @validator(events=["*"], phase="request", timeout=entry)
    async def asks(ask: Ask) -> None:
        await ask("Sure?")
        await asyncio.Event().wait()

    result = await execute(chain_of(asks, timeout=chain), User(ACCEPT))
    assert result.status == "timeout"
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == by


async def test_another_validators_own_deadline_runs_on() -> None:
    over = asyncio.Event()

    @validator(events=["*"], phase="request", timeout=0.05)
    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    async def user(question: Question, /) -> Reply:
        await over.wait()
        return ACCEPT

    result = await execute(chain_of(sure, hangs), user)
    assert result.status == "timeout"
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == "hangs"


# When nobody answers


@pytest.mark.parametrize(("fail_open", "status"), [(False, "validation_failed"), (True, "success")])
async def test_without_an_answer_the_policy_decides(
    fail_open: bool, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    chain = Chain(gives=("ask",))
    chain.add(sure, overrides={"sure": {"failOpen": fail_open}})
    with caplog.at_level(logging.WARNING, "midspan.chain"):
        result = await execute(chain, User(AskError("sure", "the client cannot ask its user")))
    assert result.status == status
    if not fail_open:
        assert result.aborted_at is not None
        assert result.aborted_at.reason == "the client cannot ask its user"
        assert result.aborted_at.type == "validation"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_handler_may_decide_by_itself_when_nobody_can_be_asked() -> None:
    @validator(events=["*"], phase="request")
    async def asks(ask: Ask) -> str | None:
        try:
            await ask("Sure?")
        except AskError as error:
            return f"not without a person: {error.reason}"
        return None

    result = await execute(chain_of(asks), User(AskError("asks", "nobody there")))
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "not without a person: nobody there"


async def test_a_mount_whose_way_breaks_fails_the_handler() -> None:
    result = await execute(chain_of(sure), User(OSError("secret")))
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "the question could not be put"


async def test_where_the_mount_gives_no_way_the_handler_fails() -> None:
    result = await execute(chain_of(sure))
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "needs something that this mount does not give"


async def test_in_audit_mode_nobody_is_asked() -> None:
    observer = Keeping()
    chain = Chain(gives=("ask",), observers=[observer])
    chain.add(sure, overrides={"sure": {"mode": "audit"}})
    user = User()
    assert (await execute(chain, user)).status == "success"
    assert user.asked == []
    ((entry,),) = (record.entries for record in observer.records)
    assert (entry.verdict, entry.asked) == ("failed", ("failed",))
    assert entry.reasons == ("would have asked the user; in audit mode nobody is asked",)


async def test_a_cancelled_execution_takes_its_question_back() -> None:
    put, back = asyncio.Event(), asyncio.Event()

    async def user(question: Question, /) -> Reply:
        put.set()
        try:
            await asyncio.Event().wait()
        finally:
            back.set()
        raise AssertionError

    chain = chain_of(sure)
    task = asyncio.create_task(execute(chain, user))
    with anyio.fail_after(5):
        await put.wait()
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()
    assert back.is_set()


# Questions whose answers come with another execution


def a_validator(body: Callable[[Ask], Any], name: str) -> Interceptor[..., Any]:
    @validator(events=["*"], phase="request", name=name)
    async def asks(ask: Ask) -> Any:
        return await body(ask)

    return asks


async def test_an_open_question_stops_the_execution_and_is_named() -> None:
    observer = Keeping()
    ran: list[str] = []

    @mutator(events=["*"], phase="request")
    def renames(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "x": 1}

    async with chain_of(renames, sure, observers=[observer]) as chain:
        result = await execute(chain, User(None))
    assert result.status == "validation_failed"
    assert result.final_payload is None
    assert [question.message for question in result.questions] == ["Run delete?"]
    assert result.aborted_at is not None
    assert (result.aborted_at.interceptor, result.aborted_at.type) == ("sure", "ask")
    (record,) = observer.records
    assert record.blocked
    assert (record.entries[1].verdict, record.entries[1].asked) == ("asked", ("open",))
    assert record.reason == "waits for the user's answer"
    assert ran == []


async def test_the_questions_of_all_validators_come_together() -> None:
    async def one(ask: Ask) -> None:
        await ask("One?")

    async def two(ask: Ask) -> None:
        await ask("Two?")

    result = await execute(chain_of(a_validator(one, "one"), a_validator(two, "two")), User(None, None))
    assert [question.message for question in result.questions] == ["One?", "Two?"]
    assert len({question.key for question in result.questions}) == 2


async def test_a_denial_beside_an_open_question_wins_and_nobody_is_asked() -> None:
    @validator(events=["*"], phase="request")
    def never() -> Any:
        return deny("never")

    result = await execute(chain_of(sure, never), User(None))
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "never"
    assert result.questions == ()


async def test_a_mutator_that_asks_stops_those_after_it() -> None:
    ran: list[str] = []

    @mutator(events=["*"], phase="request", priority_hint=1)
    async def asks(payload: dict[str, Any], ask: Ask) -> dict[str, Any] | None:
        return {**payload, "said": True} if await ask("Mark it?") else None

    @mutator(events=["*"], phase="request", priority_hint=2)
    def after() -> None:
        ran.append("after")

    chain = chain_of(asks, after)
    stopped = await execute(chain, User(None))
    assert (stopped.status, ran) == ("mutation_failed", [])
    again = await execute(chain, User(ACCEPT))
    assert again.final_payload == {**CALL, "said": True}
    assert (
        stopped.questions[0].key
        == Question(interceptor="asks", event="tools/call", phase="request", message="Mark it?").key
    )


async def swallows_all(ask: Ask) -> Any:
    try:
        await ask("Sure?")
    except BaseException:  # noqa: BLE001 - that is the case
        return None


async def raises_another(ask: Ask) -> Any:
    try:
        await ask("Sure?")
    finally:
        raise ValueError("in the way")


async def in_a_group(ask: Ask) -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(ask, "Sure?")


@pytest.mark.parametrize("body", [swallows_all, raises_another, in_a_group])
async def test_whatever_a_handler_makes_of_it_an_open_question_stays_open(body: Any) -> None:
    result = await execute(chain_of(a_validator(body, "it")), User(None))
    assert result.aborted_at is not None
    assert result.aborted_at.type == "ask"
    assert [question.message for question in result.questions] == ["Sure?"]


async def test_an_interceptor_that_fails_open_is_not_let_through_by_an_open_question() -> None:
    chain = Chain(gives=("ask",))
    chain.add(sure, overrides={"sure": {"failOpen": True}})
    assert (await execute(chain, User(None))).final_payload is None


async def test_the_same_question_again_is_another_one() -> None:
    async def twice(ask: Ask) -> None:
        await ask("Sure?")
        await ask("Sure?")

    user = User(ACCEPT, None)
    await execute(chain_of(a_validator(twice, "it")), user)
    assert [question.repetition for question in user.asked] == [0, 1]
    assert user.asked[0].key != user.asked[1].key


# Records


async def test_a_record_says_what_became_of_questions_and_never_what_they_were() -> None:
    async def thrice(ask: Ask) -> None:
        for _ in range(3):
            await ask("The secret question?", schema=FORM)

    observer = Keeping()
    chain = chain_of(a_validator(thrice, "it"), observers=[observer])
    answer = Reply(action="accept", content={"why": "the secret answer"})
    await execute(chain, User(answer, DECLINE, CANCEL))
    ((entry,),) = (record.entries for record in observer.records)
    assert entry.asked == ("accepted", "declined", "cancelled")
    assert entry.verdict == "allowed"
    assert "secret" not in repr(observer.records)


# The testing kit


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ({"Run delete?": True}, "success"),
        ({"Run delete?": False}, "validation_failed"),
        ({"Run delete?": None}, "validation_failed"),
        ({}, "validation_failed"),
    ],
)
def test_a_test_answers_in_the_place_of_the_user(answers: Mapping[str, Any], status: str) -> None:
    result = run(sure, event="tools/call", phase="request", payload=dict(CALL), answers=answers)
    assert result.status == status
    if not answers:
        assert result.aborted_at is not None
        assert result.aborted_at.reason == "the test has no answer to 'Run delete?'"


async def test_a_chain_of_a_plugin_takes_answers_too() -> None:
    from midspan_sdk import hookimpl

    asked: list[tuple[str, Any]] = []

    class Plugin:
        @hookimpl
        def midspan_interceptors(self) -> Sequence[Any]:
            async def counts(ask: Ask, state: State) -> Any:
                answer = await ask("Why?", schema=FORM)
                return None if answer == {"why": "x"} else "no"

            return [validator(events=["*"], phase="request")(counts)]

    def answer(message: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
        asked.append((message, schema))
        return {"why": "x"}

    async with chain_with(Plugin(), answers=answer) as chain:
        assert (await execute(chain)).status == "success"
    assert asked == [("Why?", FORM)]
