"""What the command line and the config say of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from midspan.logs import FORMATS, LEVELS, LogFormat, LogLevel, PluginNames, configure

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.plugins import Selection


@dataclass(frozen=True, kw_only=True)
class LogChoice:
    """What the command line says of the log; it wins over the config.

    Attributes:
        log_format: lines of text or of JSON; None when it is not given.
        level: the least level; None when it is not given.
    """

    log_format: LogFormat | None
    level: LogLevel | None

    def begin(self) -> None:
        """Log as the command line says, before any config is read."""
        configure(self.log_format or "text", self.level or "info")

    def follow(self, config: Config, selection: Selection) -> None:
        """Log as the command line and a config say."""
        said = config.settings.log
        packages = {
            info.id: info.value.partition(":")[0].partition(".")[0] for info in selection.plugins if not info.file
        }
        instances = {one.name: one.plugin.id for one in selection.instances}
        names = PluginNames(packages=packages, instances=instances)
        configure(self.log_format or said.format, self.level or said.level, said.levels, names)


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--log-format` and `--log-level`: the argument `logs`, a `LogChoice` that is in force already."""

    @wraps(command)
    def logged(log_format: LogFormat | None, log_level: LogLevel | None, **given: Any) -> Any:
        logs = LogChoice(log_format=log_format, level=log_level)
        logs.begin()
        return command(logs=logs, **given)

    with_options: Callable[..., Any] = logged
    for option in (
        click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            envvar="MIDSPAN_LOG_LEVEL",
            help="Least level of what is logged on stderr (info); also $MIDSPAN_LOG_LEVEL.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(FORMATS),
            envvar="MIDSPAN_LOG_FORMAT",
            help="Log lines of text, or of JSON for programs; also $MIDSPAN_LOG_FORMAT.",
        ),
    ):
        with_options = option(with_options)
    return with_options
