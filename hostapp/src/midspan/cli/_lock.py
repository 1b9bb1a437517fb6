"""`midspan plugins lock`: write the lock, or show what differs from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from midspan.cli._output import echo, print_error, print_warning
from midspan.config import Config, load_config
from midspan.errors import OperatorError, one_line
from midspan.locking import ANY_SERVER, Difference, Taken, lock_path, read_lock, write_lock
from midspan.plugins import GATEWAY_GIVES, Builder


def write(config: Path | None, assembling: Mapping[str, Any]) -> int:
    """Write the lock of a config and say so; return the exit code.

    Args:
        config: the config file, or None.
        assembling: further arguments of `Builder`.

    Raises:
        OperatorError: what is to be locked cannot be built, or the lock cannot be written.
    """
    settings = load_config(config)
    path = lock_path(settings.source)
    taken = Taken()
    for warning in _build(settings, assembling, taken):
        print_warning(warning)
    lock = taken.lock()
    changed = write_lock(lock, path)
    counts = (
        _count(len(lock.plugins), "plugin"),
        _count(len(lock.distributions), "distribution"),
        _count(len({entry["name"] for chain in lock.chains.values() for entry in chain["entries"]}), "interceptor"),
    )
    echo(f"{path}: {', '.join(counts)}{'' if changed else ' (unchanged)'}")
    return 0


def show_differences(config: Path | None, assembling: Mapping[str, Any]) -> int:
    """Show what differs from the lock; return 2 if anything does, else 0.

    What differs in files is shown before any plugin is imported.

    Args:
        config: the config file, or None.
        assembling: further arguments of `Builder`.

    Raises:
        OperatorError: there is no lock, or it cannot be read.
    """
    settings = load_config(config)
    path = lock_path(settings.source)
    lock = read_lock(path)
    found: list[Difference] = []

    class Showing(Taken):
        def check_distributions(self, plugins: Any) -> None:
            found.extend(lock.differences_of_distributions(plugins))
            _print(found)

    showing = Showing()
    try:
        _build(settings, assembling, showing)
    except OperatorError as error:
        print_error(error.message)
        return error.exit_code
    found.extend(differences := lock.differences_of_chains(showing.chains, whole=True))
    _print(differences)
    if not found:
        echo(f"{path}: no differences")
        return 0
    return OperatorError.exit_code


def _build(config: Config, assembling: Mapping[str, Any], locked: Taken) -> list[str]:
    """Build what stands in front of every server that there could be; return the warnings."""
    builder = Builder(config=config, **assembling, gives=GATEWAY_GIVES, locked=locked)
    assemblies = [builder.assembly(server) for server in (*config.servers, ANY_SERVER, None)]
    return list(dict.fromkeys(warning for assembly in assemblies for warning in assembly.warnings))


def _print(differences: Iterable[Difference]) -> None:
    for group, members in groupby(sorted(differences, key=lambda one: one.group), key=lambda one: one.group):
        echo(click.style(one_line(group), bold=True))
        for one in members:
            echo(f"  {one_line(one.place)}")
            echo(click.style(f"  - {one_line(one.expected)}", fg="red"))
            echo(click.style(f"  + {one_line(one.found)}", fg="green"))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
