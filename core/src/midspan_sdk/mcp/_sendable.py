"""What the MCP SDK's transports can carry, checked before they see it.

The transports encode a message outside of the call that sent it. What they cannot encode ends their task and with it
the connection; what the other side cannot decode is dropped there without an answer. So both are refused here, where
somebody can still be told.
"""

from __future__ import annotations

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


def _check(value: object, room: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        _check_room(room)
        for key, child in cast("dict[str, object]", value).items():
            _check_text(key)
            _check(child, room - 1)
    elif isinstance(value, list):
        _check_room(room)
        for child in cast("list[object]", value):
            _check(child, room - 1)
    elif isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise UnsendableError("holds an integer of more than 4,200 digits")


def _check_room(room: int) -> None:
    if room == 0:
        raise UnsendableError(f"is nested deeper than {MAX_DEPTH} levels")


def _check_text(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnsendableError("holds text that is not Unicode: a lone surrogate") from None
