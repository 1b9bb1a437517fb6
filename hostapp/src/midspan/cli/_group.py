"""The root of the command line: sub-commands by name, imported when invoked."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from midspan.cli._completion import COMPLETE_VARIABLE, completing
from midspan.cli._log_choice import wants_json
from midspan.cli._output import print_error
from midspan.errors import OperatorError, did_you_mean, operator_error_in
from midspan.logs import configure, reset

COMMANDS = {
    "chain": ("Draw what will run, in which order, and why.", "midspan.cli.chain:chain"),
    "check": ("Find all that is wrong, start nothing.", "midspan.cli.check:check"),
    "completion": ("Complete this command in your shell.", "midspan.cli.completion:completion"),
    "config": ("Find, begin and describe the config file.", "midspan.cli.config:config_group"),
    "demo": ("See it work: a server, a client and the gateway between them.", "midspan.cli.demo:demo"),
    "explain": ("Show what the chain makes of one message.", "midspan.cli.explain:explain"),
    "interceptors": (
        "Serve interceptors over the wire protocol, list and invoke them on servers.",
        "midspan.cli.interceptors:interceptors",
    ),
    "plugins": ("List, show, install, switch and lock plugins.", "midspan.cli.plugins:plugins_group"),
    "run": ("Guard a server for a client that speaks stdio.", "midspan.cli.run:run"),
    "serve": ("Guard servers for clients that speak HTTP.", "midspan.cli.serve:serve"),
}
"""Name, one line of help, and `module:object` of each sub-command. They win over plugins of the same id."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, by the convention of shells (128 + SIGINT)."""


class LazyGroup(click.Group):
    """Knows its sub-commands by name and help alone; a name that is none of them may be a plugin's id."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of midspan's own sub-commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a sub-command, or find the plugin whose commands are meant."""
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][1].partition(":")
            command = getattr(import_module(module), name)
            assert isinstance(command, click.Command)
            return command
        if ctx.resilient_parsing:
            return click.Group(cmd_name)  # while the shell completes, no plugin is imported
        from midspan.cli._plugin_commands import plugin_commands

        return plugin_commands(cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete sub-commands without importing them, and this command's own options."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        found = [(name, text) for name, (text, _) in sorted(COMMANDS.items()) if name.startswith(incomplete)]
        return [CompletionItem(name, help=text) for name, text in found]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the sub-commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (text, _) in sorted(COMMANDS.items())])
        with formatter.section("Commands of plugins"):
            formatter.write_dl([("<plugin id> ...", "What an installed plugin offers; see `midspan plugins list`.")])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the sub-command; name the nearest one when there is none."""
        name = str(args[0])
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            from midspan.plugins import discover

            known = [*COMMANDS, *(info.id for info in discover())]
            ctx.fail(f"no such command {name!r}{did_you_mean(name, known)}")
        return super().resolve_command(ctx, args)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    import importlib_metadata

    click.echo(f"midspan {importlib_metadata.version('midspan')}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
def root() -> None:
    """Put interceptors between MCP clients and MCP servers."""


def invoke(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code.

    0 is done; 2 is the operator's mistake, told in one line on stderr; a sub-command may return another one. Anything
    that is raised beside is a bug.
    """
    code = _complete() if completing() else _invoke(arguments)
    reset()
    return code


def _complete() -> int:
    """Answer the shell. What fails completes to nothing, in silence."""
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
            root.main(args=[], prog_name="midspan", complete_var=COMPLETE_VARIABLE)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except Exception:  # noqa: BLE001 - it would stand in the middle of what the person types
        return 1
    return 0


def _invoke(arguments: Sequence[str]) -> int:
    try:
        result: Any = root.main(args=list(arguments), prog_name="midspan", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        if wants_json(error, arguments):
            configure("json")
        print_error(_usage(error))
        return OperatorError.exit_code
    except click.Abort:
        return INTERRUPTED
    except Exception as error:
        mistake = operator_error_in(error)
        if mistake is None:
            raise
        print_error(mistake.message)
        return mistake.exit_code
    return result if isinstance(result, int) else 0


def _usage(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_text = f" (see `{context.command_path} --help`)" if context is not None else ""
    return f"{error.format_message()}{help_text}"


def main() -> NoReturn:
    """Run `midspan` with the arguments of this process, and exit."""
    sys.exit(invoke(sys.argv[1:]))
