"""The invoker's policy: what an override may change, and what it may not widen."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from midspan_sdk import Chain, ChainError, DefinitionError, Hook, InterceptorOverrides, deny, mutator, sink, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


@validator(events=["tools/*", "prompts/get"], phase="both")
def denies() -> Any:
    return deny("no")


@validator(events=["tools/*"], phase="both", mode="audit")
def audits() -> Any:
    return deny("no")


@validator(events=["tools/*"], phase="both", fail_open=True)
def crashes() -> None:
    raise RuntimeError


@mutator(events=["tools/*"], phase="both", priority_hint=5)
def changes() -> dict[str, Any]:
    return {"name": "new"}


@sink(events=["tools/*"], phase="both")
def records() -> None: ...


@pytest.mark.parametrize("given", [{"mode": "audit"}, InterceptorOverrides(mode="audit")])
def test_overrides_are_a_model_or_a_mapping(given: Any) -> None:
    assert call(denies, overrides={"denies": given}).status == "success"


def test_an_override_wins_over_the_descriptor_in_both_directions() -> None:
    assert call(audits).status == "success"
    assert call(audits, overrides={"audits": {"mode": "active"}}).status == "validation_failed"
    assert call(crashes).status == "success"
    assert call(crashes, overrides={"crashes": {"fail_open": False}}).status == "validation_failed"
    assert call(crashes, overrides={"crashes": {"failOpen": False}}).status == "validation_failed"


def test_an_override_changes_what_it_names_and_nothing_else() -> None:
    chain = Chain()
    chain.add(changes, overrides={"changes": {"timeout_ms": 50}})
    (entry,) = chain.entries
    assert (entry.mode, entry.fail_open, entry.timeout, entry.priority("request")) == ("active", False, 0.05, 5)
    assert entry.hooks == changes.descriptor.hooks
    assert changes.descriptor.to_wire()["priorityHint"] == 5


@pytest.mark.parametrize(
    ("hooks", "event", "phase", "runs"),
    [
        ([{"events": ["tools/call"], "phase": "request"}], "tools/call", "request", True),
        ([{"events": ["tools/call"], "phase": "request"}], "tools/call", "response", False),
        ([{"events": ["tools/call"], "phase": "request"}], "tools/list", "request", False),
        ([{"events": ["tools/c*", "prompts/get"], "phase": "response"}], "prompts/get", "response", True),
        ([{"events": ["tools/*"], "phase": "both"}], "tools/list", "response", True),
        ([Hook(events=("tools/*",), phase="request")], "tools/list", "request", True),
    ],
)
def test_hooks_may_be_narrowed(hooks: Any, event: str, phase: Any, runs: bool) -> None:
    result = run(denies, event=event, phase=phase, payload={}, overrides={"denies": {"hooks": hooks}})
    assert (result.status == "validation_failed") is runs


@pytest.mark.parametrize(
    ("events", "phase", "outside"),
    [
        (["resources/read"], "request", "resources/read"),
        (["tools/call", "*"], "request", "*"),
        (["t*"], "response", "t*"),
        (["prompts/*"], "request", "prompts/*"),
        (["*/call"], "request", "*/call"),
    ],
)
def test_widening_hooks_is_refused_and_names_the_event(events: list[str], phase: str, outside: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Chain().add(denies, overrides={"denies": {"hooks": [{"events": events, "phase": phase}]}})
    assert str(caught.value) == (
        f"interceptor 'denies': hooks: may only narrow; {outside!r} in the {phase} phase is outside "
        "what the interceptor declares"
    )


def test_a_phase_that_is_not_declared_is_widening() -> None:
    requests = validator(events=["*"], phase="request", name="requests")(lambda: None)
    with pytest.raises(DefinitionError, match=r"'tools/call' in the response phase is outside"):
        Chain().add(requests, overrides={"requests": {"hooks": [{"events": ["tools/call"], "phase": "response"}]}})


@pytest.mark.parametrize(
    ("interceptor", "policy", "sentence"),
    [
        (records, {"mode": "audit"}, "mode: a sink takes no mode, fail_open or priority"),
        (records, {"fail_open": True}, "fail_open: a sink takes no mode, fail_open or priority"),
        (records, {"priority_hint": 1}, "priority_hint: a sink takes no mode, fail_open or priority"),
        (
            denies,
            {"priority_hint": 1},
            "priority_hint: only mutators have a priority; validators run in parallel",
        ),
        (denies, {"may_answer": True}, "may_answer: only mutators answer"),
        (denies, {"hooks": []}, "hooks: leave at least one hook, or disable the interceptor"),
        (denies, {"mode": "enforce"}, "mode: Input should be 'active' or 'audit'"),
        (denies, {"timeout_ms": 0}, "timeout_ms: Input should be greater than 0"),
        (denies, {"modus": "audit"}, "modus: Extra inputs are not permitted"),
        (changes, {"priority_hint": 2**31}, "priority_hint: 2147483648 is outside int32"),
        (changes, {"priority_hint": {"request": -(2**31) - 1}}, "priority_hint: -2147483649 is outside int32"),
        (changes, {"hooks": [{"events": ["tools/call"], "phase": "before"}]}, "phase: "),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_override_that_cannot_do_what_it_says_is_refused(
    interceptor: Any, policy: dict[str, Any], sentence: str
) -> None:
    chain = Chain()
    with pytest.raises(DefinitionError) as caught:
        chain.add(interceptor, overrides={interceptor.name: policy})
    assert str(caught.value).startswith(f"interceptor {interceptor.name!r}: {sentence}")
    assert chain.entries == ()


def test_a_sink_takes_a_deadline_and_narrower_hooks() -> None:
    chain = Chain()
    hooks = [{"events": ["tools/call"], "phase": "request"}]
    chain.add(records, overrides={"records": {"timeout_ms": 20, "hooks": hooks}})
    (entry,) = chain.entries
    assert entry.timeout == 0.02
    assert not entry.matches("tools/list", "request")


def test_an_override_for_nobody_is_refused_and_nothing_is_added() -> None:
    chain = Chain()
    with pytest.raises(ChainError) as caught:
        chain.add(denies, changes, overrides={"denys": {"mode": "audit"}})
    assert str(caught.value) == "overrides name 'denys', which is not among changes, denies"
    assert chain.entries == ()


def test_an_entry_tells_where_each_value_comes_from() -> None:
    chain = Chain()
    chain.add(denies, audits, changes, overrides={"denies": {"timeout_ms": 50, "mode": "audit"}})
    first, second, third = chain.entries
    fields = ("mode", "fail_open", "timeout", "hooks", "priority")
    assert [first.origin(field) for field in fields] == ["override", "default", "override", "declared", "default"]
    assert [second.origin(field) for field in fields] == ["declared", "default", "default", "declared", "default"]
    assert third.origin("priority") == "declared"


def test_what_a_copy_under_another_name_declares_is_the_same() -> None:
    chain = Chain()
    chain.add(audits.bound(name="x.audits"), crashes.bound(name="x.crashes"))
    assert [entry.origin("mode") for entry in chain.entries] == ["declared", "default"]
    assert [entry.origin("fail_open") for entry in chain.entries] == ["default", "declared"]
