"""What one interceptor does to its payload is invisible to every other one and to the message."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from midspan_sdk import Chain, MutationResult, mutator, sink, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {
    "name": "echo",
    "arguments": {"list": [{"a": {"b": [1, 2]}}, [], {}], "text": "x", "none": None},
    "_meta": {"acme": {"x": 1}},
}
BEFORE = json.dumps(CALL)

call = partial(run, event="tools/call", phase="request", payload=CALL)


def wreck(value: Any) -> None:
    """Change everything that can be changed, at every depth."""
    if isinstance(value, dict):
        for child in list(value.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            wreck(child)
        value.clear()  # pyright: ignore[reportUnknownMemberType]
        value["wrecked"] = True
    elif isinstance(value, list):
        for child in value:  # pyright: ignore[reportUnknownVariableType]
            wreck(child)
        value[:] = ["wrecked"]


def wrecks(payload: dict[str, Any]) -> None:
    wreck(payload)


async def wrecks_at_once(payload: dict[str, Any]) -> None:
    wreck(payload)


async def wrecks_later(payload: dict[str, Any]) -> None:
    await anyio.lowlevel.checkpoint()
    wreck(payload)


HANDLERS: list[tuple[Callable[[dict[str, Any]], object], dict[str, Any]]] = [
    (wrecks, {}),
    (wrecks_at_once, {}),
    (wrecks_later, {}),
    (wrecks, {"blocking": True}),
]


def looking(seen: list[str], name: str, kind: Any = validator, **options: Any) -> Any:
    def look(payload: dict[str, Any]) -> None:
        seen.append(json.dumps(payload))

    return kind(events=["*"], phase="both", name=name, **options)(look)


@pytest.mark.parametrize(("handler", "options"), HANDLERS)
@pytest.mark.parametrize("phase", ["request", "response"])
def test_a_validator_that_edits_its_payload_changes_it_for_nobody(
    handler: Any, options: dict[str, Any], phase: Any
) -> None:
    seen: list[str] = []
    wrecker = validator(events=["*"], phase="both", name="w", **options)(handler)
    entries = [looking(seen, "a"), wrecker, looking(seen, "b"), looking(seen, "m", mutator), looking(seen, "s", sink)]
    result = call(*entries, phase=phase)
    assert result.status == "success"
    assert seen == [BEFORE] * 4
    assert result.final_payload is CALL
    assert json.dumps(CALL) == BEFORE


@pytest.mark.parametrize(("handler", "options"), HANDLERS)
def test_a_sink_that_edits_its_payload_changes_it_for_no_other_sink(handler: Any, options: dict[str, Any]) -> None:
    seen: list[str] = []
    wrecker = sink(events=["*"], phase="both", name="w", **options)(handler)
    call(wrecker, looking(seen, "s", sink), looking(seen, "t", sink, sees="arrived"))
    assert seen == [BEFORE] * 2
    assert json.dumps(CALL) == BEFORE


@pytest.mark.parametrize(("handler", "options"), HANDLERS)
@pytest.mark.parametrize("policy", [{"fail_open": True}, {"mode": "audit"}], ids=str)
def test_a_skipped_mutator_that_edited_its_payload_changed_it_for_nobody(
    handler: Any, options: dict[str, Any], policy: dict[str, Any]
) -> None:
    seen: list[str] = []
    wrecker = mutator(events=["*"], phase="both", name="w", **options, **policy)(handler)
    result = call(wrecker, looking(seen, "m", mutator, priority_hint=1), looking(seen, "v"))
    assert seen == [BEFORE] * 2
    assert result.final_payload is CALL
    assert json.dumps(CALL) == BEFORE


def test_a_mutator_that_edits_what_it_returned_earlier_changes_nothing() -> None:
    returned: list[dict[str, Any]] = []

    @mutator(events=["*"], phase="both", name="a")
    def keeps(payload: dict[str, Any]) -> dict[str, Any]:
        payload["arguments"]["text"] = "y"
        returned.append(payload)
        return payload

    @mutator(events=["*"], phase="both", name="b", priority_hint=1)
    def edits() -> None:
        wreck(returned[0])

    seen: list[str] = []
    result = call(keeps, edits, looking(seen, "v"))
    expected = {**CALL, "arguments": {**CALL["arguments"], "text": "y"}}
    assert seen == [json.dumps(expected)]
    assert result.final_payload == expected
    assert json.dumps(CALL) == BEFORE


def test_a_result_object_that_is_edited_later_changes_nothing() -> None:
    given: dict[str, Any] = {"name": "new", "deep": {"x": [1]}}

    @mutator(events=["*"], phase="both", name="a")
    def returns() -> MutationResult:
        return MutationResult(modified=True, payload=given)

    result = call(returns)
    wreck(given["deep"])
    assert result.final_payload == {"name": "new", "deep": {"x": [1]}}


def test_a_thread_that_edits_a_payload_after_the_deadline_changes_nothing() -> None:
    release, done = threading.Event(), threading.Event()
    seen: list[str] = []

    @validator(events=["*"], phase="both", name="w", blocking=True, timeout=0.01, fail_open=True)
    def lingers(payload: dict[str, Any]) -> None:
        release.wait(5)
        wreck(payload)
        done.set()

    async def main() -> None:
        chain = Chain()
        chain.add(lingers, looking(seen, "v"))
        result = await chain.execute(event="tools/call", phase="request", payload=CALL)
        release.set()
        await anyio.to_thread.run_sync(done.wait, 5)
        assert result.final_payload is CALL
        chain.add(looking(seen, "late"))
        await chain.execute(event="tools/call", phase="request", payload=CALL, interceptors=["late"])

    anyio.run(main)
    assert seen == [BEFORE] * 2
    assert json.dumps(CALL) == BEFORE


def test_a_large_string_is_shared_and_never_copied() -> None:
    data = "QUJD" * (5 * 1024 * 1024 // 4)
    payload: dict[str, Any] = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    seen: list[int] = []

    def look(payload: dict[str, Any]) -> None:
        seen.append(id(payload["content"][0]["data"]))

    async def look_later(payload: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        look(payload)

    @mutator(events=["*"], phase="both", name="m")
    def change(payload: dict[str, Any]) -> dict[str, Any]:
        payload["content"].append({"type": "text", "text": "checked"})
        return payload

    entries: list[Any] = [validator(events=["*"], phase="both", name=f"v{n}")(look) for n in range(3)]
    entries.append(validator(events=["*"], phase="both", name="later")(look_later))
    entries.append(validator(events=["*"], phase="both", name="thread", blocking=True)(look))
    result = run(
        *entries,
        change,
        sink(events=["*"], phase="both", name="s")(look),
        event="tools/call",
        phase="response",
        payload=payload,
    )
    assert result.modified
    assert seen == [id(data)] * 6
    assert result.final_payload is not None
    assert result.final_payload["content"][0]["data"] is data


def test_the_keys_of_a_payload_keep_their_order_for_everyone() -> None:
    payload: dict[str, Any] = {"z": 1, "a": {"y": 1, "b": 2}, "m": [{"q": 1, "c": 2}]}
    seen: list[str] = []
    touch = mutator(events=["*"], phase="both", name="m")(append_key)
    result = run(touch, looking(seen, "v"), event="x", phase="request", payload=payload)
    assert seen == ['{"z": 1, "a": {"y": 1, "b": 2}, "m": [{"q": 1, "c": 2}], "new": 1}']
    assert json.dumps(result.final_payload) == seen[0]


def append_key(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "new": 1}
