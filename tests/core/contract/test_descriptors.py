"""Descriptors: read leniently, written strictly, refused where the protocol says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from midspan_sdk import Compat, Descriptor, Hook, PhasePriorities

REQUEST: dict[str, Any] = {"events": ["tools/call"], "phase": "request"}
RESPONSE: dict[str, Any] = {"events": ["tools/call"], "phase": "response"}
MINIMAL: dict[str, Any] = {"name": "it", "type": "validation", "hooks": [REQUEST]}


def read(**fields: Any) -> Descriptor:
    return Descriptor.model_validate({**MINIMAL, **fields})


def test_defaults_are_left_out_on_the_wire() -> None:
    assert read().to_wire() == MINIMAL
    spelled_out = read(mode="active", failOpen=False, priorityHint=0, description=None, version=None, compat=None)
    assert spelled_out == read()
    assert spelled_out.to_wire() == MINIMAL


def test_every_field_goes_over_the_wire_and_back() -> None:
    wire: dict[str, Any] = {
        "name": "guard/x.y",
        "version": "1.2.3",
        "description": "d",
        "type": "mutation",
        "hooks": [REQUEST, {"events": ["*", "prompts/*"], "phase": "response"}],
        "mode": "audit",
        "failOpen": True,
        "priorityHint": {"request": -5, "response": 7},
        "compat": {"minProtocol": "2025-06-18", "maxProtocol": "2026-07-28"},
        "configSchema": {"type": "object", "properties": {"camelCase": {"default": None}}},
    }
    descriptor = Descriptor.model_validate(wire)
    assert descriptor.to_wire() == wire
    assert Descriptor.model_validate(json.loads(json.dumps(descriptor.to_wire()))) == descriptor


@pytest.mark.parametrize("mode", [None, "", "enforce", "active"])
def test_older_words_for_the_active_mode_are_read(mode: object) -> None:
    assert read(mode=mode).mode == "active"
    assert "mode" not in read(mode=mode).to_wire()


@pytest.mark.parametrize("mode", ["Active", "off", "observe", 1, True, []])
def test_other_modes_are_refused(mode: object) -> None:
    with pytest.raises(ValidationError):
        read(mode=mode)


def test_both_phases_are_two_hooks_on_the_wire() -> None:
    both = {"events": ["tools/call"], "phase": "both"}
    assert read(hooks=[both]).to_wire()["hooks"] == [REQUEST, RESPONSE]
    mixed = [{"events": ["a"], "phase": "response"}, both]
    assert [hook.phase for hook in read(hooks=mixed).hooks] == ["response", "request", "response"]


@pytest.mark.parametrize("phase", ["request", "both"])
def test_the_older_singular_hook_is_read(phase: str) -> None:
    given = {"name": "it", "type": "validation", "hook": {"events": ["tools/call"], "phase": phase}}
    expected = [REQUEST] if phase == "request" else [REQUEST, RESPONSE]
    assert Descriptor.model_validate(given).to_wire()["hooks"] == expected


def test_unknown_keys_of_a_newer_peer_are_ignored() -> None:
    given = read(shiny=True, hooks=[{**REQUEST, "weight": 1}], priorityHint={"request": 1, "other": 2})
    assert given.to_wire() == {**MINIMAL, "priorityHint": {"request": 1}}


BAD: list[tuple[dict[str, Any], tuple[str | int, ...]]] = [
    ({"name": ""}, ("name",)),
    ({"name": "a\x00"}, ("name",)),
    ({"name": "a\x1b[2J"}, ("name",)),
    ({"name": "a\x7f"}, ("name",)),
    ({"name": "a\x85"}, ("name",)),
    ({"name": "a\udfff"}, ("name",)),
    ({"name": None}, ("name",)),
    ({"name": 5}, ("name",)),
    ({"type": "observability"}, ("type",)),
    ({"type": None}, ("type",)),
    ({"hooks": []}, ("hooks",)),
    ({"hooks": None}, ("hooks",)),
    ({"hooks": "tools/call"}, ("hooks",)),
    ({"hooks": [{"events": [], "phase": "request"}]}, ("hooks", 0, "events")),
    ({"hooks": [{"events": "tools/call", "phase": "request"}]}, ("hooks", 0, "events")),
    ({"hooks": [{"events": [""], "phase": "request"}]}, ("hooks", 0, "events")),
    ({"hooks": [{"events": ["a\n"], "phase": "request"}]}, ("hooks", 0, "events")),
    ({"hooks": [{"events": ["a"], "phase": "before"}]}, ("hooks", 0, "phase")),
    ({"hooks": [{"events": ["a"]}]}, ("hooks", 0, "phase")),
    ({"hooks": [REQUEST, {"phase": "request"}]}, ("hooks", 1, "events")),
    ({"priorityHint": 2**31}, ("priorityHint",)),
    ({"priorityHint": -(2**31) - 1}, ("priorityHint",)),
    ({"priorityHint": {"response": 2**31}}, ("priorityHint",)),
    ({"priorityHint": "1"}, ("priorityHint",)),
    ({"priorityHint": True}, ("priorityHint",)),
    ({"compat": {"maxProtocol": "x"}}, ("compat", "minProtocol")),
    ({"configSchema": {"type": "string"}}, ("configSchema",)),
    ({"configSchema": {}}, ("configSchema",)),
    ({"configSchema": True}, ("configSchema",)),
]


@pytest.mark.parametrize(("fields", "where"), BAD, ids=str)
def test_a_bad_descriptor_is_refused_and_the_error_names_the_field(
    fields: dict[str, Any], where: tuple[str | int, ...]
) -> None:
    with pytest.raises(ValidationError) as caught:
        read(**fields)
    assert caught.value.errors()[0]["loc"][: len(where)] == where


@pytest.mark.parametrize("missing", ["name", "type", "hooks"])
def test_a_required_field_is_missed(missing: str) -> None:
    given = {key: value for key, value in MINIMAL.items() if key != missing}
    with pytest.raises(ValidationError) as caught:
        Descriptor.model_validate(given)
    assert caught.value.errors()[0]["loc"] == (missing,)


@pytest.mark.parametrize("value", [None, 5, "text", []])
def test_something_else_than_an_object_is_no_descriptor(value: object) -> None:
    with pytest.raises(ValidationError):
        Descriptor.model_validate(value)


def test_a_null_priority_is_no_priority() -> None:
    assert read(priorityHint=None).priority("request") == 0


def test_names_may_be_any_printable_text() -> None:
    for name in ("conf/allow_all", "a b", "ü.ö", "名前", "a.b-c:d", "\U0001f310"):
        assert read(name=name).name == name


def test_a_priority_hint_without_a_side_is_no_hint() -> None:
    assert read(type="mutation", priorityHint={}).to_wire() == {**MINIMAL, "type": "mutation"}


def test_a_descriptor_matches_by_event_and_phase() -> None:
    descriptor = read(hooks=[REQUEST, {"events": ["*/list"], "phase": "response"}])
    assert descriptor.matches("tools/call")
    assert descriptor.matches("tools/call", "request")
    assert not descriptor.matches("tools/call", "response")
    assert descriptor.matches("resources/templates/list", "response")


def test_models_are_frozen_and_compare_by_value() -> None:
    assert Hook(events=("a",), phase="request") == Hook(events=("a",), phase="request")
    with pytest.raises(ValidationError):
        Hook(events=("a",), phase="request").phase = "response"  # pyright: ignore[reportAttributeAccessIssue]  # the case
    assert PhasePriorities() == PhasePriorities(request=0, response=0)


def test_a_protocol_range_includes_both_ends_and_may_be_open() -> None:
    bounded = Compat(min_protocol="2025-03-26", max_protocol="2025-11-25")
    versions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert [bounded.admits(version) for version in versions] == [False, True, True, True, False]
    unbounded = Compat(min_protocol="2025-06-18")
    assert [unbounded.admits(version) for version in versions] == [False, False, True, True, True]


@given(
    st.fixed_dictionaries(
        {
            "name": st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1),
            "type": st.sampled_from(["validation", "mutation", "sink"]),
            "hooks": st.lists(
                st.fixed_dictionaries(
                    {
                        "events": st.lists(st.sampled_from(["*", "tools/*", "a/b"]), min_size=1),
                        "phase": st.sampled_from(["request", "response"]),
                    }
                ),
                min_size=1,
            ),
        },
        optional={
            "mode": st.sampled_from(["active", "audit"]),
            "failOpen": st.booleans(),
            "priorityHint": st.integers(-(2**31), 2**31 - 1),
            "description": st.text(),
        },
    )
)
def test_what_was_read_is_what_is_written(wire: dict[str, Any]) -> None:
    descriptor = Descriptor.model_validate(wire)
    written = json.loads(json.dumps(descriptor.to_wire()))
    assert Descriptor.model_validate(written) == descriptor
    assert {key: wire[key] for key in written} == written
