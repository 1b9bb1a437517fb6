"""`midspan plugins`: what is installed, and what it contributes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from midspan.cli._completion import complete_instance, complete_plugin
from midspan.cli._options import building_options, config_option, selection_options
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
    source = read_source(find_config(config))
    selection = select(discover(), plugin_tables(source), enable=plugins, block=no_plugins, source=source)
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
    for problem in selection.all_problems:
        print_warning(problem.message)
    for warning in selection.warnings:
        print_warning(warning)


@plugins_group.command()
@click.argument("plugins", metavar="ID...", nargs=-1, required=True, shell_complete=complete_instance)
@config_option
def enable(plugins: tuple[str, ...], config: Path | None) -> None:
    """Enable plugins in the config: write `enabled = true` into their tables, and nothing else.

    ID is the name of a table, or the id of an installed plugin: all its tables, or a new one. Without a config file,
    one is written into your config folder.
    """
    from midspan.cli._enable import switch

    switch(plugins, config, enabled=True)


@plugins_group.command()
@click.argument("plugins", metavar="ID...", nargs=-1, required=True, shell_complete=complete_instance)
@config_option
def disable(plugins: tuple[str, ...], config: Path | None) -> None:
    """Disable plugins in the config: write `enabled = false` into their tables, and nothing else.

    ID is the name of a table, or the id of a plugin: all its tables.
    """
    from midspan.cli._enable import switch

    switch(plugins, config, enabled=False)


@plugins_group.command()
@click.argument("specs", metavar="[SPEC]...", nargs=-1)
@click.option("-e", "--editable", multiple=True, metavar="PATH", help="Install a project folder, and run its sources.")
@click.option("-U", "--upgrade", is_flag=True, help="Replace what is installed by later versions.")
@click.option("--dry-run", is_flag=True, help="Print the commands that would run, and run none.")
@config_option
def install(
    specs: tuple[str, ...], editable: tuple[str, ...], upgrade: bool, dry_run: bool, config: Path | None
) -> None:
    """Install plugins beside midspan, with the tool that installed it. Enables nothing.

    SPEC is a requirement such as 'midspan-pii>=0.2', a URL, a wheel or a project folder, as pip takes it. Without any,
    what `requires` of the config names and is not there is installed. midspan and midspan-sdk keep their versions.
    """
    from midspan.cli._install import install_plugins

    install_plugins(specs, config, editable=editable, upgrade=upgrade, dry_run=dry_run)


@plugins_group.command()
@click.argument("plugin", metavar="ID", shell_complete=complete_plugin)
@config_option
def show(plugin: str, config: Path | None) -> None:
    """Show what a plugin contributes: interceptors, observers, config, commands. Imports it."""
    from midspan.cli._show import show_plugin

    show_plugin(plugin, config)


@plugins_group.command()
@click.option(
    "--diff", is_flag=True, help="Write nothing; show what differs from the lock, and exit 2 if anything does."
)
@building_options
def lock(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    diff: bool,
) -> int:
    """Write down what the guards consist of, for --locked: distributions, files and the chain. Imports the plugins.

    The lock is the file midspan.lock beside the config. Give the options with which midspan is run.
    """
    from midspan.cli._lock import show_differences, write

    assembling = {"plugins": plugins, "no_plugins": no_plugins, "plugin_files": plugin_files}
    return show_differences(config, assembling) if diff else write(config, assembling)


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
