"""What a mutator cannot change: absent in its output is put back, different is a failure of that mutator."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from midspan_sdk import FailedResult, mutator
from midspan_sdk.testing import run
from midspan_sdk.wire import Direction, Phase

call = partial(run, event="tools/call", phase="request")
META: dict[str, Any] = {
    "progressToken": 7,
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "acme/own": 1,
}


def returning(value: dict[str, Any], **options: Any) -> Any:
    return mutator(events=["*"], phase="both", name="it", **options)(lambda: value)


def refused(before: dict[str, Any], after: dict[str, Any], path: str, **where: Any) -> None:
    result = call(returning(after), payload=before, **where)
    assert result.status == "mutation_failed"
    assert result.final_payload is None
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error["data"]["reason"] == f"changed the protected part {path}"
    assert call(returning(after, fail_open=True), payload=before, **where).final_payload is before


def put_back(before: dict[str, Any], after: dict[str, Any], expected: dict[str, Any], **where: Any) -> None:
    result = call(returning(after), payload=before, **where)
    assert result.status == "success"
    assert result.final_payload == expected


@pytest.mark.parametrize("key", ["requestState", "cursor", "nextCursor"])
@pytest.mark.parametrize("phase", ["request", "response"])
@pytest.mark.parametrize("direction", ["sending", "receiving"])
def test_request_state_and_cursors_stay_in_both_phases_and_directions(
    key: str, phase: Phase, direction: Direction
) -> None:
    where: dict[str, Any] = {"phase": phase, "direction": direction}
    put_back({key: "opaque", "x": 1}, {"x": 2}, {key: "opaque", "x": 2}, **where)
    refused({key: "opaque"}, {key: "other"}, f"$.{key}", **where)
    refused({"x": 1}, {key: "invented"}, f"$.{key}", **where)
    refused({key: 1}, {key: True}, f"$.{key}", **where)


@pytest.mark.parametrize(
    "key",
    [
        "progressToken",
        "io.modelcontextprotocol/protocolVersion",
        "dev.mcp/x",
        "org.modelcontextprotocol.api/x",
        "com.mcp.tools/x",
        "modelcontextprotocol.io/x",
        "mcp.dev/x",
        "tools.mcp.com/x",
        "io.modelcontextprotocol/",
    ],
)
def test_reserved_meta_keys_stay(key: str) -> None:
    before: dict[str, Any] = {"_meta": {key: {"a": 1}, "acme/own": 1}, "x": 1}
    put_back(before, {"x": 2, "_meta": {"acme/own": 2}}, {"x": 2, "_meta": {"acme/own": 2, key: {"a": 1}}})
    put_back(before, {"x": 2}, {"x": 2, "_meta": {key: {"a": 1}}})
    refused(before, {"x": 2, "_meta": {key: {"a": 2}}}, f"$._meta.{key}")
    refused({"x": 1}, {"x": 1, "_meta": {key: 1}}, f"$._meta.{key}")
    refused(before, {"x": 2, "_meta": ["no object"]}, "$._meta")


@pytest.mark.parametrize("key", ["acme/own", "com.example.mcp/x", "mcpx.dev/x", "plain", "traceparent", "mcp"])
def test_other_meta_keys_are_the_mutator_s_to_change(key: str) -> None:
    put_back({"_meta": {key: 1}}, {"_meta": {key: 2}}, {"_meta": {key: 2}})
    put_back({"_meta": {key: 1}}, {}, {})
    put_back({}, {"_meta": {key: 1}}, {"_meta": {key: 1}})


def test_a_mutator_that_rebuilds_the_payload_keeps_the_reserved_part_of_meta() -> None:
    expected = {key: value for key, value in META.items() if key != "acme/own"}
    put_back({"name": "echo", "_meta": META}, {"name": "echo"}, {"name": "echo", "_meta": expected})


@pytest.mark.parametrize("key", ["name", "uri"])
def test_the_target_stays_where_validators_have_already_run(key: str) -> None:
    received: dict[str, Any] = {"direction": "receiving"}
    refused({key: "allowed"}, {key: "other"}, f"$.{key}", **received)
    refused({"x": 1}, {key: "invented"}, f"$.{key}", **received)
    put_back({key: "allowed", "x": 1}, {"x": 2}, {key: "allowed", "x": 2}, **received)


@pytest.mark.parametrize("key", ["name", "uri"])
def test_the_target_may_change_before_the_validators_run_and_in_a_response(key: str) -> None:
    put_back({key: "a"}, {key: "b"}, {key: "b"}, direction="sending")
    put_back({key: "a"}, {key: "b"}, {key: "b"}, phase="response", direction="receiving")


def test_the_result_type_of_an_interim_result_stays() -> None:
    interim: dict[str, Any] = {"resultType": "input_required", "inputRequests": {"a": {}}}
    where: dict[str, Any] = {"phase": "response"}
    put_back(interim, {"inputRequests": {"a": {"x": 1}}}, {**interim, "inputRequests": {"a": {"x": 1}}}, **where)
    refused(interim, {**interim, "resultType": "complete"}, "$.resultType", **where)
    refused({"content": [], "resultType": "complete"}, interim, "$.resultType", **where)
    refused({"content": []}, interim, "$.resultType", **where)
    put_back({"resultType": "complete"}, {"resultType": "other"}, {"resultType": "other"}, **where)


ERROR: dict[str, Any] = {"error": {"code": -32000, "message": "m", "data": {"path": "/srv"}}}


def test_the_code_of_an_error_stays_and_message_and_data_may_change() -> None:
    entry: dict[str, Any] = {"phase": "response", "error": True}

    def errors(value: dict[str, Any]) -> Any:
        return returning(value, errors=True)

    changed = call(errors({"error": {"message": "other"}}), payload=ERROR, **entry)
    assert changed.final_payload == {"error": {"message": "other", "code": -32000}}
    refused: list[dict[str, Any]] = [
        {"error": {"code": -32001, "message": "m"}},
        {"error": {"code": -32000.0, "message": "m"}},
        {"error": "text"},
        {"error": None},
        {"content": [], "error": ERROR["error"]},
        {"content": []},
    ]
    for after in refused:
        assert call(errors(after), payload=ERROR, **entry).status == "mutation_failed", after
    assert call(errors({}), payload=ERROR, **entry).final_payload == ERROR


def test_a_result_that_has_an_error_key_of_its_own_is_no_error() -> None:
    where: dict[str, Any] = {"phase": "response"}
    put_back(ERROR, {"error": {"code": 5}}, {"error": {"code": 5}}, **where)


@pytest.mark.parametrize("event", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
def test_a_changed_listing_leaves_with_a_private_cache_scope(event: str) -> None:
    before: dict[str, Any] = {"tools": [1, 2], "ttlMs": 5, "cacheScope": "public"}
    where: dict[str, Any] = {"event": event, "phase": "response"}
    put_back(before, {**before, "tools": [1]}, {**before, "tools": [1], "cacheScope": "private"}, **where)
    put_back(before, {"tools": [1]}, {"tools": [1], "cacheScope": "private"}, **where)
    put_back({"tools": [1, 2]}, {"tools": [1]}, {"tools": [1]}, **where)
    put_back(before, before, before, **where)


def test_what_was_put_back_is_what_the_next_mutator_sees() -> None:
    seen: list[Any] = []

    @mutator(events=["*"], phase="both", name="next", priority_hint=1)
    def look(payload: dict[str, Any]) -> None:
        seen.append(payload)

    call(returning({"x": 2}), look, payload={"x": 1, "requestState": "opaque"})
    assert seen == [{"x": 2, "requestState": "opaque"}]


def test_an_audit_mutator_that_changes_a_protected_part_failed_and_blocks_nothing() -> None:
    payload: dict[str, Any] = {"requestState": "opaque"}
    result = call(returning({"requestState": "other"}, mode="audit"), payload=payload)
    assert result.final_payload is payload
    assert isinstance(result.results[0], FailedResult)
