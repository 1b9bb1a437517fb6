"""The table of return values of the author contract, row by row, for handlers of every kind."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from midspan_sdk import (
    Answer,
    FailedResult,
    Interceptor,
    MutationResult,
    SinkResult,
    ValidationMessage,
    ValidationResult,
    allow,
    deny,
    mutator,
    sink,
    validator,
)
from midspan_sdk.testing import run

Shape = Literal["def", "async def that cannot suspend", "async def that suspends", "blocking def"]
SHAPES: tuple[Shape, ...] = ("def", "async def that cannot suspend", "async def that suspends", "blocking def")
CALL: dict[str, Any] = {"name": "echo", "arguments": {"text": "hi", "n": 1}}

call = partial(run, event="tools/call", phase="request", payload=CALL)


class Note(BaseModel):
    text: str


def handler_of(shape: Shape, value: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    def plain(payload: dict[str, Any]) -> object:
        return value(payload)

    async def stepped(payload: dict[str, Any]) -> object:
        return value(payload)

    async def suspends(payload: dict[str, Any]) -> object:
        await anyio.lowlevel.checkpoint()
        return value(payload)

    handlers: dict[Shape, Callable[[dict[str, Any]], object | Awaitable[object]]] = {
        "def": plain,
        "blocking def": plain,
        "async def that cannot suspend": stepped,
        "async def that suspends": suspends,
    }
    return handlers[shape]


def validating(shape: Shape, value: object) -> Interceptor[..., Any]:
    decorate = validator(events=["tools/call"], phase="request", name="it", blocking=shape == "blocking def")
    return decorate(handler_of(shape, lambda payload: value))


def mutating(shape: Shape, value: Callable[[dict[str, Any]], object]) -> Interceptor[..., Any]:
    decorate = mutator(events=["tools/call"], phase="request", name="it", blocking=shape == "blocking def")
    return decorate(handler_of(shape, value))


def failure_of(result: Any) -> dict[str, Any]:
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    return failed.error


WRONG_VALIDATOR = {"code": -32603, "message": "Interceptor execution failed"}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [None, True, allow(), allow(message="fine")])
def test_a_validator_allows(shape: Shape, value: object) -> None:
    result = call(validating(shape, value))
    assert result.status == "success"
    assert result.final_payload is CALL
    (verdict,) = result.results
    assert isinstance(verdict, ValidationResult)
    assert verdict.valid


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("value", "reason"),
    [(False, "denied"), ("no shells", "no shells"), ("", "denied"), (deny("rule 3"), "rule 3")],
)
def test_a_validator_denies(shape: Shape, value: object, reason: str) -> None:
    result = call(validating(shape, value))
    assert result.status == "validation_failed"
    assert result.final_payload is None
    assert result.aborted_at is not None
    assert (result.aborted_at.interceptor, result.aborted_at.reason) == ("it", reason)
    (verdict,) = result.results
    assert isinstance(verdict, ValidationResult)
    assert verdict.messages == (ValidationMessage(message=reason, severity="error"),)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "value",
    [
        {"name": "echo"},
        {},
        Note(text="x"),
        Answer({}),
        MutationResult(modified=False, payload={}),
        SinkResult(recorded=True),
        0,
        1,
        b"no",
        ["no"],
        ("no",),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_validator_may_not_return_this(shape: Shape, value: object) -> None:
    result = call(validating(shape, value))
    assert result.status == "validation_failed"
    assert failure_of(result) == {
        **WRONG_VALIDATOR,
        "data": {"interceptor": "it", "reason": "the validator returned the wrong type"},
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_a_mutator_that_returns_none_leaves_the_payload_as_it_was(shape: Shape) -> None:
    result = call(mutating(shape, lambda payload: None))
    assert result.status == "success"
    assert result.final_payload is CALL
    assert not result.modified
    (mutation,) = result.results
    assert isinstance(mutation, MutationResult)
    assert (mutation.modified, mutation.payload) == (False, CALL)


def replace_text(payload: dict[str, Any]) -> None:
    payload["arguments"]["text"] = "ho"


def drop_the_name(payload: dict[str, Any]) -> None:
    del payload["name"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("edit", [replace_text, drop_the_name])
def test_a_mutator_that_edits_its_copy_and_returns_none_failed(
    shape: Shape, edit: Callable[[dict[str, Any]], None]
) -> None:
    result = call(mutating(shape, edit))
    assert result.status == "mutation_failed"
    assert failure_of(result)["data"]["reason"] == "the mutator returned the wrong type"
    assert CALL == {"name": "echo", "arguments": {"text": "hi", "n": 1}}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "value", [True, False, "new text", "", 5, [CALL], deny("x"), allow(), SinkResult(recorded=True)]
)
def test_a_mutator_may_not_return_this(shape: Shape, value: object) -> None:
    result = call(mutating(shape, lambda payload: value))
    assert result.status == "mutation_failed"
    assert failure_of(result) == {
        **WRONG_VALIDATOR,
        "data": {"interceptor": "it", "reason": "the mutator returned the wrong type"},
    }


def edited(payload: dict[str, Any]) -> dict[str, Any]:
    replace_text(payload)
    return payload


def rebuilt(payload: dict[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({**payload, "arguments": OrderedDict(text="ho", n=1)})


def as_result(payload: dict[str, Any]) -> MutationResult:
    return MutationResult(modified=True, payload={**payload, "arguments": {"text": "ho", "n": 1}}, info={"rule": "r"})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("change", [edited, rebuilt, as_result])
def test_a_mapping_or_a_result_is_the_new_payload(shape: Shape, change: Callable[[dict[str, Any]], object]) -> None:
    result = call(mutating(shape, change))
    expected = {"name": "echo", "arguments": {"text": "ho", "n": 1}}
    assert result.status == "success"
    assert result.modified
    assert result.final_payload == expected
    assert type(result.final_payload) is dict
    assert type(result.final_payload["arguments"]) is dict
    (mutation,) = result.results
    assert isinstance(mutation, MutationResult)
    assert (mutation.modified, mutation.payload) == (True, expected)
    assert mutation.info == ({"rule": "r"} if change is as_result else None)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_mapping_equal_to_the_payload_is_no_change(shape: Shape) -> None:
    result = call(mutating(shape, lambda payload: payload))
    assert result.final_payload is CALL
    assert not result.modified


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_that_says_not_modified_does_not_apply_its_payload(shape: Shape) -> None:
    result = call(mutating(shape, lambda payload: MutationResult(modified=False, payload={"name": "other"})))
    assert result.final_payload is CALL
    (mutation,) = result.results
    assert isinstance(mutation, MutationResult)
    assert mutation.payload == CALL


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_answers_a_request(shape: Shape) -> None:
    result = call(mutating(shape, lambda payload: Answer({"content": []})))
    assert result.status == "success"
    assert (result.answer, result.answered_by) == ({"content": []}, "it")
    assert result.final_payload is CALL


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "value",
    [
        {"when": object()},
        {"n": float("nan")},
        {"n": float("inf")},
        {1: "a key that is no string"},
        {"set": {1}},
        {"bytes": b"x"},
        Answer({"n": float("-inf")}),
        MutationResult(modified=True, payload={"n": float("nan")}),
    ],
)
def test_a_mutator_that_returns_something_that_is_not_json_failed(shape: Shape, value: object) -> None:
    result = call(mutating(shape, lambda payload: value))
    assert result.status == "mutation_failed"
    assert failure_of(result)["data"]["reason"] == "the mutator returned something that is not JSON"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [None, True, False, SinkResult(recorded=True), SinkResult(recorded=False)], ids=str)
def test_a_sink_may_return_this(shape: Shape, value: object, caplog: pytest.LogCaptureFixture) -> None:
    decorate = sink(events=["tools/call"], phase="request", name="it", blocking=shape == "blocking def")
    seen: list[str] = []

    def record(payload: dict[str, Any]) -> object:
        seen.append(json.dumps(payload))
        return value

    result = call(decorate(handler_of(shape, record)))
    assert result.status == "success"
    assert result.results == []
    assert seen == [json.dumps(CALL)]
    assert not caplog.records


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "value", ["text", CALL, Answer({}), Note(text="x"), deny("x"), 0], ids=lambda v: type(v).__name__
)
def test_what_a_sink_may_not_return_is_a_logged_failure(
    shape: Shape, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    decorate = sink(events=["tools/call"], phase="request", name="it", blocking=shape == "blocking def")
    result = call(decorate(handler_of(shape, lambda payload: value)))
    assert result.status == "success"
    assert any("a sink may return None, True, False or a SinkResult" in str(r.exc_info) for r in caplog.records)
