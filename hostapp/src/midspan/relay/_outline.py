"""What is certain of a message that is not, or cannot be, read as a whole.

Whoever waits for an answer must not wait for ever because the message was too long, too deep or not UTF-8. So the
outermost object is looked at from both ends: many peers write the id first, as many write it last, behind the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from midspan.relay._messages import MessageId, as_id, id_of

EDGE: Final = 1024
"""How many bytes at each end of a message are looked at."""

_SPACE: Final = rb"[ \t\r\n]*"
_STRING: Final = rb'"(?:[^"\\\x00-\x1f]|\\.){0,512}"'
_SCALAR: Final = _STRING + rb"|-?[0-9]{1,64}(?:\.[0-9]{1,64})?(?:[eE][+-]?[0-9]{1,4})?|true|false|null"
_START: Final = re.compile(_SPACE + rb"\{")
_KEY: Final = re.compile(_SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL)
_VALUE: Final = re.compile(rb"(" + _SCALAR + rb")" + _SPACE + rb"([,}])", re.DOTALL)
_LAST: Final = re.compile(
    rb"[,{]" + _SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE + rb"(" + _SCALAR + rb")" + _SPACE + rb"$",
    re.DOTALL,
)
_PLAIN_ID: Final = rb'(-?[0-9]{1,18}|"[^"\\]{0,128}")'
_ID_ROOM: Final = 192
# Python and Go write the id first, TypeScript last.
_ID_FIRST: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?' + _PLAIN_ID + rb', ?"(method|result|error)":')
_ID_LAST: Final = re.compile(rb', ?"jsonrpc": ?"2\.0", ?"id": ?' + _PLAIN_ID + rb"\}$")
_KEY_FIRST: Final = re.compile(rb'\{"(method|result|error)":')
_END: Final = re.compile(rb"\}" + _SPACE + rb"$")


@dataclass(frozen=True, slots=True)
class Outline:
    """What a message is.

    Attributes:
        id: its id where that is certain, else None.
        is_call: whether it has a method.
        is_answer: whether it has a result or an error.
    """

    id: MessageId | None
    is_call: bool
    is_answer: bool


def outlines_of_value(value: object, ambiguous: Iterable[str] = ()) -> list[Outline]:
    """Look at a message that was read, or at each of a batch; calls without an id in a batch are left out.

    Args:
        value: what was read.
        ambiguous: keys that its outermost object has more than once.
    """
    if isinstance(value, list):
        each = [_outline(message, ()) for message in cast("list[object]", value)]
        return [one for one in each if one.id is not None] or [_outline(None, ())]
    return [_outline(value, ambiguous)]


def _outline(value: object, ambiguous: Iterable[str]) -> Outline:
    keys = cast("dict[str, Any]", value).keys() if isinstance(value, dict) else ()
    # An answer that names two ids has certainly come, and readers take the last.
    certain = "id" not in ambiguous or "method" not in keys
    return Outline(id_of(value) if certain else None, "method" in keys, "result" in keys or "error" in keys)


def quick_id(text: bytes) -> tuple[bytes, bool] | None:
    """Return the text of a message's id, and whether the message is a call, as the usual writers write it.

    For a message that somebody else judges: of one that names two ids it gives one. None when it takes a closer look.
    """
    if first := _ID_FIRST.match(text):
        return first[1], first[2] == b"method"
    if (last := _ID_LAST.search(text, max(0, len(text) - _ID_ROOM))) and (key := _KEY_FIRST.match(text)):
        return last[1], key[1] == b"method"
    return None


def outline_of(text: bytes) -> Outline:
    """Look at a message without reading what lies between its two ends."""
    return outline_of_text(text[:EDGE], text[-EDGE:])


def outline_of_text(head: bytes, tail: bytes) -> Outline:
    """Look at the two ends of a message.

    Args:
        head: its first bytes.
        tail: its last bytes; the same as the head for a short one.
    """
    keys: set[bytes] = set()
    ids: set[bytes] = set()
    for key, value in (*_from_the_front(head), *_from_the_back(head, tail)):
        keys.add(key)
        if key == b'"id"' and value is not None:
            ids.add(value)
    return Outline(
        _id(ids.pop()) if len(ids) == 1 else None,
        b'"method"' in keys,
        b'"result"' in keys or b'"error"' in keys,
    )


def _from_the_front(head: bytes) -> Iterable[tuple[bytes, bytes | None]]:
    """Yield the first keys with their values, up to the first value that is an object, an array, or cut off."""
    start = _START.match(head)
    at = start.end() if start else len(head)
    while key := _KEY.match(head, at):
        value = _VALUE.match(head, key.end())
        yield key[1], value[1] if value else None
        if value is None or value[2] == b"}":
            return
        at = value.end()


def _from_the_back(head: bytes, tail: bytes) -> Iterable[tuple[bytes, bytes]]:
    """Yield the last keys with their values, back to the last value that is an object or an array."""
    end = _END.search(tail) if _START.match(head) else None
    while end and (last := _LAST.search(tail, 0, end.start())):
        yield last[1], last[2]
        end = last


def _id(text: bytes) -> MessageId | None:
    try:
        return as_id(json.loads(text))
    except ValueError:
        return None
