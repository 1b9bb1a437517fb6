"""What the shell completes: names from metadata and from the config. Errors complete to nothing.

Whoever presses TAB wants neither an error between the words of the command line nor to wait: nothing is imported here
that a light command does not import, and no plugin.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

COMPLETE_VARIABLE: Final = "_MIDSPAN_COMPLETE"
"""How the shell's script asks the command for completions; what click makes of the command's name."""

SHELLS: Final = ("bash", "fish", "zsh")

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completing() -> bool:
    """Tell whether the shell asks for completions, and nobody for a command."""
    return COMPLETE_VARIABLE in os.environ


def script_of(root: click.Command, shell: str) -> str:
    """Return the script that makes a shell complete the command.

    Args:
        root: the whole command.
        shell: one of `SHELLS`.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(root, {}, "midspan", COMPLETE_VARIABLE).source()


def _names(find: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Make a `shell_complete` for click of what finds names. Whatever fails completes to nothing."""

    @wraps(find)
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from midspan.config import NAME

        found: list[str] = []
        with contextlib.suppress(Exception):
            # A name of another form is refused anyway, and the shell would expand what is in it.
            found = sorted({name for name in find(context) if NAME.fullmatch(name) and name.startswith(incomplete)})
        return found

    return complete


@_names
def complete_plugin(context: click.Context) -> Iterable[str]:
    """Complete ids of installed plugins; for `shell_complete=` of an argument or option."""
    from midspan.plugins import discover

    return [info.id for info in discover()]


@_names
def complete_instance(context: click.Context) -> Iterable[str]:
    """Complete ids of installed plugins and names of plugin tables in the config."""
    from midspan.plugins import discover

    return [*(info.id for info in discover()), *_tables(context, "plugins")]


@_names
def complete_server(context: click.Context) -> Iterable[str]:
    """Complete names of server tables in the config: that of `--config`, where it stands before."""
    return _tables(context, "servers")


def complete_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete files."""
    return [CompletionItem(incomplete, type="file")]


def _tables(context: click.Context, key: str) -> list[str]:
    with contextlib.suppress(Exception):
        from midspan.config import find_config, read_source

        named: Any = context.params.get("config")
        return list(read_source(find_config(Path(named) if named else None)).data.get(key, {}))
    return []
