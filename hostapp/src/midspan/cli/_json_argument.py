"""JSON as an argument: the text itself, `@FILE`, or `-` for stdin."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn, cast

from midspan.errors import OperatorError

METAVAR = "JSON|@FILE|-"


def json_object(option: str, text: str) -> dict[str, Any]:
    """Return the JSON object that an option was given.

    Raises:
        OperatorError: the file cannot be read, or it is no JSON object; names line and column.
    """
    value = json_value(option, text)
    if not isinstance(value, dict):
        raise OperatorError(f"{option}: must be a JSON object, such as " + '\'{"name": "read_file"}\'')
    return cast("dict[str, Any]", value)


def json_value(option: str, text: str) -> object:
    """Return the JSON that an option was given.

    Raises:
        OperatorError: see `json_object`.
    """
    where, text = _read(option, text)
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise OperatorError(f"{where}:{error.lineno}:{error.colno}: is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        problem = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise OperatorError(f"{where}: {problem}") from None


def _read(option: str, text: str) -> tuple[str, str]:
    if text == "-":
        return f"{option} (stdin)", sys.stdin.read()
    if not text.startswith("@"):
        return option, text
    file = Path(text[1:])
    try:
        return f"{option} ({file})", file.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise OperatorError(f"{option}: {file} is not UTF-8 text") from None
    except OSError as error:
        raise OperatorError(f"{option}: {file} cannot be read: {error.strerror or error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"is not JSON: {name}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"the key {twice!r} is there twice; a gateway refuses such a message")
    return found
