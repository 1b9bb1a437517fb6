"""Records as lines for people."""

from __future__ import annotations

import logging
from typing import Final

import click

from midspan.errors import one_line

_COLOURS: Final = {"DEBUG": "blue", "INFO": "cyan", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


class TextFormatter(logging.Formatter):
    """Writes `midspan: warning: ...`; the logger's name too where it is not midspan's own.

    A message is one line, whatever a peer put into it. What was raised follows beneath, indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record, with colours."""
        label = click.style(f"midspan: {record.levelname.lower()}:", fg=_COLOURS.get(record.levelname), bold=True)
        own = record.name.partition(".")[0] == "midspan"
        line = f"{label} {'' if own else f'{record.name}: '}{one_line(record.getMessage())}"
        if record.exc_info and record.exc_info[0] is not None:
            raised = self.formatException(record.exc_info)
            line += "".join(f"\n    {_printable(part)}" for part in raised.splitlines())
        return line


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
