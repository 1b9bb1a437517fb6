"""`find_text`: also shows what may not be edited, and says so."""

from __future__ import annotations

from typing import Any

from midspan_sdk.payload import EDITABLE_PARTS, PROTECTED_PARTS, edit_text, find_text

CALL: dict[str, Any] = {
    "name": "search",
    "arguments": {"q": "words", "n": 3},
    "requestState": "opaque",
    "_meta": {"progressToken": "t-1", "io.modelcontextprotocol/x": {"k": "reserved"}, "com.example/y": "free"},
}


def test_every_text_says_what_it_is_part_of():
    found = {(text.value, text.part, text.editable) for text in find_text(CALL) if text.value not in CALL}
    assert found == {
        ("search", "target", False),
        ("q", "key", True),
        ("words", "value", True),
        ("n", "key", True),
        ("progressToken", "meta", False),
        ("t-1", "meta", False),
        ("io.modelcontextprotocol/x", "meta", False),
        ("k", "meta", False),
        ("reserved", "meta", False),
        ("com.example/y", "key", True),
        ("free", "value", True),
    }


def test_request_state_is_shown_to_nobody():
    assert not any(text.value in ("opaque", "requestState") for text in find_text(CALL))


def test_only_the_wanted_parts_are_returned():
    assert [text.path for text in find_text(CALL, {"target"})] == ["$.name"]
    protected = find_text(CALL, PROTECTED_PARTS)
    editable = find_text(CALL, EDITABLE_PARTS)
    assert len(protected) + len(editable) == len(find_text(CALL))
    assert all(not text.editable for text in protected)


def test_cursors_and_targets_of_all_kinds_are_found():
    payload = {"uri": "u", "ref": {"type": "ref/resource", "uri": "r"}, "taskId": "t", "cursor": "c", "nextCursor": "n"}
    parts = {text.path: text.part for text in find_text(payload, PROTECTED_PARTS)}
    assert parts == {
        "$.uri": "target",
        "$.ref": "target",
        "$.ref.type": "target",
        "$.ref.uri": "target",
        "$.taskId": "target",
        "$.cursor": "cursor",
        "$.nextCursor": "cursor",
    }


def test_an_editor_is_shown_what_find_text_calls_editable():
    shown: list[tuple[str, str]] = []
    edit_text(CALL, lambda text: shown.append((text.path, text.value)))
    assert shown == [(text.path, text.value) for text in find_text(CALL, EDITABLE_PARTS)]


def test_a_path_does_not_repeat_the_value():
    assert all("words" not in repr(text) for text in find_text(CALL))
