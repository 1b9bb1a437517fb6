"""Plain JSON data: checked once, copied cheaply, compared strictly.

Isolation rests on copies. A copy shares the strings (Python's are immutable) and makes new only the containers, of
which the scan notes the places, so that a copy costs as much as the payload has objects and arrays, not bytes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any, Final, cast

from midspan_sdk.errors import NotPlainError

__all__ = ["NotPlainError", "Snapshot", "approximate_size", "changed_paths", "plain", "plain_object", "same"]

Plan = tuple[tuple[Any, Any], ...]
"""Where a container's own containers are: `(key or index, their plan)`."""

MAX_DEPTH: Final = 500
"""Levels of objects and arrays that a payload may have; a fixed number, so that it does not depend on who calls."""

_WIDE: Final = 500
"""So many containers in one, near the top, make a payload wide."""

TOO_DEEP: Final = "nested too deeply"

kind_of: Callable[[object], Any] = type
"""`type`, typed so that comparing its result says nothing of the value's parts."""

_SCALARS = frozenset({str, int, float, bool, type(None)})


def _scan_object(value: dict[Any, Any], room: int = MAX_DEPTH) -> Plan:
    if not room:
        raise NotPlainError("$", TOO_DEEP)
    found: list[tuple[Any, Plan]] | None = None
    for key, child in value.items():
        if type(key) is not str:
            raise NotPlainError("$", "a key is not a string")
        kind = kind_of(child)
        if kind in _SCALARS:
            if kind is float and not isfinite(child):
                raise NotPlainError("$", "is not a finite number")
            continue
        if found is None:
            found = []
        # Dispatched here and not in a function: one frame for each level of nesting.
        found.append((key, _scan_object(child, room - 1) if kind is dict else _scan_array(child, kind, room - 1)))
    return tuple(found) if found else ()


def _scan_array(value: list[Any], kind: Any, room: int) -> Plan:
    if kind is not list:
        raise NotPlainError("$", "is not plain JSON")
    if not room:
        raise NotPlainError("$", TOO_DEEP)
    found: list[tuple[Any, Plan]] | None = None
    for index, child in enumerate(value):
        kind = kind_of(child)
        if kind in _SCALARS:
            if kind is float and not isfinite(child):
                raise NotPlainError("$", "is not a finite number")
            continue
        if found is None:
            found = []
        found.append((index, _scan_object(child, room - 1) if kind is dict else _scan_array(child, kind, room - 1)))
    return tuple(found) if found else ()


def _copy(value: Any, plan: Plan) -> Any:
    new = value.copy()
    for key, child_plan in plan:
        child = value[key]
        new[key] = _copy(child, child_plan) if child_plan else child.copy()
    return new


def _copy_at_rest(value: Any, plan: Plan) -> Any:
    """Copy a wide payload without the collector.

    Thousands of new containers would set off full collections that walk the whole heap and find nothing: at 10 MB that
    was measured to triple the cost of a chain, which then is no longer linear.
    """
    if not gc.isenabled():
        return _copy(value, plan)
    gc.disable()
    try:
        return _copy(value, plan)
    finally:
        gc.enable()


def _is_wide(plan: Plan, levels: int = 4) -> bool:
    return len(plan) >= _WIDE or (levels > 0 and any(_is_wide(child, levels - 1) for _, child in plan if child))


class Snapshot:
    """A payload that nobody may change, from which anybody can have a copy.

    Attributes:
        value: the payload.
        copy: call it for a copy that shares no container with anything.

    Args:
        value: a JSON object. Dict and list subclasses, tuples and mappings are taken over as plain ones.

    Raises:
        NotPlainError: the value is not JSON: another type, a key that is no string, NaN, an infinity, a cycle.
    """

    __slots__ = ("copy", "value")

    def __init__(self, value: Mapping[str, Any]) -> None:
        try:
            if type(value) is dict:
                plain_value = cast("dict[str, Any]", value)
                self._take(plain_value, _scan_object(plain_value))
                return
        except NotPlainError:
            pass  # read once more, slowly, which finds the path or makes it plain
        except RecursionError:
            raise NotPlainError("$", TOO_DEEP) from None
        self._take(value := plain_object(cast("Mapping[str, Any]", value)), _scan_object(value))

    def _take(self, value: dict[str, Any], plan: Plan) -> None:
        self.value = value
        copy = _copy_at_rest if plan and _is_wide(plan) else _copy
        self.copy: Callable[[], dict[str, Any]] = partial(copy, value, plan) if plan else value.copy


def plain_object(value: object, *, path: str = "$") -> dict[str, Any]:
    """Return a fresh plain copy of a JSON object.

    Raises:
        NotPlainError: it is not a JSON object.
    """
    if not isinstance(value, Mapping):
        raise NotPlainError(path, f"must be a JSON object, not {type(value).__name__}")
    try:
        return plain(cast("Mapping[str, Any]", value), path)
    except RecursionError:
        raise NotPlainError(path, TOO_DEEP) from None


def plain(value: Any, path: str = "$", room: int = MAX_DEPTH) -> Any:
    """Return a fresh plain copy of any JSON value, at most `room` levels deep.

    Raises:
        NotPlainError: some part of it is not JSON; `path` says which.
        RecursionError: the caller's own stack leaves no room.
    """
    kind = kind_of(value)
    if kind in _SCALARS:
        if kind is float and not isfinite(value):
            raise NotPlainError(path, "is not a finite number")
        return value
    if not room:
        raise NotPlainError("$", TOO_DEEP)
    if isinstance(value, Mapping):
        copied: dict[str, Any] = {}
        for key, child in cast("Mapping[Any, Any]", value).items():
            if not isinstance(key, str):
                raise NotPlainError(path, f"has a key of type {type(key).__name__}; JSON keys are strings")
            copied[str(key)] = plain(child, f"{path}.{key}", room - 1)
        return copied
    if isinstance(value, list | tuple):
        items: list[Any] = []
        for index, child in enumerate(cast("list[Any]", value)):  # a comprehension would take a frame of its own
            items.append(plain(child, f"{path}[{index}]", room - 1))
        return items
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return plain(base(cast("Any", value)), path, room)
    raise NotPlainError(path, f"is a {kind.__name__}, which JSON does not have")


def same(one: Any, other: Any) -> bool:
    """Tell whether two plain values are the same JSON; `1`, `1.0` and `true` are three different ones."""
    left = [(one, other)]
    while left:  # no recursion: what could be copied can be compared
        a, b = left.pop()
        if a is b:
            continue
        kind = kind_of(a)
        if kind is not kind_of(b):
            return False
        if kind is dict:
            if a.keys() != b.keys():
                return False
            left += [(child, b[key]) for key, child in a.items()]
        elif kind is list:
            if len(a) != len(b):
                return False
            left += zip(a, b, strict=True)
        elif a != b:
            return False
    return True


def approximate_size(value: Any) -> int:
    """Return about how many bytes the value takes as JSON; never less than its text."""
    size = 0
    left = [value]
    while left:  # no recursion: a payload that could be copied must not fail here
        one = left.pop()
        if isinstance(one, str):
            size += len(one) + 2
        elif isinstance(one, dict):
            children = cast("dict[str, Any]", one)
            size += 2 + 4 * len(children) + sum(map(len, children))
            left += children.values()
        elif isinstance(one, list):
            items = cast("list[Any]", one)
            size += 2 + len(items)
            left += items
        else:
            size += 4
    return size


def changed_paths(before: Any, after: Any, path: str = "$") -> list[str]:
    """Return the JSON paths at which two plain values differ, innermost, in order of appearance.

    Where an object has other keys than before, its own path stands for them: the old key may be what was redacted.
    """
    if kind_of(before) is dict and kind_of(after) is dict:
        old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        found = [] if old.keys() == new.keys() else [path]
        for key, value in old.items():
            if key in new and value is not new[key]:
                found += changed_paths(value, new[key], f"{path}.{key}")
        return found
    if kind_of(before) is list and kind_of(after) is list:
        olds, news = cast("list[Any]", before), cast("list[Any]", after)
        if len(olds) == len(news):
            return [
                where
                for index, (a, b) in enumerate(zip(olds, news, strict=True))
                if a is not b
                for where in changed_paths(a, b, f"{path}[{index}]")
            ]
    return [] if same(before, after) else [path]
