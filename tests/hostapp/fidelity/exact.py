"""Equality of JSON that tells 1 from 1.0 and keeps the order of keys."""

from __future__ import annotations

import json
from typing import Any, cast

Node = tuple[str, Any]
"""The name of a type, and the value; objects as their pairs, in order."""


class _Pairs(list[tuple[str, Any]]):
    """An object as it stands in the text."""


def exact(text: bytes | str) -> Node:
    """Read a text so that two are equal only if the JSON is."""
    return _node(json.loads(text, object_pairs_hook=_Pairs))


def _node(value: Any) -> Node:
    if isinstance(value, _Pairs):
        return "object", [(key, _node(child)) for key, child in value]
    if isinstance(value, list):
        return "array", [_node(child) for child in cast("list[Any]", value)]
    if isinstance(value, float):
        return "float", repr(value)  # -0.0 is not 0.0
    return type(value).__name__, value


def assert_same(got: bytes | str, sent: bytes | str) -> None:
    """Assert that two texts are the same JSON.

    Raises:
        AssertionError: they differ; it shows the first place where, and not megabytes.
    """
    if got != sent and (difference := _difference(exact(got), exact(sent), "$")):
        raise AssertionError(difference)


def _difference(got: Node, sent: Node, path: str) -> str | None:
    if got[0] != sent[0] or got[0] not in ("object", "array"):
        return None if got == sent else f"{path}: got {_short(got)}, sent {_short(sent)}"
    if got[0] == "object":
        keys = [key for key, _ in got[1]], [key for key, _ in sent[1]]
        if keys[0] != keys[1]:
            return f"{path}: got the keys {_short(keys[0])}, sent {_short(keys[1])}"
        pairs = [(f"{path}.{ours[0]}", ours[1], theirs[1]) for ours, theirs in zip(got[1], sent[1], strict=True)]
    else:
        if len(got[1]) != len(sent[1]):
            return f"{path}: got {len(got[1])} items, sent {len(sent[1])}"
        pairs = [
            (f"{path}[{place}]", ours, theirs) for place, (ours, theirs) in enumerate(zip(got[1], sent[1], strict=True))
        ]
    return next((found for at, ours, theirs in pairs if (found := _difference(ours, theirs, at))), None)


def _short(value: Any) -> str:
    shown = ascii(value)
    return shown if len(shown) < 300 else f"{shown[:200]}...{shown[-80:]}"
