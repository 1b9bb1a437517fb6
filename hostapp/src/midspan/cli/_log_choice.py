"""How a running command logs: what the command line says, over what the config says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import click

from midspan.logs import LogFormat, LogLevel, PluginLogs, configure

if TYPE_CHECKING:
    from midspan.config import Config

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

    def begin(self) -> None:
        """Log as the command line says, before any config is read."""
        configure(self.format or "text", self.level or "info")

    def follow(self, config: Config, plugins: Iterable[PluginLogs]) -> None:
        """Log as the command line and the config say; may be called again, as when the config changes.

        Args:
            config: what the command line does not say, `[log]` does.
            plugins: the instances that run, from `midspan.plugins.plugin_logs`.
        """
        said = config.settings.log
        configure(self.format or said.format, self.level or said.level, said.levels, plugins=plugins)


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
