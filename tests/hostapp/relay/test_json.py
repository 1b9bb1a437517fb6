"""Reading and writing JSON: lossless where it passes, strict where it is judged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midspan.relay import INVALID_REQUEST, PARSE_ERROR, JSONFaultError, read, write

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)
LONE = "\ud800"


def exact(value: Any) -> Any:
    """Return a value that is equal to another only if the JSON is: `1`, `1.0` and `true` differ."""
    if isinstance(value, dict):
        return {key: exact(child) for key, child in value.items()}  # pyright: ignore[reportUnknownVariableType] - any
    if isinstance(value, list):
        return [exact(child) for child in value]  # pyright: ignore[reportUnknownVariableType] - any JSON
    return (type(value).__name__, value)


@settings(max_examples=60)
@given(VALUES)
def test_what_was_written_reads_the_same(value: Any) -> None:
    document = read(write(value))
    assert exact(document.value) == exact(value)
    assert document.fault is None


@settings(max_examples=60)
@given(VALUES)
def test_what_was_read_is_written_the_same(value: Any) -> None:
    text = json.dumps(value).encode()
    assert exact(json.loads(write(read(text).value))) == exact(json.loads(text))


@pytest.mark.parametrize("text", ['{"a":1.0}', '{"a":1152921504606846977}', '{"a":null}', '{"b":"é😀","a":true}'])
def test_types_digits_and_order_survive(text: str) -> None:
    assert write(read(text.encode()).value).decode() == text


def test_a_lone_surrogate_survives_as_an_escape() -> None:
    written = write(read(b'{"a":"\\ud800","b":"\xc3\xa9"}').value)
    assert json.loads(written) == {"a": LONE, "b": "é"}
    assert written.isascii()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (b'{"a":1,"a":2}', "duplicate"),
        (b'{"x":[{"a":1,"\\u0061":1}]}', "duplicate"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":[Infinity]}', "Infinity"),
        (b'{"a":-Infinity}', "-Infinity"),
        (b'{"a":1e999}', "out of range"),
        (b'{"a":-1E400}', "out of range"),
    ],
)
def test_what_readers_take_differently_is_a_fault(text: bytes, word: str) -> None:
    assert word in str(read(text).fault)


def test_a_fault_of_one_text_is_none_of_the_next() -> None:
    assert read(b'{"a":1,"a":NaN}').fault
    document = read(b'{"a":1}')
    assert document.fault is None
    assert not document.duplicates


@pytest.mark.parametrize(
    ("text", "duplicates"),
    [
        (b'{"id":1,"method":"a","id":2}', {"id"}),
        (b'{"id":1,"params":{"a":1,"a":2}}', set[str]()),
        (b'{"params":{"a":1,"a":2},"id":1,"id":1,"method":"x","m\\u0065thod":"y"}', {"id", "method"}),
    ],
)
def test_the_outermost_duplicates_are_named(text: bytes, duplicates: set[str]) -> None:
    assert read(text).duplicates == duplicates


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"{", PARSE_ERROR),
        (b"", PARSE_ERROR),
        (b"{} {}", PARSE_ERROR),
        (b'{"a":01}', PARSE_ERROR),
        (b'{"a":"\x01"}', PARSE_ERROR),
        (b'\xef\xbb\xbf{"a":1}', PARSE_ERROR),
        (b'{"a":"\xff"}', PARSE_ERROR),
        (b'{"a":"\xed\xa0\x80"}', PARSE_ERROR),  # a surrogate as three bytes is not UTF-8
        (b'{"a":' + b"9" * 5000 + b"}", INVALID_REQUEST),
        (b"[" * 200_000, INVALID_REQUEST),
    ],
)
def test_what_is_no_json_is_refused_with_its_code(text: bytes, code: int) -> None:
    with pytest.raises(JSONFaultError) as caught:
        read(text)
    assert caught.value.code == code
    assert "9999" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes", object()])
def test_what_is_not_json_is_never_written(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        write({"a": value})
