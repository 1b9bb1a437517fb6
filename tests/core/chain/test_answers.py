"""A request-phase mutator may answer in place of the other side."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from midspan_sdk import Answer, Chain, Exchange, FailedResult, MutationResult, deny, mutator, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo"}
ANSWER: dict[str, Any] = {"content": [{"type": "text", "text": "from the cache"}]}

call = partial(run, event="tools/call", phase="request", payload=CALL)


@mutator(events=["tools/call"], phase="both")
def answers() -> Answer:
    return Answer(ANSWER)


def logging(kind: Any, name: str, log: list[Any], **options: Any) -> Any:
    def handler(payload: dict[str, Any]) -> None:
        log.append((name, payload))

    return kind(events=["tools/call"], phase="both", name=name, **options)(handler)


def test_the_remaining_mutators_are_skipped_and_validators_still_run() -> None:
    log: list[Any] = []
    before = mutator(events=["tools/call"], phase="both", name="before", priority_hint=-1)(lambda: {"name": "new"})
    result = call(before, answers, logging(mutator, "after", log, priority_hint=1), logging(validator, "v", log))
    assert log == [("v", {"name": "new"})]
    assert result.status == "success"
    assert (result.answer, result.answered_by) == (ANSWER, "answers")
    assert result.final_payload == {"name": "new"}
    assert [one.interceptor for one in result.results] == ["before", "answers", "v"]


def test_a_denied_request_is_not_answered() -> None:
    denies = validator(events=["tools/call"], phase="both", name="denies")(lambda: deny("no"))
    result = call(answers, denies)
    assert result.status == "validation_failed"
    assert (result.answer, result.answered_by) == (None, None)


def test_in_the_receiving_order_validators_have_already_allowed() -> None:
    log: list[Any] = []
    denies = validator(events=["tools/call"], phase="both", name="denies")(lambda: deny("no"))
    allowed = call(answers, logging(validator, "v", log), direction="receiving")
    assert allowed.answer == ANSWER
    assert log == [("v", CALL)]
    assert call(answers, denies, direction="receiving").answer is None


def test_an_audit_mutator_s_answer_is_only_recorded() -> None:
    log: list[Any] = []
    after = logging(mutator, "after", log, priority_hint=1)
    result = call(answers, after, overrides={"answers": {"mode": "audit"}})
    assert (result.answer, result.answered_by) == (None, None)
    assert log == [("after", CALL)]
    recorded = result.results[0]
    assert isinstance(recorded, MutationResult)
    assert recorded.answer == ANSWER
    assert recorded.to_wire()["answer"] == ANSWER


def test_the_first_mutator_that_answers_wins() -> None:
    other = mutator(events=["tools/call"], phase="both", name="a-other")(lambda: Answer({"other": 1}))
    result = call(answers, other)
    assert (result.answer, result.answered_by) == ({"other": 1}, "a-other")
    assert len(result.results) == 1


@pytest.mark.parametrize("fail_open", [False, True])
def test_an_answer_in_the_response_phase_is_a_failure(fail_open: bool) -> None:
    result = call(answers, phase="response", overrides={"answers": {"fail_open": fail_open}})
    assert result.answer is None
    assert (result.status == "success") is fail_open
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error["data"]["reason"] == "the mutator answered in the response phase"


def test_a_result_may_change_the_payload_and_answer() -> None:
    both = MutationResult(modified=True, payload={"name": "new"}, answer=ANSWER)
    result = call(mutator(events=["tools/call"], phase="both", name="it")(lambda: both))
    assert (result.answer, result.final_payload) == (ANSWER, {"name": "new"})


def test_an_answer_belongs_to_the_chain_and_not_to_its_author() -> None:
    kept: dict[str, Any] = {"content": []}
    result = call(mutator(events=["tools/call"], phase="both", name="it")(lambda: Answer(kept)))
    kept["content"].append("edited later")
    assert result.answer == {"content": []}


@pytest.mark.anyio
async def test_the_response_phase_of_an_answer_runs_in_the_same_exchange() -> None:
    seen: list[Any] = []

    @mutator(events=["tools/call"], phase="request", name="p.cache")
    def cache(state: dict[str, Any]) -> Answer:
        state["hit"] = True
        return Answer(ANSWER)

    @validator(events=["tools/call"], phase="response", name="p.look")
    def look(payload: dict[str, Any], request: dict[str, Any], state: dict[str, Any]) -> None:
        seen.append((payload, request, dict(state)))

    chain, exchange = Chain(), Exchange()
    chain.add(cache, look)
    result = await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    assert result.answer is not None
    await chain.execute(event="tools/call", phase="response", payload=result.answer, exchange=exchange)
    assert seen == [(ANSWER, CALL, {"hit": True})]
