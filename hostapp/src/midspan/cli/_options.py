"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from midspan.cli._completion import complete_instance
from midspan.cli._ignored import say_what_is_ignored
from midspan.cli._log_choice import FORMAT_VARIABLE, LEVEL_VARIABLE, LogChoice
from midspan.logs import FORMATS, LEVELS

if TYPE_CHECKING:
    from midspan.config import ConfigSource
    from midspan.locking import Lock

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """Add `--config`: the argument `config`, a path or None. The command says when it ignores a file beside it."""
    option = click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=_named,
        metavar="FILE",
        help="Config file; default: $MIDSPAN_CONFIG, then midspan.toml in your config folder.",
    )
    return option(command)


def _named(context: click.Context, _: click.Parameter, config: Path | None) -> Path | None:
    say_what_is_ignored(context, config)
    return config


def selection_options(command: F) -> F:
    """Add the options that choose among installed plugins: the arguments `config`, `plugins` and `no_plugins`."""
    options = (
        click.option(
            "--plugin",
            "plugins",
            multiple=True,
            metavar="ID",
            help="Enable a plugin for this run.",
            shell_complete=complete_instance,
        ),
        click.option(
            "--no-plugin",
            "no_plugins",
            multiple=True,
            metavar="ID",
            help="Block a plugin for this run.",
            shell_complete=complete_instance,
        ),
    )
    for option in reversed(options):
        command = option(command)
    return config_option(command)


def building_options(command: F) -> F:
    """Add the options that choose config and plugins: what `midspan.plugins.Builder` takes, by the same names."""
    option = click.option(
        "--plugin-file",
        "plugin_files",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Load one local Python file as a plugin.",
    )
    return selection_options(option(command))


def plugin_options(command: F) -> F:
    """Add the options of `building_options`, and `--locked`: the argument `locked`, for `lock_of`."""
    option = click.option(
        "--locked",
        is_flag=True,
        envvar="MIDSPAN_LOCKED",
        help="Refuse to start on any difference from what `midspan plugins lock` wrote; also $MIDSPAN_LOCKED=1.",
    )
    return building_options(option(command))


def lock_of(source: ConfigSource, locked: bool) -> Lock | None:
    """Return the lock of a config, for `Builder`; None without `--locked`.

    Raises:
        OperatorError: there is none, or it cannot be used.
    """
    if not locked:
        return None
    from midspan.locking import lock_path, read_lock

    return read_lock(lock_path(source))


def log_options(command: F) -> F:
    """Add the options of the log: the argument `log`, a `LogChoice`. What they say is in force from then on."""

    def chosen(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        # Eager: what is wrong with the other options is told in the format that is asked for.
        choice = context.params.setdefault("log", LogChoice())
        if parameter.name == "log_format":
            choice.format = value
        else:
            choice.level = value
        if not context.resilient_parsing:
            choice.begin()
        return value

    options = (
        click.option(
            "--log-format",
            type=click.Choice(FORMATS),
            envvar=FORMAT_VARIABLE,
            help="What stderr gets: lines of text (the default), or JSON objects.",
            is_eager=True,
            expose_value=False,
            callback=chosen,
        ),
        click.option(
            "--log-level",
            type=click.Choice(LEVELS),
            envvar=LEVEL_VARIABLE,
            help="From which level on something is logged; default: info.",
            is_eager=True,
            expose_value=False,
            callback=chosen,
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
