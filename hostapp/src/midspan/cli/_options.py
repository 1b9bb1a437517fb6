"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from midspan.cli._ignored import say_what_is_ignored

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
        click.option("--plugin", "plugins", multiple=True, metavar="ID", help="Enable a plugin for this run."),
        click.option("--no-plugin", "no_plugins", multiple=True, metavar="ID", help="Block a plugin for this run."),
    )
    for option in reversed(options):
        command = option(command)
    return config_option(command)


def plugin_options(command: F) -> F:
    """Add the options that choose config and plugins: what `midspan.plugins.assemble` takes, by the same names."""
    option = click.option(
        "--plugin-file",
        "plugin_files",
        multiple=True,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Load one local Python file as a plugin.",
    )
    return selection_options(option(command))
