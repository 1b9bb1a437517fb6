"""`midspan completion`: the script that makes a shell complete the command."""

from __future__ import annotations

import click

from midspan.cli._completion import SHELLS, script_of
from midspan.cli._output import echo


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes your shell complete this command, its options, plugins and servers.

    bash: add eval "$(midspan completion bash)" to ~/.bashrc. zsh: the same with zsh, to ~/.zshrc. fish: write it into
    ~/.config/fish/completions/midspan.fish.
    """
    echo(script_of(context.find_root().command, shell))
