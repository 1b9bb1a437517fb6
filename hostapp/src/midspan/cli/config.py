"""`midspan config`: where the config file is, what may stand in it, and a first one."""

from __future__ import annotations

from pathlib import Path

import click

from midspan.cli._options import config_option
from midspan.cli._output import echo, print_warning
from midspan.errors import OperatorError

_STDOUT = Path("-")
_OUTPUT = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


@click.group("config")
def config_group() -> None:
    """Find, begin and describe the config file."""


@config_group.command("path")
@config_option
def path(config: Path | None) -> None:
    """Print which config file is read.

    On stderr it says why, and where else one was looked for.
    """
    from midspan.cli._where import print_where

    print_where(config)


@config_group.command("init")
@click.option(
    "--output",
    type=_OUTPUT,
    metavar="FILE",
    help="Where to write it; - prints it. Default: where your config file is looked for.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there; it is kept as FILE.bak.")
def init(output: Path | None, force: bool) -> None:
    """Write a commented config file, made from the installed plugins.

    Every key stands in it with its meaning and its default, commented out. Nothing is enabled. Imports the plugins.
    """
    from midspan.cli._starter import place_for, starter, write_starter

    place = None if output == _STDOUT else place_for(output)
    text, warnings = starter(place)
    for warning in warnings:
        print_warning(warning)
    if place is None:
        click.echo(text, nl=False)
        return
    backup = write_starter(text, place, force=force)
    kept = f", and kept what was there as {backup}" if backup is not None else ""
    echo(f"wrote {place}{kept}; next: enable a plugin in it, then run `midspan check`")


@config_group.command("schema")
@click.option("--plugins", is_flag=True, help="Describe the config of the installed plugins too. Imports them.")
@click.option("--output", type=_OUTPUT, metavar="FILE", help="Write it to a file.")
def schema(plugins: bool, output: Path | None) -> None:
    """Print the JSON Schema of the config file, for editors."""
    import json

    from midspan.cli._starter import plugin_models
    from midspan.config import config_schema

    models, warnings = plugin_models() if plugins else ({}, ())
    for warning in warnings:
        print_warning(warning)
    text = json.dumps(config_schema(models), indent=2, ensure_ascii=False) + "\n"
    if output is None or output == _STDOUT:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise OperatorError(f"{output}: cannot be written: {error.strerror or error}") from error
