"""Durations with units."""

from __future__ import annotations

import re
from decimal import Decimal

_DURATION = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>ms|s|m|h)", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
PATTERN = r"^\s*([0-9]{1,9}(\.0{1,9})?\s*ms|[0-9]{1,9}(\.[0-9]{1,3}0{0,6})?\s*s|[0-9]{1,9}(\.[0-9]{1,9})?\s*[mh])\s*$"
"""What a duration looks like, as far as a JSON Schema can tell: that it is above zero, and how many decimals a minute
may have, it cannot."""

FORM = 'a duration with its unit, such as "250ms", "1.5s" or "2m"'


def milliseconds(value: object) -> int:
    """Read a duration.

    Args:
        value: a number and one of the units `ms`, `s`, `m`, `h`. A bare number is refused: nobody can tell what it
            counts.

    Returns:
        Whole milliseconds, at least one.

    Raises:
        ValueError: it is none, or not a whole number of milliseconds above zero; the message says what is accepted.
    """
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be {FORM}")
    exact = Decimal(match["number"]) * _MILLISECONDS[match["unit"]]
    if exact <= 0 or exact != int(exact):
        raise ValueError("must be a whole number of milliseconds above zero")
    return int(exact)


def duration_text(value: int) -> str:
    """Write milliseconds as the file has them, in the largest unit that needs no fraction: `5000` is `5s`."""
    unit = max((unit for unit in _MILLISECONDS if value % _MILLISECONDS[unit] == 0), key=_MILLISECONDS.__getitem__)
    return f"{value // _MILLISECONDS[unit]}{unit}"
