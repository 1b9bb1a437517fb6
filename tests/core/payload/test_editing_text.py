"""`edit_text`: which texts an editor sees, and what becomes of what it returns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midspan_sdk.payload import Text, edit_text


def shout(text: Text) -> str | None:
    return text.value.upper() if "loud" in text.value else None


def seen(payload: dict[str, Any]) -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []
    edit_text(payload, lambda text: texts.append((text.path, text.value)) if text.part == "value" else None)
    return texts


def test_text_is_edited_wherever_it_stands():
    payload: dict[str, Any] = {
        "content": [
            {"type": "text", "text": "loud text"},
            {"type": "resource", "resource": {"uri": "file:///loud", "text": "loud resource"}},
        ],
        "structuredContent": {"rows": [["loud row"]]},
        "_meta": {"com.example/note": "loud note"},
    }
    edited = edit_text(payload, shout)
    assert edited == {
        "content": [
            {"type": "text", "text": "LOUD TEXT"},
            {"type": "resource", "resource": {"uri": "FILE:///LOUD", "text": "LOUD RESOURCE"}},
        ],
        "structuredContent": {"rows": [["LOUD ROW"]]},
        "_meta": {"com.example/note": "LOUD NOTE"},
    }


@pytest.mark.parametrize(
    "payload",
    [
        {"level": "info", "data": {"why": "loud"}},
        {"progress": 1, "message": "loud"},
        {"error": {"code": -32000, "message": "loud", "data": ["loud"]}},
        {"messages": [{"role": "user", "content": {"type": "text", "text": "loud"}}], "systemPrompt": "loud"},
        {"tools": [{"name": "a", "title": "loud", "description": "loud", "inputSchema": {"description": "loud"}}]},
        {"serverInfo": {"name": "s"}, "instructions": "loud"},
    ],
    ids=["log", "progress", "error", "sampling", "listing", "instructions"],
)
def test_every_kind_of_message_is_reached(payload: dict[str, Any]):
    edited = edit_text(payload, shout)
    assert edited is not None
    assert "loud" not in json.dumps(edited)


def test_an_unchanged_payload_comes_back_as_none():
    payload = {"arguments": {"text": "quiet", "json": '{"a": 1.0}'}}
    assert edit_text(payload, shout) is None
    assert edit_text(payload, lambda text: text.value) is None


def test_the_payload_that_was_given_is_not_changed():
    payload: dict[str, Any] = {"arguments": {"loud key": ["loud", {"deep": "loud"}]}}
    before = json.dumps(payload)
    assert edit_text(payload, shout) is not None
    assert json.dumps(payload) == before


def test_what_did_not_change_is_the_very_same_object():
    payload: dict[str, Any] = {"arguments": {"a": {"quiet": [1, 2]}, "b": "loud", "c": [{"x": None}]}}
    edited = edit_text(payload, shout)
    assert edited is not None
    assert edited["arguments"]["a"] is payload["arguments"]["a"]
    assert edited["arguments"]["c"] is payload["arguments"]["c"]


def test_types_and_key_order_survive_an_edit():
    payload: dict[str, Any] = {
        "arguments": {"z": 1, "f": 1.0, "big": 2**60 + 1, "t": True, "n": None, "a": "loud", "m": []}
    }
    edited = edit_text(payload, shout)
    assert json.dumps(edited) == json.dumps(payload).replace('"loud"', '"LOUD"')


def test_an_editor_sees_the_texts_in_document_order_with_their_paths():
    payload = {"a": "1", "b": [{"c": "2"}, "3"], "odd key": "4", "quote's": "5"}
    assert seen(payload) == [
        ("$.a", "1"),
        ("$.b[0].c", "2"),
        ("$.b[1]", "3"),
        ("$['odd key']", "4"),
        ("$['quote\\'s']", "5"),
    ]


def test_a_text_knows_the_key_it_stands_under():
    names: list[str | None] = []
    payload = {"token": "a", "list": ["b", ["c"]]}
    edit_text(payload, lambda text: names.append(text.name) if text.part == "value" else None)
    assert names == ["token", "list", "list"]


def test_a_long_key_is_cut_in_a_path():
    ((path, _),) = seen({"k" * 5000: "x"})
    assert len(path) < 100


def test_keys_are_edited_and_keep_their_place():
    payload: dict[str, Any] = {"arguments": {"a": 1, "loud": 2, "z": 3}}
    assert json.dumps(edit_text(payload, shout)) == '{"arguments": {"a": 1, "LOUD": 2, "z": 3}}'


def test_two_keys_that_become_one_lose_no_value():
    payload: dict[str, Any] = {"arguments": {"x": 0, "secret-1": 1, "secret-2": 2, "secret-3": {"deep": 3}}}
    edited = edit_text(payload, lambda text: "x" if text.value.startswith("secret") else None)
    assert edited == {"arguments": {"x": 0, "x (2)": 1, "x (3)": 2, "x (4)": {"deep": 3}}}


def test_a_key_and_the_value_under_it_are_both_edited():
    edited = edit_text({"arguments": {"loud": "loud", "loud too": {"a": "loud"}}}, shout)
    assert edited == {"arguments": {"LOUD": "LOUD", "LOUD TOO": {"a": "LOUD"}}}


def test_a_path_names_an_edited_key_as_it_was_edited():
    paths: list[str] = []

    def editor(text: Text) -> str | None:
        paths.append(text.path)
        return "hidden" if text.value == "loud" else None

    edit_text({"arguments": {"loud": {"a": "b"}}}, editor)
    assert "$.arguments.hidden.a" in paths
    assert not any("loud" in path for path in paths)


@pytest.mark.parametrize(
    "payload",
    [
        {"name": "loud", "arguments": {}},
        {"uri": "loud"},
        {"ref": {"type": "ref/prompt", "name": "loud"}},
        {"taskId": "loud"},
        {"cursor": "loud"},
        {"tools": [], "nextCursor": "loud"},
        {"requestState": "loud", "arguments": {}},
        {"progressToken": "loud", "progress": 1},
        {"_meta": {"progressToken": "loud"}},
        {"_meta": {"io.modelcontextprotocol/clientInfo": {"loud": "loud"}}},
        {"content": [{"type": "text", "text": "", "_meta": {"dev.mcp/x": "loud"}}]},
    ],
    ids=str,
)
def test_what_others_act_on_is_not_shown(payload: dict[str, Any]):
    assert edit_text(payload, shout) is None


def test_these_names_are_ordinary_ones_further_down():
    arguments = dict.fromkeys(["name", "uri", "ref", "cursor", "requestState", "progressToken"], "loud")
    edited = edit_text({"arguments": arguments}, shout)
    assert edited == {"arguments": dict.fromkeys(arguments, "LOUD")}


def test_a_payload_as_deep_as_a_parser_allows_is_edited():
    deep: Any = "loud"
    for level in range(5000):
        deep = [deep] if level % 2 else {"k": deep}
    edited = edit_text({"arguments": deep}, shout)
    inner: Any = edited
    for level in range(5001):
        inner = inner["arguments" if level == 0 else 0 if level % 2 else "k"]
    assert inner == "LOUD"
