"""Setting up the standard library's logging."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final, Literal

import click

from midspan.logs._filtering import Levels, PluginNames
from midspan.logs._text import TextFormatter

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")
LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error")

_COMMAND: Final = "midspan.cli"


class _Stderr(logging.Handler):
    """Writes to stderr; without colour where that is no terminal, or `NO_COLOR` is set."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            click.echo(self.format(record), err=True, color=False if os.environ.get("NO_COLOR") else None)
        except Exception:  # noqa: BLE001 - as all handlers do
            self.handleError(record)


class _State:
    handler: logging.Handler | None = None
    format: LogFormat = "text"
    loggers: tuple[str, ...] = ()


def configure(
    log_format: LogFormat = "text",
    level: LogLevel = "info",
    levels: Mapping[str, LogLevel] | None = None,
    plugins: PluginNames | None = None,
) -> None:
    """Write log records to stderr from now on. May be called again, also while midspan runs.

    Args:
        log_format: lines of text, or of JSON: an object a line.
        level: the least level of midspan and its plugins; other libraries speak from `warning` on.
        levels: levels of single plugins by their id, and of loggers by their name.
        plugins: which plugins there are.
    """
    known = plugins or PluginNames()
    chosen = {name: _number(one) for name, one in (levels or {}).items()}
    holder = Levels(known, _number(level), chosen)
    handler = _Stderr()
    handler.setFormatter(_formatter(log_format))
    handler.addFilter(holder)
    root = logging.getLogger()
    if _State.handler is not None:
        root.removeHandler(_State.handler)
    root.addHandler(handler)
    _State.handler, _State.format = handler, log_format
    for name in _State.loggers:
        logging.getLogger(name).setLevel(logging.NOTSET)
    # Loggers let through what the most talkative of them may say; the filter then knows whom a record is about.
    _State.loggers = ("midspan", *known.packages.values(), *chosen)
    for name in _State.loggers:
        logging.getLogger(name).setLevel(min([_number(level), *chosen.values()]))


def writes_json() -> bool:
    """Tell whether lines of JSON are written."""
    return _State.handler is not None and _State.format == "json"


def emit(level: LogLevel, message: str) -> None:
    """Write what a command says itself as a record, whatever the least level is. To be called after `configure`."""
    assert _State.handler is not None
    _State.handler.emit(logging.LogRecord(_COMMAND, _number(level), "", 0, "%s", (message,), None))


def _number(level: LogLevel) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _formatter(log_format: LogFormat) -> logging.Formatter:
    if log_format == "text":
        return TextFormatter()
    from midspan.logs._json import json_formatter

    return json_formatter()
