"""Every command that is shown exists and takes its options."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest
from docs_pages import blocks_of, commands_of, pages, prose_of, readmes

from midspan.cli import _group  # pyright: ignore[reportPrivateUsage] - the root of the commands, which only tests walk

INLINE = re.compile(r"`(midspan [^`]+)`")
PLACEHOLDERS = ("<", "...", "X]")


def shown_commands() -> Iterator[tuple[str, str]]:
    for page in [*pages(), *readmes()]:
        for line in INLINE.findall(prose_of(page)):
            command = " ".join(line.split())
            # `midspan run` in a sentence names the command; in a terminal it has to be complete.
            if not is_only_named(command.split()[1:]):
                yield str(page), command
        for language in ("console", "sh"):
            for block in blocks_of(page, language):
                yield from ((block.place, shown.command) for shown in commands_of(block))
        for block in blocks_of(page, "json"):
            for server in server_tables(json.loads(block.text)):
                yield block.place, shlex.join([server["command"], *server["args"]])


def server_tables(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [server for key in ("mcpServers", "servers") for server in data.get(key, {}).values()]


def midspan_arguments(command: str) -> list[str] | None:
    """Return the arguments of `midspan` in a command, or None when it runs something else, or is a pattern."""
    if any(placeholder in command for placeholder in PLACEHOLDERS):
        return None
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    words = list(lexer)
    return words[words.index("midspan") + 1 :] if "midspan" in words else None


def is_only_named(arguments: list[str]) -> bool:
    context = click.Context(_group.root, info_name="midspan")
    for name in arguments:
        if not isinstance(context.command, click.Group):
            return False
        command = context.command.get_command(context, name)
        if command is None:
            return False
        context = click.Context(command, info_name=name, parent=context)
    return True


def problem_of(arguments: list[str]) -> str | None:
    context = click.Context(_group.root, info_name="midspan")
    while isinstance(context.command, click.Group):
        if not arguments or arguments[0].startswith("-"):
            return None
        name, *arguments = arguments
        command = context.command.get_command(context, name)
        if command is None:
            return f"there is no command {name!r}"
        context = click.Context(command, info_name=name, parent=context)
    if "--help" in arguments or not context.command.params:
        return None
    try:
        parsed = context.command.make_context(context.info_name, list(arguments), parent=context.parent)
    except click.UsageError as error:
        return error.format_message()
    if context.command.name == "run" and not any(parsed.params[name] for name in ("command", "url", "server")):
        return "no server"
    # `midspan run` takes an unknown option for the server's command.
    first = next(iter(parsed.params.get("command", ())), "")
    return f"no such option {first}" if first.startswith("-") else None


def test_every_command_that_is_shown_exists() -> None:
    checked = 0
    problems: list[str] = []
    for place, command in shown_commands():
        arguments = midspan_arguments(command)
        if arguments is None:
            continue
        checked += 1
        if problem := problem_of(arguments):
            problems.append(f"{place}: {command}: {problem}")
    assert problems == []
    assert checked > 20


@pytest.mark.parametrize(
    "arguments",
    [
        ["rum"],
        ["run", "--plugins", "x", "--", "y"],
        ["plugins", "lst"],
        ["plugins", "show"],
        ["run"],
        ["audit", "check"],
    ],
)
def test_a_command_that_does_not_exist_would_be_found(arguments: list[str]) -> None:
    assert problem_of(arguments)
