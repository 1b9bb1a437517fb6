"""JSON as strict as a guard needs it, and lossless.

A text that two readers may read differently must not be judged by one and obeyed by the other: duplicate keys, NaN and
infinities, numbers that overflow. Reading notes such faults instead of failing at once, because a message that no
interceptor could match passes as the bytes it is.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NoReturn

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CONNECTION_CLOSED: Final = -32000
"""What the SDKs' clients give a request whose connection is gone."""


class JSONFaultError(ValueError):
    """A text is not JSON, or not JSON that can be judged.

    Attributes:
        code: the JSON-RPC error code it is refused with.
        reason: what is wrong, without any part of the text.
    """

    def __init__(self, reason: str, code: int = PARSE_ERROR) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)


class Document:
    """A text that was read.

    Attributes:
        value: what it says; of duplicate keys the last.
        fault: why it must not be judged, or None.
        duplicates: the keys that the outermost object has more than once; then not even its method is certain.
    """

    __slots__ = ("duplicates", "fault", "value")

    def __init__(self, value: Any, fault: str | None, duplicates: frozenset[str]) -> None:
        self.value = value
        self.fault = fault
        self.duplicates = duplicates


_NONE: Final[frozenset[str]] = frozenset()


class _Reader:
    """One decoder with its notes; reused, because making a decoder costs more than reading a small message."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self.duplicates = _NONE
        self.decode: Callable[[str], Any] = json.JSONDecoder(
            object_pairs_hook=self._object, parse_float=self._float, parse_constant=self._constant
        ).decode

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        # Called innermost first: after reading, the duplicates are the outermost object's.
        if len(value) == len(pairs):
            self.duplicates = _NONE
        else:
            counts = Counter(key for key, _ in pairs)
            self.duplicates = frozenset(key for key, count in counts.items() if count > 1)
            self.fault = "duplicate keys in an object"
        return value

    def _float(self, text: str) -> float:
        number = float(text)
        if not math.isfinite(number):
            self.fault = "a number is out of range"
        return number

    def _constant(self, text: str) -> float:
        self.fault = f"{text} is not JSON"
        return math.nan


_reader: Final = _Reader()


def read(text: bytes) -> Document:
    """Read a text.

    Raises:
        JSONFaultError: it is not UTF-8 or not JSON, nested too deeply, or has a number with too many digits.
    """
    _reader.fault = None
    _reader.duplicates = _NONE
    try:
        value = _reader.decode(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise JSONFaultError("not UTF-8") from None
    except RecursionError:
        raise JSONFaultError("nested too deeply", INVALID_REQUEST) from None
    except json.JSONDecodeError:
        raise JSONFaultError("not JSON") from None
    except ValueError:
        raise JSONFaultError("a number has too many digits", INVALID_REQUEST) from None
    return Document(value, _reader.fault, _reader.duplicates)


def _refuse(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is not JSON")


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_refuse).encode
_encode_ascii: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_refuse).encode


def write(value: Any) -> bytes:
    """Write a value without spaces; lone surrogates survive as escapes."""
    try:
        return _encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return _encode_ascii(value).encode("ascii")
