"""Sizes with units."""

from __future__ import annotations

import re
from decimal import Decimal

_SIZE = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>[kKMG]B|[KMG]iB|B)", re.ASCII)
_BYTES = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3}
PATTERN = r"^\s*([0-9]{1,9}(\.0{1,9})?\s*B|[0-9]{1,9}(\.[0-9]{1,9})?\s*([kKMG]B|[KMG]iB))\s*$"
"""What a size looks like, as far as a JSON Schema can tell: that it comes to whole bytes above zero, it cannot."""

FORM = 'a size with its unit, such as "64MiB", "512KiB" or "10MB", or a whole number of bytes'


def size(value: object) -> int:
    """Read a size.

    Args:
        value: a number and one of the units `B`, `kB`, `MB`, `GB` (powers of 1000), `KiB`, `MiB`, `GiB` (powers of
            1024), or a whole number, which counts bytes. `Mb` is refused: those would be bits.

    Returns:
        Whole bytes, at least one.

    Raises:
        ValueError: it is none, or not a whole number of bytes above zero; the message says what is accepted.
    """
    exact = _exact(value)
    if exact is None:
        raise ValueError(f"must be {FORM}")
    if exact <= 0 or exact != int(exact):
        raise ValueError("must be a whole number of bytes above zero")
    return int(exact)


def size_text(value: int) -> str:
    """Write bytes as the file has them, in the largest unit that needs no fraction: `67108864` is `64MiB`."""
    units = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024, "B": 1}
    unit = next(unit for unit in units if value % units[unit] == 0)
    return f"{value // units[unit]}{unit}"


def _exact(value: object) -> Decimal | int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if match is None else Decimal(match["number"]) * _BYTES[match["unit"].upper()]
