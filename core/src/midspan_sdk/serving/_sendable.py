"""What the MCP SDK's transports can carry, checked before they see it.

The transports encode a message outside of the call that sent it. What they cannot encode ends their task and with it
the connection; what the other side cannot decode is dropped there without an answer. So both are refused here, where
somebody can still be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

MAX_DEPTH: Final = 199
"""Levels of objects and arrays in `params` or `result`; the message adds one, and the SDK's reader stops at 200."""
MAX_INTEGER_BITS: Final = 14_000
"""About 4,200 digits; the SDK's reader takes 4,300."""


class UnsendableError(ValueError):
    """A value that the transports cannot carry. The text says what kind of fault, never the value or its place."""


def check_sendable(value: dict[str, Any]) -> None:
    """Check `params` or a `result`, which must be plain JSON already.

    Raises:
        UnsendableError: text with a lone surrogate, nesting deeper than `MAX_DEPTH`, an integer of more than
            `MAX_INTEGER_BITS` bits.
    """
    _check(value, MAX_DEPTH)


def _check(value: dict[str, Any] | list[Any], room: int) -> None:
    if room == 0:
        raise UnsendableError(f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key in value:
            if not key.isascii():
                _check_text(key)
    children: Iterable[Any] = value.values() if isinstance(value, dict) else value
    for child in children:
        kind = cast("type[Any]", type(child))
        if kind is str:
            if not child.isascii():
                _check_text(child)
        elif kind is dict or kind is list:
            _check(child, room - 1)
        elif kind is int and child.bit_length() > MAX_INTEGER_BITS:
            raise UnsendableError("holds an integer of more than 4,200 digits")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnsendableError("holds text that is not Unicode: a lone surrogate") from None
