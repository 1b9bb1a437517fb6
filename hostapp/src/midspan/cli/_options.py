"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def plugin_options(command: F) -> F:
    """Add the options that choose config and plugins."""
    options = (
        click.option(
            "--config",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Config file; default: $MIDSPAN_CONFIG, then midspan.toml in your config folder.",
        ),
        click.option("--plugin", "plugins", multiple=True, metavar="ID", help="Enable a plugin for this run."),
        click.option("--no-plugin", "no_plugins", multiple=True, metavar="ID", help="Block a plugin for this run."),
        click.option(
            "--plugin-file",
            "plugin_files",
            multiple=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="Load one local Python file as a plugin.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
