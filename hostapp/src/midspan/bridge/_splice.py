"""Replacing single values in a JSON text, so that every other byte stays as it came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE: Final = rb"[ \t\r\n]*+"
_START: Final = re.compile(_SPACE + rb"\{")
_KEY: Final = re.compile(_SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL)
_NESTING: Final = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+([{}\[\]])", re.DOTALL)
_SCALAR: Final = re.compile(_STRING + rb"|[^\s,{}\[\]\"]++", re.DOTALL)
_AFTER: Final = re.compile(_SPACE + rb"([,}])")

Span = tuple[int, int]


def spans(text: bytes, *path: str) -> list[Span]:
    """Return where the values at a path begin and end; several when a key is there more than once.

    Takes linear time, also of what is no JSON.

    Args:
        text: a JSON object. Of what is none, nothing certain is found.
        path: keys from the outermost object on.
    """
    found = [(0, len(text))]
    for key in path:
        found = [span for start, end in found for name, span in _members(text, start, end) if name == key]
    return found


def splice(text: bytes, replaced: Iterable[tuple[Span, bytes]]) -> bytes:
    """Return the text with other values at these places, which do not overlap."""
    parts: list[bytes] = []
    at = 0
    for (start, end), value in sorted(replaced):
        parts += (text[at:start], value)
        at = end
    return b"".join((*parts, text[at:]))


def _members(text: bytes, start: int, end: int) -> Iterator[tuple[str, Span]]:
    begin = _START.match(text, start, end)
    at = begin.end() if begin else end
    while key := _KEY.match(text, at, end):
        stop = _end_of_value(text, key.end(), end)
        yield _name(key[1]), (key.end(), stop)
        after = _AFTER.match(text, stop, end)
        if after is None or after[1] == b"}":
            return
        at = after.end()


def _name(key: bytes) -> str:
    if b"\\" not in key:
        return key[1:-1].decode("utf-8", "surrogateescape")
    try:
        return json.loads(key.decode("utf-8"), strict=False)
    except ValueError:  # no JSON; then it is none of the keys that are looked for
        return ""


def _end_of_value(text: bytes, at: int, end: int) -> int:
    if text[at : at + 1] not in (b"{", b"["):
        scalar = _SCALAR.match(text, at, end)
        return scalar.end() if scalar else end
    depth = 0
    while token := _NESTING.match(text, at, end):
        at = token.end()
        depth += 1 if token[1] in b"{[" else -1
        if not depth:
            return at
    return end
