"""What went wrong inside a plugin, in one line."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path

import importlib_metadata
import pluggy
import pydantic

from midspan.errors import one_line

_AROUND = tuple(
    str(Path(str(module)).parent)
    for module in (__file__, importlib.__file__, importlib_metadata.__file__, pluggy.__file__, pydantic.__file__)
)
"""Folders whose frames stand between the host and a plugin's code."""


def cause_of(error: BaseException) -> str:
    """Write an exception's type and text, and the line of the plugin that it came from."""
    text = one_line(_text(error))
    named = type(error).__name__ + (f": {text}" if text else "")
    place = _place_of(error)
    return f"{named} ({place})" if place else named


def _place_of(error: BaseException) -> str | None:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_around(frame.filename)]
    # What the plugin called is further down; the reader looks for the line in the plugin's own module.
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else None


def _is_around(filename: str) -> bool:
    return filename.startswith(("<", *_AROUND))


def _text(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception of a plugin whose own text fails
        return ""
