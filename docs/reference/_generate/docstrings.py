"""From a docstring to Markdown. Sections (`Args:`, `Raises:` ...) become lists."""

from __future__ import annotations

import re

from midspan._docstrings import Docstring  # pyright: ignore[reportPrivateUsage] - the one parser, which is no API

_TITLES = {"Args": "Arguments"}
_ENTRY = re.compile(r"([A-Za-z_][\w.*]*): (.*)", re.DOTALL)


def markdown(docstring: Docstring, *, leave_out: tuple[str, ...] = ()) -> str:
    """Return all of a docstring but the sections to leave out."""
    parts = [docstring.text]
    for heading in docstring.sections:
        if heading in leave_out:
            continue
        word, comma, rest = heading.partition(",")
        title = f"{_TITLES.get(word, word)}{comma}{rest}"
        items = docstring.paragraphs(heading)
        entries = [_ENTRY.fullmatch(item) for item in items]
        if all(entries):
            listed = [f"- `{entry[1]}`: {entry[2]}" for entry in entries if entry]
            parts.append("\n".join([f"{title}:", "", *listed]))
        else:
            parts.append("\n\n".join([f"{title}: {items[0]}", *items[1:]]))
    return "\n\n".join(part for part in parts if part)


def cell(text: str) -> str:
    """Return a text fit for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
