"""Laws that hold for any set of interceptors: the chain against a model of the specification in thirty lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midspan_sdk import Chain, ChainExecutionResult, Interceptor, deny, mutator, sink, validator
from midspan_sdk.wire import Direction, Phase

RUNNER = asyncio.Runner()

Acts = Literal["passes", "changes", "denies", "warns", "crashes", "returns nonsense"]
Shape = Literal["def", "stepped", "suspends"]
FAILS = ("crashes", "returns nonsense")


@dataclass(frozen=True)
class Entry:
    """An interceptor of the model."""

    name: str
    kind: Literal["validator", "mutator", "sink"]
    acts: Acts
    shape: Shape
    audit: bool
    fail_open: bool
    priority: int | dict[str, int]

    def priority_in(self, phase: Phase) -> int:
        return self.priority if isinstance(self.priority, int) else self.priority.get(phase, 0)

    @property
    def blocks(self) -> bool:
        if self.audit:
            return False
        return (self.acts in FAILS and not self.fail_open) or (self.kind == "validator" and self.acts == "denies")


@dataclass(frozen=True)
class Outcome:
    """What the specification says of one execution."""

    blocked_by: str | None
    payload: dict[str, Any] | None
    results: list[str]
    seen: dict[str, Any]


def specified(entries: list[Entry], phase: Phase, direction: Direction, payload: dict[str, Any]) -> Outcome:
    mutators = sorted(
        (entry for entry in entries if entry.kind == "mutator"), key=lambda one: (one.priority_in(phase), one.name)
    )
    validators = [entry for entry in entries if entry.kind == "validator"]
    results: list[str] = []
    seen: dict[str, Any] = {}
    current = payload
    blocked_by: str | None = None
    for stage in ("mutate", "validate") if direction == "sending" else ("validate", "mutate"):
        for entry in mutators if stage == "mutate" else validators:
            if blocked_by is not None and stage == "mutate":
                break
            results.append(entry.name)
            seen[entry.name] = current
            if entry.blocks and blocked_by is None:
                blocked_by = entry.name
            elif entry.kind == "mutator" and entry.acts == "changes" and not entry.audit:
                current = {**current, "by": [*current.get("by", []), entry.name]}
        if blocked_by is not None:
            return Outcome(blocked_by, None, results, seen)
        if stage == "validate":  # sinks follow the validators in both directions
            seen |= {entry.name: current for entry in entries if entry.kind == "sink"}
    return Outcome(None, current, results, seen)


def built(entry: Entry, seen: dict[str, Any]) -> Interceptor[..., Any]:
    def act(payload: dict[str, Any]) -> object:
        seen[entry.name] = json.loads(json.dumps(payload))
        if entry.kind != "mutator":
            payload["edited by"] = entry.name  # its own copy: nobody else may see it
        match entry.acts:
            case "crashes":
                raise RuntimeError
            case "returns nonsense":
                return object()
            case "changes" if entry.kind == "mutator":
                return {**payload, "by": [*payload.get("by", []), entry.name]}
            case "denies" if entry.kind == "validator":
                return deny("no")
            case "warns" if entry.kind == "validator":
                return deny("careful", severity="warn")
            case _:
                return None

    async def stepped(payload: dict[str, Any]) -> object:
        return act(payload)

    async def suspends(payload: dict[str, Any]) -> object:
        await anyio.lowlevel.checkpoint()
        return act(payload)

    handlers: dict[Shape, Callable[[dict[str, Any]], object]] = {"def": act, "stepped": stepped, "suspends": suspends}
    options: dict[str, Any] = {"events": ["*"], "phase": "both", "name": entry.name}
    if entry.kind != "sink":
        options |= {"mode": "audit" if entry.audit else "active", "fail_open": entry.fail_open}
    if entry.kind == "mutator":
        options["priority_hint"] = entry.priority
    decorate: Any = {"validator": validator, "mutator": mutator, "sink": sink}[entry.kind]
    return decorate(**options)(handlers[entry.shape])


def executed(
    entries: list[Entry], phase: Phase, direction: Direction, payload: dict[str, Any]
) -> tuple[ChainExecutionResult, dict[str, Any]]:
    seen: dict[str, Any] = {}

    async def main() -> ChainExecutionResult:
        async with Chain() as chain:
            chain.add(*(built(entry, seen) for entry in entries))
            return await chain.execute(event="tools/call", phase=phase, payload=payload, direction=direction)

    return completed(main()), seen


@pytest.fixture(scope="module", autouse=True)
def one_loop() -> Iterator[None]:
    with RUNNER:
        yield


def completed(coroutine: Coroutine[Any, Any, ChainExecutionResult]) -> ChainExecutionResult:
    """Run to the end in one loop for all examples; a loop for each would take longer than what it runs."""
    return RUNNER.get_loop().run_until_complete(coroutine)


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=3)
PRIORITIES = st.one_of(
    st.integers(-2, 2), st.dictionaries(st.sampled_from(["request", "response"]), st.integers(-2, 2), max_size=2)
)
ENTRIES = st.lists(
    st.builds(
        Entry,
        name=NAMES,
        kind=st.sampled_from(["validator", "mutator", "mutator", "sink"]),
        acts=st.sampled_from(["passes", "changes", "changes", "denies", "warns", "crashes", "returns nonsense"]),
        shape=st.sampled_from(["def", "stepped", "suspends"]),
        audit=st.booleans(),
        fail_open=st.booleans(),
        priority=PRIORITIES,
    ),
    max_size=8,
    unique_by=lambda entry: entry.name,
)
PHASES = st.sampled_from(["request", "response"])
DIRECTIONS = st.sampled_from(["sending", "receiving"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3),
    max_leaves=10,
)
PAYLOADS = st.dictionaries(st.text(max_size=3).filter(lambda key: key != "by"), JSON, max_size=4)


@given(ENTRIES, PHASES, DIRECTIONS, PAYLOADS)
@settings(deadline=None, max_examples=100)
def test_a_chain_does_what_the_specification_says(
    entries: list[Entry], phase: Phase, direction: Direction, payload: dict[str, Any]
) -> None:
    before = json.dumps(payload)
    expected = specified(entries, phase, direction, payload)
    result, seen = executed(entries, phase, direction, payload)
    assert (result.aborted_at.interceptor if result.aborted_at else None) == expected.blocked_by
    assert json.dumps(result.final_payload) == json.dumps(expected.payload)
    assert [one.interceptor for one in result.results] == expected.results
    assert json.dumps(seen, sort_keys=True) == json.dumps(expected.seen, sort_keys=True)
    assert json.dumps(payload) == before


@given(ENTRIES, PHASES, DIRECTIONS, PAYLOADS)
@settings(deadline=None, max_examples=50)
def test_audit_never_changes_the_outcome(
    entries: list[Entry], phase: Phase, direction: Direction, payload: dict[str, Any]
) -> None:
    without = [entry for entry in entries if not entry.audit]
    one, seen = executed(entries, phase, direction, payload)
    other, seen_without = executed(without, phase, direction, payload)
    assert (one.status, one.aborted_at) == (other.status, other.aborted_at)
    assert json.dumps(one.final_payload) == json.dumps(other.final_payload)
    assert {name: seen[name] for name in seen_without} == seen_without


@given(ENTRIES, PHASES, DIRECTIONS, PAYLOADS)
@settings(deadline=None, max_examples=50)
def test_all_mutators_apply_or_none(
    entries: list[Entry], phase: Phase, direction: Direction, payload: dict[str, Any]
) -> None:
    result, _ = executed(entries, phase, direction, payload)
    applied = {
        entry.name for entry in entries if entry.kind == "mutator" and entry.acts == "changes" and not entry.audit
    }
    if result.status == "success":
        assert result.final_payload is not None
        assert set(result.final_payload.get("by", [])) == applied
        assert result.modified is bool(applied)
    else:
        assert result.final_payload is None
        assert not result.modified


@given(ENTRIES, PHASES, DIRECTIONS, PAYLOADS)
@settings(deadline=None, max_examples=50)
def test_interceptors_that_pass_everything_return_the_very_payload(
    entries: list[Entry], phase: Phase, direction: Direction, payload: dict[str, Any]
) -> None:
    before = json.dumps(payload)
    passing = [replace(entry, acts="passes", audit=False) for entry in entries]
    result, seen = executed(passing, phase, direction, payload)
    assert result.final_payload is payload
    assert json.dumps(payload) == before
    assert all(json.dumps(one) == before for one in seen.values())


@given(PAYLOADS)
@settings(deadline=None, max_examples=100)
def test_a_mutator_that_rebuilds_the_payload_it_was_given_changes_nothing(payload: dict[str, Any]) -> None:
    @mutator(events=["*"], phase="both")
    def rebuilds(payload: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(payload))

    async def main() -> ChainExecutionResult:
        chain = Chain()
        chain.add(rebuilds)
        return await chain.execute(event="x", phase="request", payload=payload)

    result = completed(main())
    assert result.final_payload is payload
    assert not result.modified


@given(PAYLOADS, st.data())
@settings(deadline=None, max_examples=100)
def test_any_change_of_a_type_counts_as_a_change(payload: dict[str, Any], data: st.DataObject) -> None:
    old, new = data.draw(st.sampled_from([(1, 1.0), (1, True), (0, False), (1.0, True), (0.0, 0), (None, False)]))

    @mutator(events=["*"], phase="both")
    def changes(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "n": {"deep": [new]}}

    async def main() -> ChainExecutionResult:
        chain = Chain()
        chain.add(changes)
        return await chain.execute(event="x", phase="request", payload={**payload, "n": {"deep": [old]}})

    result = completed(main())
    assert result.modified
    assert json.dumps(result.final_payload) == json.dumps({**payload, "n": {"deep": [new]}})
