"""JSON inside text: read it, and change single strings of it.

A change replaces the tokens of the strings that changed, and no other character: numbers, spacing, order and repeated
keys stay as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from json import JSONDecoder, dumps
from typing import Any, Final

_SPACE: Final = " \t\r\n"
_FIRST: Final = frozenset("{[" + _SPACE)
_START: Final = re.compile(r"[ \t\r\n]*+[\[{]")
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_UNPAIRED: Final = re.compile("[\ud800-\udfff]")


class Repeated:
    """A JSON object in which a key stands more than once: all its members, in order."""

    __slots__ = ("members",)

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        self.members = members


def _object(members: list[tuple[str, Any]]) -> dict[str, Any] | Repeated:
    plain = dict(members)
    return plain if len(plain) == len(members) else Repeated(members)


_DECODER: Final = JSONDecoder(object_pairs_hook=_object, strict=False)


def read_json(text: str) -> dict[str, Any] | list[Any] | Repeated | None:
    """Return the JSON object or array that the text is, or None when it is anything else."""
    if text[:1] not in _FIRST or _START.match(text) is None or text.rstrip(_SPACE)[-1:] not in ("}", "]"):
        return None
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def replace_strings(text: str, changes: Mapping[int, str]) -> str:
    """Return a JSON text with some strings replaced.

    Args:
        text: JSON.
        changes: by the position of the string among all strings of the text, keys included, from 0.
    """
    kept: list[str] = []
    done = 0
    for position, token in enumerate(_STRING.finditer(text)):
        new = changes.get(position)
        if new is not None:
            # A writer that escapes everything beyond ASCII, or has to, goes on doing so.
            escape = token.group().isascii() or _UNPAIRED.search(new) is not None
            kept += (text[done : token.start()], dumps(new, ensure_ascii=escape))
            done = token.end()
    kept.append(text[done:])
    return "".join(kept)
