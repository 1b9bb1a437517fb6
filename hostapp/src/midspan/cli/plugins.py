"""`midspan plugins`: what is installed, and what it contributes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from midspan.cli._completion import complete_plugin
from midspan.cli._options import config_option, selection_options
from midspan.cli._output import Style, echo, print_table, print_warning
from midspan.config import find_config, plugin_tables, read_source
from midspan.plugins import PluginInfo, discover, select

_COLOURS = {
    "enabled": "green",
    "disabled": "yellow",
    "blocked": "yellow",
    "incompatible": "red",
    "duplicate": "red",
    "broken": "red",
}


@click.group("plugins")
def plugins_group() -> None:
    """List installed plugins, show what they contribute."""


@plugins_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON array, for programs.")
@selection_options
def list_(config: Path | None, plugins: tuple[str, ...], no_plugins: tuple[str, ...], as_json: bool) -> None:
    """List installed plugins and their state. Reads metadata only; no plugin is imported."""
    tables = plugin_tables(read_source(find_config(config)))
    selection = select(discover(), tables, enable=plugins, block=no_plugins)
    if as_json:
        echo(json.dumps([_as_json(info) for info in selection.plugins], indent=2))
    elif selection.plugins:
        print_table(
            [
                (info.id, info.distribution or "", info.version or "", info.state, info.reason or "")
                for info in selection.plugins
            ],
            header=("ID", "DISTRIBUTION", "VERSION", "STATE", "REASON"),
            styles=(None, None, None, _state_style),
        )
    else:
        echo("No plugins are installed.", err=True)
    for problem in selection.problems:
        print_warning(problem.message)
    for warning in selection.warnings:
        print_warning(warning)


@plugins_group.command()
@click.argument("plugin", metavar="ID", shell_complete=complete_plugin)
@config_option
def show(plugin: str, config: Path | None) -> None:
    """Show what a plugin contributes: interceptors, observers, config, commands. Imports it."""
    from midspan.cli._show import show_plugin

    show_plugin(plugin, config)


def _as_json(info: PluginInfo) -> dict[str, str | None]:
    return {
        "id": info.id,
        "distribution": info.distribution,
        "version": info.version,
        "state": info.state,
        "reason": info.reason,
        "entry_point": info.value,
    }


def _state_style(state: str) -> Style | None:
    colour = _COLOURS.get(state)
    return partial(click.style, fg=colour) if colour else None
