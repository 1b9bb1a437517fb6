"""The proposal's `ChainExecutionResult` as a JSON object."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from midspan_sdk import Answer, MutationResult, SinkResult, Suggestion, ValidationResult, deny, mutator, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


def without_durations(value: Any) -> Any:
    text = re.sub(r'"(durationMs|totalDurationMs)": [0-9.e-]+(, )?', "", json.dumps(value))
    return json.loads(text.replace(", }", "}"))


@mutator(events=["*"], phase="both", name="m")
def changes() -> dict[str, Any]:
    return {"name": "new"}


@validator(events=["*"], phase="both", name="v")
def denies() -> Any:
    return deny("no", path="$.name")


@validator(events=["*"], phase="both", name="c", fail_open=True)
def crashes() -> None:
    raise RuntimeError


MUTATION = {
    "interceptor": "m",
    "type": "mutation",
    "phase": "request",
    "modified": True,
    "payload": {"name": "new"},
}
FAILURE = {
    "interceptor": "c",
    "type": "validation",
    "phase": "request",
    "error": {
        "code": -32603,
        "message": "Interceptor execution failed",
        "data": {"interceptor": "c", "reason": "the validator raised RuntimeError"},
    },
}


def test_a_result_of_a_message_that_passed() -> None:
    wire = call(changes, crashes).to_wire()
    assert wire["totalDurationMs"] > 0
    assert all(result["durationMs"] >= 0 for result in wire["results"])
    assert without_durations(wire) == {
        "status": "success",
        "event": "tools/call",
        "phase": "request",
        "results": [MUTATION, FAILURE],
        "validationSummary": {"errors": 1, "warnings": 0, "infos": 0},
        "finalPayload": {"name": "new"},
    }


def test_a_result_of_a_message_that_was_blocked_has_no_payload_and_names_who_blocked() -> None:
    assert without_durations(call(changes, denies).to_wire()) == {
        "status": "validation_failed",
        "event": "tools/call",
        "phase": "request",
        "results": [
            MUTATION,
            {
                "interceptor": "v",
                "type": "validation",
                "phase": "request",
                "valid": False,
                "severity": "error",
                "messages": [{"message": "no", "severity": "error", "path": "$.name"}],
            },
        ],
        "validationSummary": {"errors": 1, "warnings": 0, "infos": 0},
        "abortedAt": {"interceptor": "v", "reason": "no", "type": "validation"},
    }


def test_a_result_of_a_message_that_nothing_matches() -> None:
    assert without_durations(call().to_wire()) == {
        "status": "success",
        "event": "tools/call",
        "phase": "request",
        "results": [],
        "validationSummary": {"errors": 0, "warnings": 0, "infos": 0},
        "finalPayload": CALL,
    }


def test_a_mutation_has_its_payload_always_and_an_answer_when_there_is_one() -> None:
    nothing = mutator(events=["*"], phase="both", name="m")(lambda: None)
    answers = mutator(events=["*"], phase="both", name="m")(lambda: Answer({"content": []}))
    unmodified = {**MUTATION, "modified": False, "payload": CALL}
    assert without_durations(call(nothing).results[0].to_wire()) == unmodified
    assert without_durations(call(answers).results[0].to_wire()) == {**unmodified, "answer": {"content": []}}


def test_results_are_read_as_they_stand_on_the_wire() -> None:
    wire: dict[str, Any] = {"interceptor": "s", "type": "sink", "phase": "response", "recorded": True}
    assert SinkResult.model_validate({**wire, "newer": 1}).to_wire() == wire
    assert SinkResult.model_validate({**wire, "metrics": {"n": 2}}).to_wire() == {**wire, "metrics": {"n": 2}}
    assert MutationResult.model_validate(MUTATION).to_wire() == MUTATION
    signed: dict[str, Any] = {
        "interceptor": "v",
        "type": "validation",
        "phase": "request",
        "valid": False,
        "severity": "warn",
        "messages": [{"message": "m", "severity": "info"}],
        "suggestions": [{"path": "$.a", "value": None}],
        "signature": {"algorithm": "ed25519", "publicKey": "k", "value": "v"},
        "info": {"rule": 1},
    }
    assert ValidationResult.model_validate(signed).to_wire() == signed


def test_decision_ids_differ() -> None:
    results = [call() for _ in range(20)]
    assert len({result.decision_id for result in results}) == 20
    assert all(result.decision_id == result.decision_id for result in results)


@pytest.mark.parametrize("value", [object(), {1}, float("nan"), b"x", {1: 2}])
def test_what_is_not_json_is_refused_where_a_result_is_made(value: object) -> None:
    with pytest.raises(ValidationError):
        deny("no", info={"rule": value})
    with pytest.raises(ValidationError):
        Suggestion(path="$", value=value)


def test_what_a_result_carries_is_its_own() -> None:
    info: dict[str, Any] = {"rules": [1]}
    value: list[Any] = [1]
    result = deny("no", info=info, suggestions=(Suggestion(path="$", value=value),))
    info["rules"].append(2)
    value.append(2)
    assert (result.info, result.suggestions[0].value) == ({"rules": [1]}, [1])
