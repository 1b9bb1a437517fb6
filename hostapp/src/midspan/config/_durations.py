"""Durations with units."""

from __future__ import annotations

import re
from decimal import Decimal

_DURATION = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>ms|s|m|h)", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
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
