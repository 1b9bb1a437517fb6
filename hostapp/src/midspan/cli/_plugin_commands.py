"""`midspan <plugin id> ...`: the commands that an installed plugin offers. It need not be enabled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from midspan.cli._ignored import say_what_is_ignored
from midspan.config import find_config, plugin_tables, read_source
from midspan.plugins import PluginInfo, discover, owner_of

if TYPE_CHECKING:
    from midspan_sdk import Command


def plugin_commands(plugin: str) -> click.Group | None:
    """Return the group of a plugin's commands, or None when no plugin of that id is installed.

    The plugin is imported when the group is asked for its commands.
    """
    found = discover()
    if not any(info.id == plugin for info in found):
        return None
    return _PluginGroup(plugin, found)


class _PluginGroup(click.Group):
    def __init__(self, plugin: str, found: Sequence[PluginInfo]) -> None:
        super().__init__(name=plugin, help=f"Commands of the plugin {plugin!r}.")
        self._plugin = plugin
        self._found = found
        self._loaded: dict[str, click.Command] | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._commands().get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click suggests from this attribute.
        self.commands = self._commands()
        return super().resolve_command(ctx, args)

    def _commands(self) -> dict[str, click.Command]:
        if self._loaded is None:
            self._loaded = _load_commands(self._plugin, self._found)
        return self._loaded


def _load_commands(plugin: str, found: Sequence[PluginInfo]) -> dict[str, click.Command]:
    if (context := click.get_current_context(silent=True)) is not None:
        say_what_is_ignored(context, None)
    # The config may pin who owns the id.
    tables = plugin_tables(read_source(find_config()))
    owner = owner_of(found, tables, plugin)
    from midspan.plugins import load

    offered = load(owner).commands()
    if not offered:
        raise owner.error("offers no commands")
    commands: dict[str, click.Command] = {}
    for command in offered:
        if not command.name or command.name.split() != [command.name] or command.name.startswith("-"):
            raise owner.error(f"midspan_commands: {command.name!r} is not one word")
        if command.name in commands:
            raise owner.error(f"midspan_commands: two commands are called {command.name!r}; rename one")
        if not callable(command.run):
            raise owner.error(f"midspan_commands: the command {command.name!r} cannot be called")
        commands[command.name] = _PluginCommand(owner, command)
    return commands


class _PluginCommand(click.Command):
    """A plugin's command. Whatever follows its name is the plugin's to parse, `--help` and `--` too."""

    def __init__(self, owner: PluginInfo, command: Command) -> None:
        super().__init__(command.name, help=command.help, short_help=command.help, add_help_option=False)
        self._owner = owner
        self._run = command.run

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> int:
        code: object = self._run(tuple(ctx.args))
        if not isinstance(code, int):  # pyright: ignore[reportUnnecessaryIsInstance] - the plugin's word
            problem = f"the command {self.name!r} returned {type(code).__name__}; return the exit code"
            raise self._owner.error(problem)
        return code
