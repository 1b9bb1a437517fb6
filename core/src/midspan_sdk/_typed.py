"""Typed payloads: a handler edits a pydantic model, the message keeps what the model does not know."""

from __future__ import annotations

import json
from typing import Any, cast

from pydantic import BaseModel

from midspan_sdk._plain import plain_object, same


def apply_typed_change(original: dict[str, Any], changed: BaseModel) -> dict[str, Any]:
    """Return the original payload with what the handler changed in its model.

    A model drops keys that it does not declare and fills in defaults. So what counts is the difference between the
    model as read from the original and as returned: only that is applied, and unknown keys stay.

    Raises:
        pydantic.ValidationError: the original does not fit the model.
        NotPlainError: the model does not dump to JSON.
    """
    before = _dump(type(changed).model_validate(original))
    after = _dump(changed)
    return cast("dict[str, Any]", _merge(plain_object(original), before, after))


def _dump(model: BaseModel) -> dict[str, Any]:
    return plain_object(model.model_dump(mode="json", by_alias=True))


def _merge(original: Any, before: Any, after: Any) -> Any:
    if same(before, after):
        return original
    if isinstance(original, dict) and isinstance(before, dict) and isinstance(after, dict):
        merged = cast("dict[str, Any]", original)
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        for key in [key for key in old if key not in new]:
            merged.pop(key, None)
        for key, value in new.items():
            if key not in old:
                merged[key] = value
            elif not same(old[key], value):
                merged[key] = _merge(merged[key], old[key], value) if key in merged else value
        return merged
    if isinstance(original, list) and isinstance(before, list) and isinstance(after, list):
        items, old_items = cast("list[Any]", original), cast("list[Any]", before)
        if len(items) == len(old_items):
            return _merge_items(items, old_items, cast("list[Any]", after))
    return cast("Any", after)


def _merge_items(originals: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Return the list as it is after, each item with the unknown keys of the item it was.

    An item that the handler did not edit is recognised wherever it now stands, so that filtering and sorting keep what
    the model does not know. An edited item is recognised by its place, when the list has as many items as before.
    """
    unclaimed: dict[str, list[int]] = {}
    for index, item in enumerate(before):
        unclaimed.setdefault(_text(item), []).append(index)
    merged: list[Any] = [None] * len(after)
    edited: list[int] = []
    for index, item in enumerate(after):
        if places := unclaimed.get(_text(item)):
            merged[index] = originals[places.pop(0)]
        else:
            edited.append(index)
    free = {index for places in unclaimed.values() for index in places}
    for index in edited:
        in_place = len(before) == len(after) and index in free
        merged[index] = _merge(originals[index], before[index], after[index]) if in_place else after[index]
    return merged


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
