"""Which plugin a log record comes from, or is about."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginLogs:
    """By what the records of one plugin instance are known.

    Attributes:
        plugin: the plugin's id.
        instance: its config table's name, or the plugin's id.
        module: the module that its entry point names; its loggers are named after the top-level package of that.
        names: the wire names of its interceptors and the names of its observers.
    """

    plugin: str
    instance: str
    module: str
    names: frozenset[str] = frozenset()


class Sources:
    """Finds the plugin of a record.

    Args:
        plugins: the instances that run.
    """

    def __init__(self, plugins: Iterable[PluginLogs] = ()) -> None:
        known = tuple(plugins)
        self._by_name = {name: one for one in known for name in one.names}
        owners: dict[str, set[str]] = {}
        for one in known:
            owners.setdefault(one.module, set()).add(one.plugin)
            owners.setdefault(one.module.partition(".")[0], set()).add(one.plugin)
        self.loggers = frozenset(owners)
        # What two plugins share is neither's.
        self._by_logger = {logger: next(iter(ids)) for logger, ids in owners.items() if len(ids) == 1}

    def note(self, record: logging.LogRecord) -> None:
        """Note at a record, where that is known and not yet said, its `plugin` and `instance`."""
        if hasattr(record, "plugin"):
            return
        about = self._by_name.get(getattr(record, "interceptor", None) or getattr(record, "observer", None) or "")
        if about is not None:
            record.plugin, record.instance = about.plugin, about.instance
        elif (plugin := self._owner_of(record.name)) is not None:
            record.plugin = plugin

    def _owner_of(self, logger: str) -> str | None:
        return next((self._by_logger[name] for name in prefixes(logger) if name in self._by_logger), None)


def prefixes(logger: str) -> Iterable[str]:
    """Yield a logger's name and those of the loggers above it, the nearest first."""
    while logger:
        yield logger
        logger = logger.rpartition(".")[0]
