"""A record as a line for people."""

from __future__ import annotations

import logging
from typing import Final

import click

from midspan.errors import MAX_LINE, one_line
from midspan.logs._sources import prefixes
from midspan.logs._thresholds import HOST

_INDENT: Final = "    "


class TextFormatter(logging.Formatter):
    """Writes `midspan: warning: MESSAGE`; another logger's name stands before its message.

    A message may hold a peer's words: it stays one line, and no control character gets through. Tracebacks follow
    errors alone, indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or lines."""
        text = one_line(record.getMessage())
        if HOST not in prefixes(record.name):
            text = f"{one_line(record.name)}: {text}"
        lines = [f"{_prefix(record.levelno)} {text}"]
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[0] is not None:
            lines += [_INDENT + _printable(line) for line in self.formatException(record.exc_info).splitlines()]
        return "\n".join(lines)


def _prefix(level: int) -> str:
    if level >= logging.ERROR:
        return click.style("midspan: error:", fg="red", bold=True)
    if level >= logging.WARNING:
        return click.style("midspan: warning:", fg="yellow", bold=True)
    return "midspan:" if level >= logging.INFO else "midspan: debug:"


def _printable(line: str) -> str:
    clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)
    return clean if len(clean) <= MAX_LINE else clean[: MAX_LINE - 1] + "…"
