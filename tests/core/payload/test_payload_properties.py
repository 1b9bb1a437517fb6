"""Laws that hold for any payload."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midspan_sdk.payload import Text, edit_text, find_text

# The machine may be busy; what these tests are about is no matter of time.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(TEXT, children, max_size=4)
        | st.builds(json.dumps, children)
        | st.builds(json.dumps, children, ensure_ascii=st.just(False), indent=st.just(1))
    ),
    max_leaves=20,
)
PAYLOAD = st.dictionaries(TEXT | st.sampled_from(["arguments", "_meta", "name"]), JSON, max_size=4)


def shape(value: Any) -> Any:
    """Return the payload with every text the same, and JSON in text read."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            return "text"
        return ["in text", shape(inner)] if isinstance(inner, dict | list) else "text"
    if isinstance(value, dict):
        return [shape(child) for child in value.values()]  # pyright: ignore[reportUnknownVariableType] - any JSON
    if isinstance(value, list):
        return [shape(child) for child in value]  # pyright: ignore[reportUnknownVariableType] - any JSON
    return (type(value).__name__, value)


def has_marks(text: Text) -> str | None:
    return f"<{text.value}>" if text.part == "value" else None


@given(PAYLOAD)
@UNHURRIED
def test_an_editor_that_returns_what_it_got_changes_nothing(payload: dict[str, Any]):
    assert edit_text(payload, lambda text: text.value) is None


@given(PAYLOAD)
@UNHURRIED
def test_an_edit_of_every_text_keeps_the_shape(payload: dict[str, Any]):
    edited = edit_text(payload, has_marks)
    assert shape(edited if edited is not None else payload) == shape(payload)


@given(PAYLOAD)
@UNHURRIED
def test_every_text_that_was_edited_is_found_edited(payload: dict[str, Any]):
    edited = edit_text(payload, has_marks)
    before = [text.value for text in find_text(payload, {"value"})]
    after = [text.value for text in find_text(edited if edited is not None else payload, {"value"})]
    assert after == [f"<{value}>" for value in before]


@given(PAYLOAD)
@UNHURRIED
def test_edited_keys_keep_the_number_and_order_of_members(payload: dict[str, Any]):
    edited = edit_text(payload, lambda text: "same" if text.part == "key" else None)
    assert shape(edited if edited is not None else payload) == shape(payload)
