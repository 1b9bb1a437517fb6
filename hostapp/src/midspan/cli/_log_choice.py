"""How a running command logs: what the command line says, over what the config says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import click

from midspan.logs import LogFormat, LogLevel, PluginLogs, configure

FORMAT_VARIABLE: Final = "MIDSPAN_LOG_FORMAT"
LEVEL_VARIABLE: Final = "MIDSPAN_LOG_LEVEL"


@dataclass
class LogChoice:
    """What the command line, or the environment, says of the log.

    Attributes:
        format: None when it is not given.
        level: None when it is not given.
    """

    format: LogFormat | None = None
    level: LogLevel | None = None

    def configure(
        self,
        *,
        format: LogFormat | None = None,  # noqa: A002 - the key of the config
        level: LogLevel | None = None,
        levels: Mapping[str, LogLevel] | None = None,
        plugins: Iterable[PluginLogs] = (),
    ) -> None:
        """Put the log into force; may be called again, as when the config is read or changes.

        Args:
            format: the config's, if it has one; the command line wins, as for the next.
            level: so.
            levels: the config's levels of single plugins and loggers.
            plugins: the instances that run, from `midspan.plugins.plugin_logs`.
        """
        configure(self.format or format or "text", self.level or level or "info", levels, plugins=plugins)


def wants_json(error: click.ClickException, arguments: Sequence[str]) -> bool:
    """Tell whether a command line that click could not even read asks for JSON.

    Args:
        error: what click says of it.
        arguments: all of it.
    """
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or not any(parameter.name == "log_format" for parameter in context.command.params):
        return False
    words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    given = [word.partition("=")[2] for word in words if word.startswith("--log-format=")]
    given += [after for word, after in pairwise(words) if word == "--log-format"]
    return (given[-1] if given else os.environ.get(FORMAT_VARIABLE)) == "json"
