"""The command line, from what click knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import cast

import click
from docstrings import cell


def commands() -> str:
    """Return a section for each command of midspan's own."""
    root = cast("click.Group", import_module("midspan.cli._group").root)
    return "\n\n".join(_section(context) for context in _leaves(click.Context(root, info_name="midspan")))


def _leaves(context: click.Context) -> Iterator[click.Context]:
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from _leaves(click.Context(child, info_name=name, parent=context))


def _section(context: click.Context) -> str:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"## `{context.command_path}`", f"```text\n{usage}\n```", _flowing(command.help or "")]
    rows = [
        f"| `{cell(record[0])}` | {cell(record[1])} |"
        for parameter in command.params
        if (record := parameter.get_help_record(context)) is not None and record[1]
    ]
    if rows:
        parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def _flowing(text: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
