"""From which level on a record is written."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Literal

from midspan.logs._sources import Sources, prefixes

LogLevel = Literal["debug", "info", "warning", "error"]
LEVELS: Final[tuple[LogLevel, ...]] = ("debug", "info", "warning", "error")

HOST: Final = "midspan"
"""The logger of the host, above all of its others."""
PLUGIN_FILES: Final = "midspan_plugin_file_"
"""How the module of a plugin file, and with it its logger, begins."""


def number_of(level: LogLevel) -> int:
    """Return the level as `logging` has it."""
    return logging.getLevelNamesMapping()[level.upper()]


class Thresholds(logging.Filter):
    """Lets the records pass that are to be written, and notes whose they are.

    Args:
        level: of midspan and its plugins. Other libraries' records are written from `warning` on.
        levels: by plugin id, or by logger; the nearest logger above a record's own counts. A plugin's level is that of
            its own records and of the host's about it, and wins.
        sources: find the plugin of a record.
    """

    def __init__(self, level: LogLevel, levels: Mapping[str, LogLevel], sources: Sources) -> None:
        super().__init__()
        self._level = number_of(level)
        self._levels = {name: number_of(one) for name, one in levels.items()}
        self._sources = sources

    @property
    def lowest(self) -> int:
        """The lowest level at which anything is written."""
        return min(self._level, *self._levels.values(), logging.WARNING)

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is to be written."""
        self._sources.note(record)
        return record.levelno >= self._threshold(record)

    def _threshold(self, record: logging.LogRecord) -> int:
        plugin = getattr(record, "plugin", None)
        if plugin in self._levels:
            return self._levels[plugin]
        for name in prefixes(record.name):
            if name in self._levels:
                return self._levels[name]
        return self._level if self._is_ours(record.name) else max(self._level, logging.WARNING)

    def _is_ours(self, logger: str) -> bool:
        return logger.startswith(PLUGIN_FILES) or any(
            name == HOST or name in self._sources.loggers for name in prefixes(logger)
        )
