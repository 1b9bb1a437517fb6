"""JSON inside text: read, walked, and changed string by string."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midspan_sdk.payload import Text, edit_text, find_text


def shout(text: Text) -> str | None:
    return text.value.upper() if "loud" in text.value else None


def edited(text: str) -> str:
    payload = edit_text({"text": text}, shout)
    return text if payload is None else payload["text"]


def shown(text: str) -> list[tuple[str, str]]:
    return [(found.path, found.value) for found in find_text({"text": text}, {"value"})]


def test_strings_in_json_are_shown_one_by_one():
    assert shown('{"a": "x", "b": [1, "y"]}') == [("$.text | $.a", "x"), ("$.text | $.b[1]", "y")]


def test_an_edit_changes_nothing_but_its_string():
    text = '{ "n": 1.0,\n\t"big": 1e400, "a":"loud" , "same": "\\u00e9\\/", "n": -0, "x": NaN }'
    assert edited(text) == text.replace('"loud"', '"LOUD"')


def test_escapes_are_seen_through():
    assert shown('["l\\u006fud"]') == [("$.text | $[0]", "loud")]
    assert edited('["l\\u006fud \\n é"]') == '["LOUD \\n É"]'


def test_a_text_that_escapes_beyond_ascii_goes_on_doing_so():
    assert edited('["loud \\u00e9 \\ud83d\\ude00"]') == '["LOUD \\u00c9 \\ud83d\\ude00"]'


def test_a_lone_surrogate_stays_written_out():
    result = edited('["loud é \\ud800"]')
    result.encode()
    assert json.loads(result) == ["LOUD É \ud800"]


def test_json_in_json_in_text_is_reached():
    inner = json.dumps({"deep": json.dumps(["loud"])})
    outer = json.dumps({"inner": inner})
    assert json.loads(json.loads(json.loads(edited(outer))["inner"])["deep"]) == ["LOUD"]
    assert shown(outer) == [("$.text | $.inner | $.deep | $[0]", "loud")]


def test_below_the_depth_that_is_looked_into_text_is_text():
    text = "loud"
    for _ in range(12):
        text = json.dumps([text])
    assert "LOUD" in edited(text)


def test_keys_in_json_are_edited_without_losing_a_value():
    assert edited('{"loud":1, "LOUD":2, "loud":{"a":"loud"}}') == '{"LOUD (2)":1, "LOUD":2, "LOUD (3)":{"a":"LOUD"}}'


def test_repeated_keys_hide_nothing():
    assert edited('{"a": "loud", "a": "quiet"}') == '{"a": "LOUD", "a": "quiet"}'


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "loud"',
        '{"a": "loud"} trailing',
        "[loud]",
        '{"a": "loud"}\n{"b": "loud"}',
        '["loud" ' + "[" * 100_000 + "]",
        "[" * 100_000 + "]" * 100_000 + "loud",
        '["loud", ' + "9" * 5000 + "]",
    ],
    ids=["cut off", "trailing", "brackets", "lines", "open", "deep", "a number too long"],
)
def test_what_is_not_json_is_text(text: str):
    assert edited(text) == text.upper()
    assert shown(text) == [("$.text", text)]


def test_media_inside_json_inside_text_is_left_alone():
    picture = "A" * 80
    text = json.dumps({"content": [{"type": "image", "data": picture}, "loud"]})
    assert edited(text) == text.replace('"loud"', '"LOUD"')
    assert not any(picture in value for _, value in shown(text))


def test_a_protected_text_stays_protected_when_it_is_json():
    payload: dict[str, Any] = {"uri": '{"a": "loud"}'}
    assert edit_text(payload, shout) is None
    assert [(text.path, text.value) for text in find_text(payload, {"target"})] == [
        ("$.uri | $", "a"),
        ("$.uri | $.a", "loud"),
    ]
