"""Validators: side by side, all recorded, only an error blocks."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Literal

import anyio
import pytest

from midspan_sdk import (
    FailedResult,
    Suggestion,
    ValidationMessage,
    ValidationResult,
    ValidationSummary,
    allow,
    deny,
    validator,
)
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo"}

call = partial(run, event="tools/call", phase="request", payload=CALL)
Severity = Literal["info", "warn", "error"]


def returning(value: object, name: str = "it", **options: Any) -> Any:
    def handler() -> object:
        if isinstance(value, Exception):
            raise value
        return value

    return validator(events=["tools/call"], phase="request", name=name, **options)(handler)


def messages(*severities: Severity) -> tuple[ValidationMessage, ...]:
    return tuple(ValidationMessage(message=severity, severity=severity) for severity in severities)


@pytest.mark.parametrize(
    ("result", "blocks"),
    [
        (ValidationResult(valid=True), False),
        (ValidationResult(valid=True, severity="error", messages=messages("error")), False),
        (ValidationResult(valid=False), True),
        (ValidationResult(valid=False, severity="error"), True),
        (ValidationResult(valid=False, severity="warn"), False),
        (ValidationResult(valid=False, severity="info"), False),
        (ValidationResult(valid=False, messages=messages("info", "warn")), False),
        (ValidationResult(valid=False, messages=messages("info")), False),
        (ValidationResult(valid=False, messages=messages("warn", "error", "info")), True),
        (ValidationResult(valid=False, severity="warn", messages=messages("error")), False),
        (ValidationResult(valid=False, severity="error", messages=messages("info")), True),
        (deny("x"), True),
        (deny("x", severity="warn"), False),
        (allow(message="x", severity="warn"), False),
    ],
    ids=repr,
)
def test_only_an_invalid_result_of_severity_error_blocks(result: ValidationResult, blocks: bool) -> None:
    outcome = call(returning(result))
    assert (outcome.status == "validation_failed") is blocks
    assert (outcome.final_payload is None) is blocks


def test_validators_that_wait_run_side_by_side() -> None:
    here, there = anyio.Event(), anyio.Event()

    @validator(events=["tools/call"], phase="request")
    async def one() -> None:
        here.set()
        await there.wait()

    @validator(events=["tools/call"], phase="request")
    async def two() -> None:
        there.set()
        await here.wait()

    assert call(one, two).status == "success"


def test_blocking_validators_run_side_by_side() -> None:

    barrier = threading.Barrier(3, timeout=5)
    options: dict[str, Any] = {"events": ["tools/call"], "phase": "request", "blocking": True, "timeout": 5}
    entries = [validator(**options, name=str(n))(lambda: barrier.wait() < 0 or None) for n in range(3)]
    assert call(*entries).status == "success"


def test_all_validators_complete_and_are_recorded_although_the_first_denies() -> None:
    finished: list[str] = []

    @validator(events=["tools/call"], phase="request")
    async def slow() -> str:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        finished.append("slow")
        return "also no"

    result = call(returning(deny("no"), "a"), slow, returning(RuntimeError(), "b"), returning(None, "c"))
    assert finished == ["slow"]
    assert [(one.interceptor, type(one)) for one in result.results] == [
        ("a", ValidationResult),
        ("slow", ValidationResult),
        ("b", FailedResult),
        ("c", ValidationResult),
    ]


def test_status_and_aborted_at_name_the_first_blocking_entry() -> None:
    @validator(events=["tools/call"], phase="request", name="hangs", timeout=0.01)
    async def hangs() -> None:
        await anyio.sleep_forever()

    denies, crashes, warns = (
        returning(deny("no"), "denies"),
        returning(RuntimeError(), "crashes"),
        returning(deny("careful", severity="warn"), "warns"),
    )
    for order, status, reason in (
        ([warns, denies, hangs, crashes], "validation_failed", "no"),
        ([warns, crashes, hangs, denies], "validation_failed", "the validator raised RuntimeError"),
        ([warns, hangs, denies, crashes], "timeout", "no result within 10 ms"),
    ):
        result = call(*order)
        assert result.aborted_at is not None
        assert result.status == status
        assert result.aborted_at.interceptor == order[1].name
        assert (result.aborted_at.reason, result.aborted_at.type) == (reason, "validation")
        assert result.to_wire()["abortedAt"] == {"interceptor": order[1].name, "reason": reason, "type": "validation"}


def test_the_reason_is_the_first_message_of_severity_error() -> None:
    result = call(returning(ValidationResult(valid=False, messages=messages("info", "error"))))
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "error"


def test_the_summary_counts_messages_and_a_failed_validator_as_one_error() -> None:
    result = call(
        returning(ValidationResult(valid=True, messages=messages("info", "info", "warn")), "a"),
        returning(ValidationResult(valid=False, severity="error", messages=messages("error", "error", "info")), "b"),
        returning(RuntimeError(), "c", fail_open=True),
        returning(deny("x"), "d", mode="audit"),
        returning(None, "e"),
    )
    assert result.validation_summary == ValidationSummary(errors=4, warnings=1, infos=3)
    assert result.to_wire()["validationSummary"] == {"errors": 4, "warnings": 1, "infos": 3}


def test_the_chain_says_who_returned_a_result_in_which_phase() -> None:
    lies = ValidationResult(interceptor="other", phase="response", valid=True, duration_ms=-1.0)
    (verdict,) = call(returning(lies)).results
    assert (verdict.interceptor, verdict.phase) == ("it", "request")
    assert verdict.duration_ms is not None
    assert verdict.duration_ms >= 0


def test_everything_that_a_result_carries_is_recorded() -> None:
    given = deny("no", path="$.name", suggestions=(Suggestion(path="$.name", value="ok"),), info={"rule": "deny[0]"})
    (verdict,) = call(returning(given)).results
    wire = verdict.to_wire()
    del wire["durationMs"]
    assert wire == {
        "interceptor": "it",
        "type": "validation",
        "phase": "request",
        "valid": False,
        "severity": "error",
        "messages": [{"message": "no", "severity": "error", "path": "$.name"}],
        "suggestions": [{"path": "$.name", "value": "ok"}],
        "info": {"rule": "deny[0]"},
    }


def test_a_validator_that_allows_says_exactly_this_on_the_wire() -> None:
    wire = call(returning(None)).results[0].to_wire()
    del wire["durationMs"]
    assert wire == {"interceptor": "it", "type": "validation", "phase": "request", "valid": True}
