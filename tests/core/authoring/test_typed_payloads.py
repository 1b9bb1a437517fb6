"""Typed payloads: a handler works on a pydantic model; the message keeps what the model does not know."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from midspan_sdk import DefinitionError, FailedResult, mutator, validator
from midspan_sdk.testing import run


class Arguments(BaseModel):
    path: str
    depth: int = 1


class Call(BaseModel):
    name: str
    arguments: Arguments
    note: str | None = None


class Tool(BaseModel):
    name: str
    description: str = ""
    input_schema: dict[str, Any] = Field(alias="inputSchema", default_factory=dict[str, Any])


class Tools(BaseModel):
    tools: list[Tool]


CALL: dict[str, Any] = {
    "name": "read",
    "arguments": {"path": "/etc", "encoding": None, "x": {"y": [1, 1.0, True]}},
    "_meta": {"progressToken": 7, "acme": "kept"},
}
TOOLS: dict[str, Any] = {
    "tools": [
        {"name": "a", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "b", "description": "B", "inputSchema": {"type": "object"}, "icons": [{"src": "data:b"}]},
        {"name": "c", "inputSchema": {"type": "object"}, "_meta": {"acme": 1}},
    ],
    "nextCursor": "2",
    "ttlMs": 5,
}

call = partial(run, event="tools/call", phase="request", payload=CALL)
listing = partial(run, event="tools/list", phase="response", payload=TOOLS)


def on_calls(handler: Any) -> Any:
    return mutator(events=["tools/call"], phase="request", name="it")(handler)


def on_listings(handler: Any) -> Any:
    return mutator(events=["tools/list"], phase="response", name="it")(handler)


def text(value: Any) -> str:
    return json.dumps(value)


def test_an_edit_through_a_model_keeps_unknown_keys_their_order_and_types() -> None:
    def move(params: Call) -> Call:
        params.arguments.path = "/srv"
        return params

    result = call(on_calls(move))
    expected = json.loads(text(CALL).replace("/etc", "/srv"))
    assert text(result.final_payload) == text(expected)


def test_defaults_of_the_model_are_not_added_to_the_message() -> None:
    def rename(params: Call) -> Call:
        return params.model_copy(update={"name": "write"})

    result = call(on_calls(rename))
    assert result.final_payload is not None
    assert "note" not in result.final_payload
    assert "depth" not in result.final_payload["arguments"]


def test_a_default_that_the_handler_sets_is_added() -> None:
    def annotate(params: Call) -> Call:
        params.note = "checked"
        params.arguments.depth = 2
        return params

    result = call(on_calls(annotate))
    assert result.final_payload == {**CALL, "note": "checked", "arguments": {**CALL["arguments"], "depth": 2}}


def test_an_unchanged_model_is_no_change_although_the_model_knows_less() -> None:
    def same(params: Call) -> Call:
        return params.model_copy(deep=True)

    result = call(on_calls(same))
    assert result.final_payload is CALL
    assert not result.modified


def test_a_model_edited_in_place_and_not_returned_is_a_failure() -> None:
    def forgets(params: Call) -> None:
        params.name = "write"

    result = call(on_calls(forgets))
    assert result.status == "mutation_failed"
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error["data"]["reason"] == "the mutator returned the wrong type"


def test_one_item_of_a_list_is_edited_and_its_unknown_keys_stay() -> None:
    def describe(result: Tools) -> Tools:
        result.tools[0].description = "A"
        return result

    result = listing(on_listings(describe))
    first, *others = TOOLS["tools"]
    assert result.final_payload == {**TOOLS, "tools": [{**first, "description": "A"}, *others]}


def test_an_item_is_taken_out_of_a_list_and_the_others_keep_their_unknown_keys() -> None:
    def hide(result: Tools) -> Tools:
        return Tools(tools=[tool for tool in result.tools if tool.name != "b"])

    result = listing(on_listings(hide))
    first, _, third = TOOLS["tools"]
    assert text(result.final_payload) == text({**TOOLS, "tools": [first, third]})


def test_items_are_reordered_and_added_and_the_old_ones_keep_their_unknown_keys() -> None:
    def shuffle(result: Tools) -> Tools:
        new = Tool.model_validate({"name": "d", "inputSchema": {"type": "object"}})
        return Tools(tools=[result.tools[2], new, result.tools[0], result.tools[1]])

    result = listing(on_listings(shuffle))
    assert result.final_payload is not None
    first, second, third = TOOLS["tools"]
    assert result.final_payload["tools"] == [
        third,
        {"name": "d", "description": "", "inputSchema": {"type": "object"}},
        first,
        second,
    ]


def test_a_key_that_the_model_drops_on_purpose_is_dropped() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        arguments: dict[str, Any]

    def strip(params: Open) -> Open:
        del params.arguments["encoding"]
        return params

    result = call(on_calls_with(Open, strip))
    assert result.final_payload is not None
    assert result.final_payload["arguments"] == {"path": "/etc", "x": {"y": [1, 1.0, True]}}


def on_calls_with(model: type[BaseModel], handler: Any) -> Any:
    handler.__annotations__["params"] = model
    return on_calls(handler)


def test_a_typed_model_may_be_returned_by_a_handler_that_took_the_plain_payload() -> None:
    def move(payload: dict[str, Any]) -> Call:
        return Call.model_validate({**payload, "name": "write"})

    result = call(on_calls(move))
    assert result.final_payload == {**CALL, "name": "write"}


@pytest.mark.parametrize("payload", [{"name": "read"}, {"name": 5, "arguments": {"path": "secret-value"}}, {}])
def test_a_payload_that_does_not_fit_is_a_failure_that_names_fields_and_no_values(payload: dict[str, Any]) -> None:
    @validator(events=["tools/call"], phase="request", name="it")
    def check(params: Call) -> None:
        raise AssertionError("must not be called")

    result = call(check, payload=payload)
    assert result.status == "validation_failed"
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error["code"] == -32602
    assert failed.error["data"]["reason"].startswith("the payload does not fit Call: ")
    assert "secret-value" not in str(failed.error)


@pytest.mark.parametrize("annotation", [None, dict[str, Any], "dict[str, Any]", Call | None])
def test_a_typed_payload_needs_a_model(annotation: Any) -> None:
    def handler(params: Any) -> None: ...

    handler.__annotations__ = {} if annotation is None else {"params": annotation}
    with pytest.raises(DefinitionError) as caught:
        validator(events=["tools/call"], phase="request", name="it")(handler)
    assert str(caught.value) == "interceptor 'it': params: must be annotated with a pydantic model"


def test_an_annotation_that_cannot_be_resolved_is_refused() -> None:
    def check(params: Any) -> None: ...

    check.__annotations__["params"] = "Missing"
    with pytest.raises(DefinitionError) as caught:
        validator(events=["tools/call"], phase="request", name="it")(check)
    assert str(caught.value) == (
        "interceptor 'it': params: the annotation 'Missing' cannot be resolved "
        "(name 'Missing' is not defined); import it at run time"
    )
