"""From a docstring to Markdown. Sections (`Args:`, `Raises:` ...) become lists."""

from __future__ import annotations

import inspect
import re

_HEADING = re.compile(r"(Args|Attributes|Returns|Raises)(, [a-z ]+)?:")
_ENTRY = re.compile(r"([A-Za-z_][\w.*]*): (.*)", re.DOTALL)
_TITLES = {"Args": "Arguments"}


class Docstring:
    """A docstring, taken apart.

    Attributes:
        text: what stands before and between the sections.
        sections: lines of each section by its heading.
    """

    def __init__(self, documented: object) -> None:
        lines = (inspect.getdoc(documented) or "").splitlines()
        text: list[str] = []
        self.sections: dict[str, list[str]] = {}
        current: list[str] | None = None
        for line in lines:
            if _HEADING.fullmatch(line):
                current = self.sections.setdefault(line.removesuffix(":"), [])
            elif current is not None and (line.startswith("    ") or not line):
                current.append(line)
            else:
                current = None
                text.append(line)
        self.text = "\n".join(text).strip()

    def entries(self, heading: str) -> dict[str, str]:
        """Return a section's entries, `name: meaning`, each on one line."""
        found: dict[str, str] = {}
        for entry in _paragraphs(self.sections.get(heading, [])):
            match = _ENTRY.fullmatch(entry)
            if match is None:
                raise ValueError(f"{heading}: no entry: {entry!r}")
            found[match[1]] = match[2]
        return found

    def markdown(self, *, leave_out: tuple[str, ...] = ()) -> str:
        """Return all of it but the sections to leave out."""
        parts = [self.text]
        for heading, lines in self.sections.items():
            if heading in leave_out:
                continue
            word, comma, rest = heading.partition(",")
            title = f"{_TITLES.get(word, word)}{comma}{rest}"
            items = _paragraphs(lines)
            entries = [_ENTRY.fullmatch(item) for item in items]
            if all(entries):
                listed = [f"- `{entry[1]}`: {entry[2]}" for entry in entries if entry]
                parts.append("\n".join([f"{title}:", "", *listed]))
            else:
                parts.append("\n\n".join([f"{title}: {items[0]}", *items[1:]]))
        return "\n\n".join(part for part in parts if part)


def _paragraphs(lines: list[str]) -> list[str]:
    """Join continuation lines: what is indented further, or follows without an entry of its own."""
    found: list[str] = []
    for line in lines:
        text = line[4:]
        if not text:
            continue
        if found and (text.startswith(" ") or not _ENTRY.match(text)):
            found[-1] += f" {text.strip()}"
        else:
            found.append(text.strip())
    return found


def cell(text: str) -> str:
    """Return a text fit for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
