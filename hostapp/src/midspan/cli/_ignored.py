"""A config file in the working directory, which is not read: said, so that nobody takes it for the one in force."""

from __future__ import annotations

import os
from pathlib import Path

import click

from midspan.cli._output import print_warning
from midspan.config import CONFIG_NAME, find_config, read_source
from midspan.errors import ConfigError

_SAID = "midspan.cli.ignored-config"


def say_what_is_ignored(context: click.Context, config: Path | None) -> None:
    """Warn, once for a command line, of a `midspan.toml` in the working directory that does not belong to the config.

    Args:
        context: that of the command.
        config: the file given by `--config`, or None.
    """
    if context.resilient_parsing or context.meta.get(_SAID):
        return
    context.meta[_SAID] = True
    here = Path(CONFIG_NAME)
    if os.path.isfile(here) and not _is_read(here, config):
        print_warning(
            f"./{CONFIG_NAME} is not read: midspan reads no config from the working directory; "
            "name it with --config if it is yours"
        )


def _is_read(here: Path, config: Path | None) -> bool:
    try:
        path = find_config(config)
        if path is None:
            return False
        return here.samefile(path) or any(here.samefile(file.path) for file in read_source(path).files)
    except (ConfigError, OSError):
        # The command itself will say what is wrong with the config.
        return False
