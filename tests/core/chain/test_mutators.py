"""Mutators: sequential and atomic."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from midspan_sdk import FailedResult, MutationResult, deny, mutator, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo", "arguments": {"a": [1, {"b": "c"}]}}
ON_CALLS: dict[str, Any] = {"events": ["tools/call"], "phase": "both"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


@mutator(**ON_CALLS, priority_hint=1)
def first(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "first": True}


@mutator(**ON_CALLS, priority_hint=2)
def crashes(payload: dict[str, Any]) -> dict[str, Any]:
    payload["arguments"]["a"].append("half done")
    raise ValueError("secret detail")


@mutator(**ON_CALLS, priority_hint=3)
def last(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "last": True}


@validator(**ON_CALLS)
def sees_no_half(payload: dict[str, Any]) -> bool:
    return "half done" not in json.dumps(payload)


def test_a_failing_mutator_leaves_nothing_of_the_earlier_ones_and_stops_the_chain() -> None:
    result = call(first, crashes, last, sees_no_half)
    assert result.status == "mutation_failed"
    assert result.final_payload is None
    assert not result.modified
    assert [one.interceptor for one in result.results] == ["first", "crashes"]
    assert result.aborted_at is not None
    assert (result.aborted_at.interceptor, result.aborted_at.type) == ("crashes", "mutation")
    assert result.aborted_at.reason == "the mutator raised ValueError"
    assert "secret detail" not in json.dumps(result.to_wire())


def test_in_the_receiving_order_a_failing_mutator_blocks_what_validators_allowed() -> None:
    result = call(first, crashes, last, sees_no_half, phase="response")
    assert result.status == "mutation_failed"
    assert result.final_payload is None
    assert [one.interceptor for one in result.results] == ["sees_no_half", "first", "crashes"]


@pytest.mark.parametrize("policy", [{"fail_open": True}, {"mode": "audit"}, {"mode": "audit", "fail_open": True}])
def test_a_failing_fail_open_or_audit_mutator_is_skipped_and_earlier_changes_stay(policy: dict[str, Any]) -> None:
    result = call(first, crashes, last, sees_no_half, overrides={"crashes": policy})
    assert result.status == "success"
    assert result.final_payload == {**CALL, "first": True, "last": True}
    failed = result.results[1]
    assert isinstance(failed, FailedResult)
    assert failed.error == {
        "code": -32603,
        "message": "Interceptor execution failed",
        "data": {"interceptor": "crashes", "reason": "the mutator raised ValueError"},
    }


def test_a_denied_message_keeps_nothing_of_the_mutators() -> None:
    denies = validator(**ON_CALLS, name="denies")(lambda: deny("no"))
    result = call(first, denies)
    assert result.status == "validation_failed"
    assert result.final_payload is None
    assert not result.modified


def test_each_result_carries_the_payload_after_its_mutator() -> None:
    nothing = mutator(**ON_CALLS, name="nothing", priority_hint=2)(lambda: None)
    result = call(first, nothing, last)
    payloads = [(one.modified, one.payload) for one in result.results if isinstance(one, MutationResult)]
    after_first = {**CALL, "first": True}
    assert payloads == [(True, after_first), (False, after_first), (True, {**after_first, "last": True})]


def test_one_modified_result_modifies_the_chain_s_result() -> None:
    nothing = mutator(**ON_CALLS, name="nothing")(lambda: None)
    assert call(nothing, first).modified
    assert not call(nothing).modified


def test_the_original_payload_is_untouched_whatever_the_mutators_did() -> None:
    before = json.dumps(CALL)
    call(first, crashes, last, overrides={"crashes": {"fail_open": True}})
    assert json.dumps(CALL) == before
