"""What the command line prints: errors, warnings, tables."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence

import click

from midspan.errors import one_line
from midspan.logs import say

Style = Callable[[str], str]


def echo(text: str, *, err: bool = False) -> None:
    """Print a line, on stdout or stderr; without colour when it is piped or `NO_COLOR` is set."""
    click.echo(text, err=err, color=False if os.environ.get("NO_COLOR") else None)


def width() -> int:
    """Return the columns of the terminal, at most 100; 80 when it is none."""
    import shutil

    return min(shutil.get_terminal_size().columns, 100) if sys.stdout.isatty() else 80


def echo_wrapped(text: str, *, indent: int = 0, hang: int = 0, style: Style | None = None) -> None:
    """Print a text on stdout, in lines of the terminal's width.

    Args:
        text: the text; line breaks and control characters in it are made harmless.
        indent: spaces before each line.
        hang: further spaces before all lines but the first.
        style: of each line.
    """
    import textwrap

    wrapped = textwrap.wrap(
        one_line(text),
        width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hang),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in wrapped:
        bare = line.lstrip(" ")
        echo(line[: len(line) - len(bare)] + (style(bare) if style is not None else bare))


def print_error(message: str) -> None:
    """Print the operator's mistake: one line on stderr."""
    say(logging.ERROR, message)


def print_warning(message: str) -> None:
    """Print what the operator may have meant otherwise: one line on stderr."""
    say(logging.WARNING, message)


def print_info(message: str) -> None:
    """Print what a running command has to say: one line on stderr."""
    say(logging.INFO, message)


def print_table(
    rows: Iterable[Sequence[str]],
    *,
    header: Sequence[str] | None = None,
    indent: int = 0,
    styles: Sequence[Callable[[str], Style | None] | None] = (),
) -> None:
    """Print aligned columns, the last of them as long as it is.

    Args:
        rows: the cells.
        header: the columns' names.
        indent: spaces before each row.
        styles: for each column, what gives the style of a cell by its text; may be shorter than the rows.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    lines = [list(header), *cells] if header else cells
    if not lines:
        return
    widths = [max(len(row[column]) for row in lines) for column in range(len(lines[0]))]
    for number, row in enumerate(lines):
        is_header = header is not None and number == 0
        shown = [
            _cell(text, width, i, is_header, styles) for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        echo(" " * indent + "  ".join(shown).rstrip())


def _cell(
    text: str, width: int, column: int, is_header: bool, styles: Sequence[Callable[[str], Style | None] | None]
) -> str:
    # Padding stays outside of the style: escape codes have no width.
    padding = " " * (width - len(text))
    if is_header:
        return click.style(text, bold=True) + padding
    chooser = styles[column] if column < len(styles) else None
    style = chooser(text) if chooser is not None and text else None
    return (style(text) if style is not None else text) + padding


def print_relay_only() -> None:
    """Say that nothing acts on messages."""
    print_info("relay only, no interceptor is enabled")
