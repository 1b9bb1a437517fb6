"""Putting the logs of this process into force, again and again, and taking them back."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import NamedTuple

from midspan.logs._sources import PluginLogs, Sources
from midspan.logs._thresholds import HOST, LogLevel, Thresholds
from midspan.logs._writer import LogFormat, StderrWriter, formatter_of


class _InForce(NamedTuple):
    """What writes, and what was there before."""

    writer: StderrWriter
    level: int
    hook: Callable[..., object]
    thread_hook: Callable[..., object]


class _Process:
    """What this process has in force; None at first."""

    log: _InForce | None = None


_process = _Process()


def configure(
    format: LogFormat = "text",  # noqa: A002 - what the option and the key of the config are called
    level: LogLevel = "info",
    levels: Mapping[str, LogLevel] | None = None,
    *,
    plugins: Iterable[PluginLogs] = (),
) -> None:
    """Write what this process logs to stderr. May be called again: the last call counts.

    Python's own warnings are logged too. With JSON, an error that nobody catches becomes a record as well.

    Args:
        format: `text`, lines as the command prints them, or `json`, one object on each line.
        level: from which on midspan and its plugins write; other libraries do from `warning` on, at the earliest.
        levels: of single plugins, by id, for their own records and the host's about them; or of single loggers, by
            name, for these and all below them.
        plugins: the instances that run; without them, no record is known to be a plugin's.
    """
    thresholds = Thresholds(level, levels or {}, Sources(plugins))
    root = logging.getLogger()
    if _process.log is None:
        _process.log = _InForce(StderrWriter(), root.level, sys.excepthook, threading.excepthook)
        root.addHandler(_process.log.writer)
    writer = _process.log.writer
    writer.setFormatter(formatter_of(format))
    writer.filters[:] = [thresholds]
    root.setLevel(thresholds.lowest)
    logging.captureWarnings(True)
    is_json = format == "json"
    sys.excepthook = _uncaught if is_json else _process.log.hook
    threading.excepthook = _uncaught_in_thread if is_json else _process.log.thread_hook


def reset() -> None:
    """Take back what `configure` did."""
    if _process.log is None:
        return
    root = logging.getLogger()
    root.removeHandler(_process.log.writer)
    root.setLevel(_process.log.level)
    sys.excepthook, threading.excepthook = _process.log.hook, _process.log.thread_hook
    logging.captureWarnings(False)
    _process.log = None


def say(level: int, text: str) -> None:
    """Say something in the command's own name: a record of `midspan` where logs are configured, else a line of text.

    Args:
        level: as `logging` numbers it.
        text: what to say.
    """
    writer = _process.log.writer if _process.log is not None else StderrWriter()
    if _process.log is None:
        writer.setFormatter(formatter_of("text"))
    record = logging.LogRecord(HOST, level, __file__, 0, "%s", (text,), None)
    writer.handle(record)


def _uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    logging.getLogger(HOST).critical("a bug: %s", kind.__name__, exc_info=(kind, error, traceback))


def _uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is None or isinstance(arguments.exc_value, SystemExit):
        return
    name = arguments.thread.name if arguments.thread is not None else "unknown"
    info = (arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
    logging.getLogger(HOST).error("thread %s ended with an error: %s", name, arguments.exc_type.__name__, exc_info=info)
