"""Which plugin a record is about, and whether it is written."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_OWN: Final = "midspan"
_OTHERS: Final = logging.WARNING
"""Least level of what other libraries say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginNames:
    """The plugins that there are.

    Attributes:
        packages: the top-level package of each by its id: what that logs is the plugin's.
        instances: the id of the plugin by the name of each instance: so is what is logged about their interceptors.
    """

    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    instances: Mapping[str, str] = field(default_factory=dict[str, str])


class Levels(logging.Filter):
    """Holds each record to the least level of whom it is about, and names that plugin in it as `plugin`.

    Args:
        plugins: the plugins that there are.
        base: the least level where nothing else is said.
        chosen: least levels by plugin id or logger.
    """

    def __init__(self, plugins: PluginNames, base: int, chosen: Mapping[str, int]) -> None:
        super().__init__()
        self._instances = plugins.instances
        self._by_logger = {package: plugin for plugin, package in plugins.packages.items()}
        # First-party plugins log under the host's name.
        self._by_logger |= {f"{_OWN}.{plugin}": plugin for plugin in plugins.packages}
        self._base = base
        self._chosen = chosen

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is written."""
        plugin = self._plugin_of(record)
        if plugin is None:
            return record.levelno >= self._least(record.name)
        record.plugin = plugin
        return record.levelno >= self._chosen.get(plugin, self._base)

    def _plugin_of(self, record: logging.LogRecord) -> str | None:
        interceptor: object = getattr(record, "interceptor", None)
        if isinstance(interceptor, str) and (plugin := self._instances.get(interceptor.partition(".")[0])) is not None:
            return plugin
        return next((self._by_logger[name] for name in _lineage(record.name) if name in self._by_logger), None)

    def _least(self, logger: str) -> int:
        for name in _lineage(logger):
            if name in self._chosen:
                return self._chosen[name]
        return self._base if logger.partition(".")[0] == _OWN else _OTHERS


def _lineage(logger: str) -> list[str]:
    """Return a logger's name and those of the loggers above it, nearest first."""
    parts = logger.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
