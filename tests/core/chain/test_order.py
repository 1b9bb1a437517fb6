"""Which entries run, and in which order (protocol, Execution)."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import anyio
import pytest

from midspan_sdk import Chain, ChainExecutionResult, Interceptor, mutator, sink, validator
from midspan_sdk.testing import run
from midspan_sdk.wire import Direction, Phase

CALL: dict[str, Any] = {"name": "echo"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


def named(kind: Literal["validator", "mutator", "sink"], name: str, log: list[str], **options: Any) -> Any:
    decorate: Any = {"validator": validator, "mutator": mutator, "sink": sink}[kind]

    def handler() -> None:
        log.append(name)

    return decorate(events=["tools/call"], phase="both", name=name, **options)(handler)


def all_kinds(log: list[str]) -> list[Interceptor[..., Any]]:
    return [named("sink", "s", log), named("validator", "v", log), named("mutator", "m", log)]


@pytest.mark.parametrize(
    ("phase", "direction", "order"),
    [
        ("request", None, ["m", "v", "s"]),
        ("response", None, ["v", "s", "m"]),
        ("request", "sending", ["m", "v", "s"]),
        ("request", "receiving", ["v", "s", "m"]),
        ("response", "sending", ["m", "v", "s"]),
        ("response", "receiving", ["v", "s", "m"]),
    ],
)
def test_the_direction_decides_whether_mutators_or_validators_come_first(
    phase: Phase, direction: Direction | None, order: list[str]
) -> None:
    log: list[str] = []
    assert call(*all_kinds(log), phase=phase, direction=direction).status == "success"
    assert [one for one in log if one != "s"] == [one for one in order if one != "s"]
    assert "s" in log


def test_a_sent_message_is_validated_as_the_mutators_left_it() -> None:
    @mutator(events=["tools/call"], phase="request")
    def upper(payload: dict[str, Any]) -> dict[str, Any]:
        return {"name": payload["name"].upper()}

    @validator(events=["tools/call"], phase="request")
    def is_upper(payload: dict[str, Any]) -> bool:
        return payload["name"].isupper()

    assert call(is_upper, upper).status == "success"
    assert call(is_upper, upper, direction="receiving").status == "validation_failed"


def test_mutators_run_by_priority_each_on_the_output_of_the_one_before() -> None:
    def appending(letter: str, priority: int) -> Any:
        @mutator(events=["tools/call"], phase="request", name=letter, priority_hint=priority)
        def append(payload: dict[str, Any]) -> dict[str, Any]:
            return {"name": payload["name"] + letter}

        return append

    result = call(appending("c", 5), appending("a", -5), appending("b", 0), appending("d", 2**31 - 1))
    assert result.final_payload == {"name": "echoabcd"}
    assert [one.interceptor for one in result.results] == ["a", "b", "c", "d"]


def test_equal_priorities_go_by_the_code_points_of_the_names() -> None:
    names = ["\U0001f310", "\uffff", "é", "z", "a", "Z", "a.b", "a-b", "B10", "B9", "e\u0301"]
    log: list[str] = []
    call(*(named("mutator", name, log) for name in names))
    assert log == sorted(names, key=lambda name: [ord(character) for character in name])
    assert log[0] == "B10"


@pytest.mark.parametrize(
    ("hint", "request_priority", "response_priority"),
    [
        (0, 0, 0),
        (7, 7, 7),
        ({"request": 7}, 7, 0),
        ({"response": -7}, 0, -7),
        ({"request": 1, "response": 2}, 1, 2),
        ({}, 0, 0),
    ],
)
def test_a_priority_may_differ_by_phase_and_a_missing_side_is_zero(
    hint: Any, request_priority: int, response_priority: int
) -> None:
    chain = Chain()
    chain.add(named("mutator", "m", [], priority_hint=hint))
    (entry,) = chain.entries
    assert (entry.priority("request"), entry.priority("response")) == (request_priority, response_priority)


def test_the_priority_of_the_phase_orders_that_phase() -> None:
    log: list[str] = []
    first = named("mutator", "a", log, priority_hint={"response": 9})
    second = named("mutator", "b", log, priority_hint={"request": -1, "response": 8})
    call(first, second)
    call(first, second, phase="response")
    assert log == ["b", "a", "b", "a"]
    log.clear()
    call(first, second, overrides={"b": {"priority_hint": {"request": 5}}})
    call(first, second, phase="response", overrides={"b": {"priority_hint": {"request": 5}}})
    assert log == ["a", "b", "b", "a"]


def test_an_override_of_one_side_hides_the_other_declared_side() -> None:
    chain = Chain()
    chain.add(
        named("mutator", "m", [], priority_hint={"request": 1, "response": 2}),
        overrides={"m": {"priority_hint": {"request": 5}}},
    )
    (entry,) = chain.entries
    assert (entry.priority("request"), entry.priority("response")) == (5, 0)


def test_validators_keep_the_order_of_registration_whatever_finishes_first() -> None:
    log: list[str] = []
    started = anyio.Event()

    @validator(events=["tools/call"], phase="request", name="z-waits")
    async def waits() -> str:
        await started.wait()
        log.append("waits")
        return "first"

    @validator(events=["tools/call"], phase="request", name="a-sets")
    async def sets() -> str:
        await anyio.lowlevel.checkpoint()
        started.set()
        log.append("sets")
        return "second"

    @validator(events=["tools/call"], phase="request", name="m-inline")
    def inline() -> str:
        log.append("inline")
        return "third"

    result = call(waits, sets, inline)
    assert log[-1] == "waits"
    assert [one.interceptor for one in result.results] == ["z-waits", "a-sets", "m-inline"]
    assert result.aborted_at is not None
    assert (result.aborted_at.interceptor, result.aborted_at.reason) == ("z-waits", "first")


def test_results_stand_in_the_order_of_the_stages() -> None:
    entries = [named("validator", "v1", []), named("mutator", "m1", []), named("validator", "v2", [])]

    def order(result: ChainExecutionResult) -> list[str]:
        return [one.interceptor for one in result.results]

    assert order(call(*entries)) == ["m1", "v1", "v2"]
    assert order(call(*entries, phase="response")) == ["v1", "v2", "m1"]


def test_a_plan_lists_the_matching_entries_in_the_order_of_the_stages() -> None:
    chain = Chain()
    chain.add(*all_kinds([]))
    assert [entry.name for entry in chain.plan("tools/call", "request")] == ["m", "v", "s"]
    assert [entry.name for entry in chain.plan("tools/call", "response")] == ["v", "m", "s"]
    assert [entry.name for entry in chain.plan("tools/call", "response", "sending")] == ["m", "v", "s"]
    assert chain.plan("tools/list", "request") == ()


@pytest.mark.anyio
async def test_a_plan_is_made_anew_when_an_entry_is_added() -> None:
    log: list[str] = []
    chain = Chain()
    chain.add(named("mutator", "b", log))
    await chain.execute(event="tools/call", phase="request", payload=CALL)
    assert not chain.concerns("tools/list", "request")
    chain.add(named("mutator", "a", log))
    chain.add(validator(events=["tools/list"], phase="request", name="v")(lambda: None))
    await chain.execute(event="tools/call", phase="request", payload=CALL)
    assert log == ["b", "a", "b"]
    assert chain.concerns("tools/list", "request")


@pytest.mark.anyio
async def test_plans_are_bounded_although_a_peer_invents_events() -> None:
    log: list[str] = []
    chain = Chain()
    chain.add(validator(events=["acme/*"], phase="request", name="v")(lambda: log.append("v")))
    for n in range(5000):
        await chain.execute(event=f"acme/{n}", phase="request", payload={})
    assert len(log) == 5000
    assert len(chain._plans) <= 4096  # pyright: ignore[reportPrivateUsage]  # the bound has no public view


@pytest.mark.anyio
async def test_a_chain_knows_whether_a_message_may_have_to_wait() -> None:
    class Keeps:
        name = "keeps"
        durable = True

        async def observe(self, record: object) -> None: ...

    async def stepped(payload: dict[str, Any]) -> None: ...
    async def waits() -> None:
        await anyio.lowlevel.checkpoint()

    chain = Chain()
    chain.add(named("validator", "v", []), named("mutator", "m", []))
    chain.add(validator(events=["tools/call"], phase="request", name="stepped")(stepped))
    assert not chain.may_suspend("tools/call", "request")
    coroutine = chain.execute(event="tools/call", phase="request", payload=CALL)
    with pytest.raises(StopIteration):
        coroutine.send(None)
    chain.add(validator(events=["tools/call"], phase="response", name="waits")(waits))
    assert chain.may_suspend("tools/call", "response")
    assert not chain.may_suspend("tools/call", "request")
    chain.add(validator(events=["tools/list"], phase="request", name="thread", blocking=True)(lambda: None))
    assert chain.may_suspend("tools/list", "request")
    assert Chain(observers=[Keeps()]).may_suspend("anything", "request")
