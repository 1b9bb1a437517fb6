"""What differs between two payloads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan.sight import changes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b c"]), inner, max_size=2),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [{"path": "$.a.b", "before": 1, "after": 2}]),
        ({"a b": 1}, {}, [{"path": '$["a b"]', "before": 1}]),
        ({}, {"a": None}, [{"path": "$.a", "after": None}]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [{"path": "$.a[1]", "before": 2}]),
        ({"a": [1]}, {"a": [0, 1]}, [{"path": "$.a[0]", "after": 0}]),
        ({"a": [{"x": 1}, 5]}, {"a": [{"x": 2}, 5]}, [{"path": "$.a[0].x", "before": 1, "after": 2}]),
        ({"a": 1}, {"a": True}, [{"path": "$.a", "before": 1, "after": True}]),
    ],
)
def test_the_smallest_values_that_differ_are_told(before: Any, after: Any, expected: list[dict[str, Any]]) -> None:
    assert [change.as_json() for change in changes(before, after)] == expected


@given(JSON)
def test_nothing_differs_from_itself(value: object) -> None:
    assert list(changes(value, value)) == []


@given(JSON, JSON)
def test_what_differs_has_a_change(before: object, after: object) -> None:
    same = before == after and repr(before) == repr(after)
    assert same or list(changes(before, after)) or sorted(repr(before)) == sorted(repr(after))
