"""Failures by policy: fail-open, fail-closed, audit; what is logged, recorded and reported."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import anyio
import pytest

from midspan_sdk import FailedResult, InvocationContext, MutationResult, ValidationResult, deny, mutator, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo", "arguments": {"key": "sk-secret"}}
NEW: dict[str, Any] = {"name": "new"}
Kind = Literal["validator", "mutator"]

call = partial(run, event="tools/call", phase="request", payload=CALL)


async def hangs() -> None:
    await anyio.sleep_forever()


def crashes(payload: dict[str, Any]) -> None:
    raise RuntimeError(f"cannot handle {payload}")


async def crashes_later(payload: dict[str, Any]) -> None:
    await anyio.lowlevel.checkpoint()
    raise RuntimeError(f"cannot handle {payload}")


def wrong_type() -> object:
    return 5


def nothing() -> None: ...


FAILURES: dict[str, tuple[Callable[..., object], dict[str, Any], int, str | None]] = {
    "crash": (crashes, {}, -32603, "raised RuntimeError"),
    "late crash": (crashes_later, {}, -32603, "raised RuntimeError"),
    "crash in a thread": (crashes, {"blocking": True}, -32603, "raised RuntimeError"),
    "wrong type": (wrong_type, {}, -32603, "returned the wrong type"),
    "timeout": (hangs, {"timeout": 0.01}, -32000, None),
    "compat": (
        nothing,
        {"compat": {"min_protocol": "2026-07-28"}},
        -32603,
        "does not work with protocol version 2025-06-18",
    ),
}


def failing(kind: Kind, failure: str, **options: Any) -> Any:
    handler, settings, _, _ = FAILURES[failure]
    decorate: Any = {"validator": validator, "mutator": mutator}[kind]
    return decorate(events=["tools/call"], phase="both", name="bad", **settings, **options)(handler)


@mutator(events=["tools/call"], phase="both", name="good", priority_hint=-1)
def good() -> dict[str, Any]:
    return NEW


OLD_CONTEXT = InvocationContext(protocol_version="2025-06-18")


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("kind", ["validator", "mutator"])
def test_a_failure_blocks_unless_the_entry_fails_open(kind: Kind, failure: str) -> None:
    result = call(good, failing(kind, failure), context=OLD_CONTEXT)
    stage = "validation" if kind == "validator" else "mutation"
    assert result.status == ("timeout" if failure == "timeout" else f"{stage}_failed")
    assert result.final_payload is None
    assert result.aborted_at is not None
    assert (result.aborted_at.interceptor, result.aborted_at.type) == ("bad", stage)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("kind", ["validator", "mutator"])
def test_a_failure_is_let_pass_by_fail_open_and_recorded(kind: Kind, failure: str) -> None:
    result = call(good, failing(kind, failure, fail_open=True), context=OLD_CONTEXT)
    _, _, code, reason = FAILURES[failure]
    assert result.status == "success"
    assert result.final_payload == NEW
    assert result.aborted_at is None
    failed = result.results[-1]
    assert isinstance(failed, FailedResult)
    assert failed.to_wire()["error"]["code"] == code
    if code == -32000:
        assert failed.error == {
            "code": -32000,
            "message": "Interceptor execution timeout",
            "data": {"interceptor": "bad", "timeoutMs": 10, "phase": "request"},
        }
    else:
        assert failed.error["message"] == "Interceptor execution failed"
        assert failed.error["data"]["reason"].endswith(reason or "")


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("kind", ["validator", "mutator"])
@pytest.mark.parametrize(
    ("policy", "level"),
    [
        ({}, logging.ERROR),
        ({"fail_open": True}, logging.WARNING),
        ({"mode": "audit"}, logging.ERROR),
        ({"mode": "audit", "fail_open": True}, logging.WARNING),
    ],
    ids=str,
)
def test_a_failure_is_logged_with_its_cause(
    kind: Kind, failure: str, policy: dict[str, Any], level: int, caplog: pytest.LogCaptureFixture
) -> None:
    call(failing(kind, failure, **policy), context=OLD_CONTEXT)
    (record,) = caplog.records
    assert (record.levelno, record.name) == (level, "midspan.chain")
    assert record.getMessage().startswith("bad failed: ")
    if "crash" in failure:
        assert "cannot handle" in str(record.exc_info)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("kind", ["validator", "mutator"])
def test_what_goes_to_a_peer_has_no_value_path_or_traceback(kind: Kind, failure: str) -> None:
    text = json.dumps(call(failing(kind, failure), context=OLD_CONTEXT).to_wire())
    for leaked in ("sk-secret", "cannot handle", "Traceback", ".py"):
        assert leaked not in text


def test_every_failure_is_logged_although_an_earlier_entry_already_blocked(caplog: pytest.LogCaptureFixture) -> None:
    denies = validator(events=["tools/call"], phase="request", name="denies")(lambda: deny("no"))
    result = call(denies, failing("validator", "crash", mode="audit"), failing("validator", "crash").bound(name="bad2"))
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == "denies"
    assert [record.getMessage().split()[0] for record in caplog.records] == ["bad", "bad2"]


# Audit


def test_an_audit_validator_s_verdict_is_recorded_and_does_not_block() -> None:
    denies = validator(events=["tools/call"], phase="request", mode="audit")(lambda: deny("no"))
    result = call(denies)
    assert result.status == "success"
    assert result.final_payload is CALL
    (verdict,) = result.results
    assert isinstance(verdict, ValidationResult)
    assert verdict.blocks


def test_an_audit_mutator_s_payload_is_recorded_and_not_applied() -> None:
    seen: list[Any] = []
    audit = good.bound(name="audit")

    @validator(events=["tools/call"], phase="request")
    def look(payload: dict[str, Any]) -> None:
        seen.append(payload)

    result = call(audit, look, overrides={"audit": {"mode": "audit"}})
    assert result.final_payload is CALL
    assert not result.modified
    assert seen == [CALL]
    mutation = result.results[0]
    assert isinstance(mutation, MutationResult)
    assert (mutation.modified, mutation.payload) == (True, NEW)


def test_the_next_mutator_does_not_see_what_an_audit_one_made() -> None:
    seen: list[Any] = []

    @mutator(events=["tools/call"], phase="request", name="next", priority_hint=1)
    def look(payload: dict[str, Any]) -> None:
        seen.append(payload)

    call(good, look, overrides={"good": {"mode": "audit"}})
    assert seen == [CALL]


# Compat


@pytest.mark.parametrize(
    ("compat", "version", "runs"),
    [
        ({"min_protocol": "2025-06-18"}, "2025-06-18", True),
        ({"min_protocol": "2025-06-18"}, "2026-07-28", True),
        ({"min_protocol": "2025-11-25"}, "2025-06-18", False),
        ({"min_protocol": "2025-03-26", "max_protocol": "2025-06-18"}, "2025-06-18", True),
        ({"min_protocol": "2025-03-26", "max_protocol": "2025-06-18"}, "2025-11-25", False),
        ({"min_protocol": "2025-11-25"}, None, True),
    ],
)
def test_an_entry_outside_of_its_protocol_range_failed_and_is_never_skipped(
    compat: dict[str, str], version: str | None, runs: bool
) -> None:
    ran: list[bool] = []

    @validator(events=["tools/call"], phase="request", compat=compat)
    def check() -> None:
        ran.append(True)

    result = call(check, context=InvocationContext(protocol_version=version))
    assert bool(ran) is runs
    assert (result.status == "success") is runs
