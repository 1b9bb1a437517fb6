"""Writing records to stderr."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Final, Literal

import click

from midspan.logs._text import TextFormatter

LogFormat = Literal["text", "json"]
FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")


def formatter_of(kind: LogFormat) -> logging.Formatter:
    """Return what writes records in a format."""
    if kind == "text":
        return TextFormatter()
    from midspan.logs._json import JsonFormatter

    return JsonFormatter()


class StderrWriter(logging.Handler):
    """Writes records to stderr as it is at that moment; with colour only to a terminal, and not with `NO_COLOR`.

    Neither a record that cannot be written nor a stderr that is closed becomes an error of whoever logs.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - a plugin's mistake in a log call must not show as many lines, or end anything
            text = self.format(_unwritable(record))
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
            click.echo(text, err=True, color=False if os.environ.get("NO_COLOR") else None)


def _unwritable(record: logging.LogRecord) -> logging.LogRecord:
    text = f"a log record cannot be written ({record.pathname}, line {record.lineno})"
    return logging.makeLogRecord(
        {"name": record.name, "levelno": logging.ERROR, "levelname": "ERROR", "msg": text, "created": record.created}
    )
