"""Replacing values in a JSON text touches nothing else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan.bridge._splice import spans, splice

KEYS = st.sampled_from(["id", "params", "_meta", 'a"b', "é", "\\", "x", "{", "\ud800"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)
SPACES = ("", " ", "\n", "\t\r ")


def written(value: Any, choice: random.Random) -> str:
    """Write a value in one of the many ways there are."""

    def space() -> str:
        return choice.choice(SPACES)

    def text(string: str) -> str:
        if choice.random() < 0.3:
            return '"' + "".join(f"\\u{unit:04x}" for unit in units(string)) + '"'
        return json.dumps(string, ensure_ascii=choice.random() < 0.5 or any(0xD800 <= ord(c) < 0xE000 for c in string))

    if isinstance(value, dict):
        members = [f"{space()}{text(key)}{space()}:{space()}{written(one, choice)}" for key, one in value.items()]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - JSON
        return "{" + f"{space()},".join(members) + space() + "}"
    if isinstance(value, list):
        return "[" + ",".join(space() + written(one, choice) + space() for one in value) + "]"  # pyright: ignore[reportUnknownVariableType] - JSON
    return text(value) if isinstance(value, str) else json.dumps(value)


def units(string: str) -> list[int]:
    raw = string.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[at : at + 2]) for at in range(0, len(raw), 2)]


@given(OBJECTS, st.lists(KEYS, min_size=1, max_size=3), VALUES, st.randoms(use_true_random=False))
def test_exactly_the_values_at_a_path_are_replaced(
    value: dict[str, Any], path: list[str], new: Any, choice: random.Random
) -> None:
    text = choice.choice(SPACES).encode() + written(value, choice).encode("utf-8", "surrogatepass")
    found = spans(text, *path)
    parent: Any = value
    for key in path[:-1]:
        parent = parent.get(key) if isinstance(parent, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON
    there = isinstance(parent, dict) and path[-1] in parent
    assert len(found) == there
    for start, end in found:
        assert json.loads(text[start:end]) == parent[path[-1]]
        replaced = splice(text, [((start, end), json.dumps(new).encode())])
        assert replaced[:start] == text[:start]
        assert replaced[len(replaced) - len(text) + end :] == text[end:]
        parent[path[-1]] = new
        assert json.loads(replaced) == value
        assert splice(replaced, [(spans(replaced, *path)[0], text[start:end])]) == text


@given(st.binary() | st.text(alphabet='{}[]",:\\ a1').map(str.encode))
def test_what_is_no_json_is_read_without_fault(text: bytes) -> None:
    for path in (("id",), ("a", "a"), ("",)):
        for start, end in spans(b'{"a":' + text, *path):
            assert 0 <= start <= end


def test_a_key_that_is_there_twice_is_replaced_twice() -> None:
    text = b'{"params":{"t":1,"\\u0074":"x"},"params":{"t":[{}]},"t":0}'
    replaced = splice(text, [(span, b"9") for span in spans(text, "params", "t")])
    assert replaced == b'{"params":{"t":9,"\\u0074":9},"params":{"t":9},"t":0}'


@pytest.mark.parametrize(
    "text", [b'{"a":"' + b'\\"' * 200_000, b'{"a":[' * 60_000, b'{"a":{' + b'"x":[],' * 60_000, b"{" + b" " * 400_000]
)
def test_time_is_linear(text: bytes) -> None:
    spans(text, "b", "c")
