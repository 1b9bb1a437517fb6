"""`midspan config path`: which config file is read, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from midspan.cli._output import echo, print_warning
from midspan.config import CONFIG_VARIABLE, find_config, read_source, user_config
from midspan.errors import ConfigError


def print_where(named: Path | None) -> None:
    """Print the path of the config file on stdout; on stderr the places in order, and the files that it includes.

    Raises:
        ConfigError: a file was named and is not there.
    """
    found = find_config(named)
    if found is not None:
        echo(str(found))
    rows = list(_places(named))
    width = max(len(place) for place, _ in rows)
    for place, state in rows:
        echo(f"{place.ljust(width)}  {state}", err=True)
    if found is None:
        echo("no config file is read; `midspan config init` writes one", err=True)
        return
    try:
        included = read_source(found).files[1:]
    except ConfigError as error:
        # Which file it is can be told of a broken one too.
        print_warning(error.message)
        return
    for file in included:
        echo(f"{'includes'.ljust(width)}  {file.path}", err=True)


def _places(named: Path | None) -> Iterator[tuple[str, str]]:
    """Yield where a config file is looked for, in order, and what became of it."""
    variable = os.environ.get(CONFIG_VARIABLE)
    user = user_config()
    yield "--config", f"{named}: read" if named is not None else "not given"
    if not variable:
        yield CONFIG_VARIABLE, "not set"
    else:
        yield CONFIG_VARIABLE, f"{variable}: {'read' if named is None else 'not read, --config comes first'}"
    if user is None:
        yield "config folder", "none, since you have no home"
    elif named is not None or variable:
        yield "config folder", f"{user}: not read, {'--config' if named is not None else CONFIG_VARIABLE} comes first"
    else:
        yield "config folder", f"{user}: {'read' if user.exists() else 'no such file'}"
