"""Where the config file is. Never in the working directory: a cloned repository must not switch a guard off."""

from __future__ import annotations

import os
from pathlib import Path

from midspan.errors import ConfigError

CONFIG_VARIABLE = "MIDSPAN_CONFIG"
CONFIG_NAME = "midspan.toml"


def find_config(named: Path | None = None) -> Path | None:
    """Return the config file to read: the named one, that of `MIDSPAN_CONFIG`, or that of the user's config folder.

    Args:
        named: the file given by `--config`.

    Returns:
        The file, or None when none was named and the user has none.

    Raises:
        ConfigError: a file was named and is not there, or `MIDSPAN_CONFIG` is not an absolute path.
    """
    if named is not None:
        return _existing(named, "--config")
    if (path := _variable_config()) is not None:
        return _existing(path, CONFIG_VARIABLE)
    path = user_config()
    return path if path is not None and path.exists() else None


def config_place() -> Path | None:
    """Return where the config file is looked for when none is named, whether one is there or not.

    Raises:
        ConfigError: `MIDSPAN_CONFIG` is not an absolute path.
    """
    return _variable_config() or user_config()


def user_config() -> Path | None:
    """Return where the user's own config file would be, or None when the user has no config folder."""
    import click

    folder = Path(click.get_app_dir("midspan"))
    # Without a home the folder is relative (`~/.config`, literally), thus in the working directory.
    return folder / CONFIG_NAME if folder.is_absolute() else None


def _variable_config() -> Path | None:
    variable = os.environ.get(CONFIG_VARIABLE)
    if not variable:
        return None
    path = Path(variable).expanduser()
    if not path.is_absolute():
        # A relative path would be looked up in the working directory.
        raise ConfigError(f"{CONFIG_VARIABLE} must be an absolute path, not {variable!r}")
    return path


def _existing(path: Path, named_by: str) -> Path:
    if not path.exists():
        raise ConfigError(f"no such file (named by {named_by})", file=path)
    return path
