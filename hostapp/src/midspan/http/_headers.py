"""Header fields as they stand on the wire: pairs of bytes, names in lower case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from midspan._web import HOP_BY_HOP

Headers = Sequence[tuple[bytes, bytes]]

_HOP_BY_HOP: Final = frozenset(name.encode() for name in HOP_BY_HOP)


def end_to_end(headers: Iterable[tuple[bytes, bytes]], *, without: Collection[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """Return the fields that go on to the other side, names in lower case, values without white space around them.

    Args:
        headers: as they arrived.
        without: further names to leave out.
    """
    fields = [(name.lower(), value.strip(b" \t")) for name, value in headers]
    left_out = _HOP_BY_HOP.union(without)
    for name, value in fields:
        if name == b"connection":
            left_out |= {token.strip().lower() for token in value.split(b",")}
    return [(name, value) for name, value in fields if name not in left_out]


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Return the values of all fields of this name."""
    return [value for key, value in headers if key == name]


def value(headers: Headers, name: bytes) -> bytes | None:
    """Return the value of the first field of this name, or None."""
    return next((value for key, value in headers if key == name), None)


def without(headers: Headers, names: Collection[bytes]) -> list[tuple[bytes, bytes]]:
    """Return all fields but those of these names."""
    return [(key, value) for key, value in headers if key not in names]


def media_type(content_type: bytes | None) -> str:
    """Return the media type of a `Content-Type` without its parameters, in lower case; empty when there is none."""
    return "" if content_type is None else content_type.partition(b";")[0].strip().lower().decode("latin-1")


def is_identity(headers: Headers) -> bool:
    """Tell whether a body is not encoded."""
    return all(encoding.lower() in (b"", b"identity") for encoding in values(headers, b"content-encoding"))


def content_length(headers: Headers) -> int | None:
    """Return the declared length of the body in bytes, or None when none is declared or it is no number."""
    declared = value(headers, b"content-length")
    return int(declared) if declared is not None and declared.isdigit() else None
