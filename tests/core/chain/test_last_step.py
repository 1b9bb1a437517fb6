"""The mount's own last step: over what leaves, before the decision is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from midspan_sdk import AbortedAt, Chain, DecisionRecord, Exchange, mutator, sink, validator

pytestmark = pytest.mark.anyio

PAYLOAD: dict[str, Any] = {"content": [1]}
HELD_BACK = AbortedAt(interceptor="mount/rule", reason="it does not fit", type="mount")
ON_RESULTS: dict[str, Any] = {"event": "tools/call", "phase": "response", "payload": PAYLOAD}


@mutator(events=["tools/call"], phase="both", name="change")
def change(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "changed": True}


class Kept:
    """A durable observer."""

    name = "kept"
    durable = True

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []

    async def observe(self, record: DecisionRecord) -> None:
        self.records.append(record)


class Step:
    """A last step that keeps what it is given."""

    def __init__(self, verdict: Any) -> None:
        self.seen: list[tuple[Any, Any]] = []
        self._verdict = verdict

    def __call__(self, arrived: dict[str, Any], leaves: dict[str, Any]) -> Any:
        self.seen.append((arrived, leaves))
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


async def test_it_gets_what_arrived_and_what_leaves_and_may_leave_it_so() -> None:
    chain = Chain()
    step = Step(None)
    result = await chain.execute(**ON_RESULTS, finish=step)
    assert step.seen[0][0] is step.seen[0][1] is result.final_payload is PAYLOAD
    chain.add(change)
    result = await chain.execute(**ON_RESULTS, finish=step)
    assert step.seen[1] == (PAYLOAD, {**PAYLOAD, "changed": True})
    assert result.final_payload == {**PAYLOAD, "changed": True}


async def test_what_it_returns_leaves_and_is_recorded() -> None:
    kept = Kept()
    chain = Chain(observers=[kept])
    result = await chain.execute(**ON_RESULTS, finish=Step({"mine": 1}))
    assert (result.final_payload, result.modified, result.status) == ({"mine": 1}, True, "success")
    (record,) = kept.records
    assert (record.arrived(), record.leaves()) == (PAYLOAD, {"mine": 1})


async def test_a_changed_request_is_what_its_response_sees() -> None:
    exchange = Exchange()
    await Chain().execute(event="x", phase="request", payload={"a": 1}, exchange=exchange, finish=Step({"a": 2}))
    assert exchange.request == {"a": 2}


async def test_what_it_holds_back_is_one_record_that_says_so() -> None:
    kept = Kept()
    chain = Chain(observers=[kept])
    chain.add(change)
    result = await chain.execute(**ON_RESULTS, finish=Step(HELD_BACK))
    assert (result.status, result.final_payload, result.aborted_at) == ("mutation_failed", None, HELD_BACK)
    assert result.modified is False
    (record,) = kept.records
    assert (record.blocked_by, record.reason, record.leaves()) == ("mount/rule", "it does not fit", None)
    assert [(entry.verdict, entry.blocked) for entry in record.entries] == [("modified", False)]
    assert result.to_wire()["abortedAt"]["type"] == "mount"


async def test_what_is_held_back_reaches_no_late_sink() -> None:
    seen: list[Any] = []

    @sink(events=["tools/call"], phase="response")
    def keep(payload: dict[str, Any]) -> None:
        seen.append(payload)

    chain = Chain(late_sinks=True)
    chain.add(change, keep)
    async with chain:
        await chain.execute(**ON_RESULTS, finish=Step(HELD_BACK))
        await chain.execute(**ON_RESULTS, finish=Step({"mine": 1}))
    assert seen == [{"mine": 1}]


async def test_it_is_not_asked_about_what_is_blocked_already() -> None:
    @validator(events=["tools/call"], phase="response")
    def no(payload: dict[str, Any]) -> str:
        return "no"

    chain = Chain()
    chain.add(no)
    step = Step(None)
    assert (await chain.execute(**ON_RESULTS, finish=step)).status == "validation_failed"
    assert step.seen == []


async def test_when_it_fails_the_message_is_blocked_and_recorded(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    result = await Chain(observers=[kept]).execute(**ON_RESULTS, finish=Step(ValueError("s3cr3t")))
    assert (result.status, result.final_payload) == ("mutation_failed", None)
    assert kept.records[0].reason == "the gateway's own last check failed"
    assert "the mount's own last step failed" in caplog.text


def test_whether_a_chain_may_change_a_message() -> None:
    @mutator(events=["tools/list"], phase="response", mode="audit")
    def watches(payload: dict[str, Any]) -> None:
        return None

    @validator(events=["prompts/get"], phase="response")
    def looks(payload: dict[str, Any]) -> None:
        return None

    chain = Chain()
    assert not chain.may_change("tools/call", "response")
    chain.add(change, watches, looks)
    assert chain.may_change("tools/call", "response")
    assert chain.may_change("tools/call", "request", "sending")
    assert not chain.may_change("tools/call", "response", error=True)
    assert not chain.may_change("tools/list", "response")
    assert not chain.may_change("prompts/get", "response")
    assert not chain.may_change("ping", "request")
