"""Docstrings, taken apart: what a model says of its keys is said once, and shown in several places.

Needs the standard library only.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_HEADING = re.compile(r"(Args|Attributes|Returns|Raises)(, [a-z ]+)?:")
_ENTRY = re.compile(r"([A-Za-z_][\w.*]*)(?: \([^)]*\))?: (.*)", re.DOTALL)


class Docstring:
    """A docstring, taken apart.

    Attributes:
        text: what stands before and between the sections.
        sections: lines of each section by its heading, without the colon.
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

    def paragraphs(self, heading: str) -> list[str]:
        """Return a section's entries and paragraphs, each on one line."""
        found: list[str] = []
        for line in self.sections.get(heading, []):
            text = line[4:]
            if not text:
                continue
            if found and (text.startswith(" ") or not _ENTRY.match(text)):
                found[-1] += f" {text.strip()}"
            else:
                found.append(text.strip())
        return found

    def entries(self, heading: str, *, strict: bool = True) -> dict[str, str]:
        """Return a section's entries, `name: meaning`, each on one line.

        Raises:
            ValueError: something in the section is no entry; not when it is not to be `strict`.
        """
        found: dict[str, str] = {}
        for paragraph in self.paragraphs(heading):
            match = _ENTRY.fullmatch(paragraph)
            if match is not None:
                found[match[1]] = match[2]
            elif strict:
                raise ValueError(f"{heading}: no entry: {paragraph!r}")
        return found


def attributes_of(kind: type[object]) -> dict[str, str]:
    """Return what the `Attributes:` of a class, and of those that it inherits from, say; its own words win."""
    return {name: text for owner in reversed(kind.__mro__) for name, text in _own_attributes(owner)}


def _own_attributes(owner: type[object]) -> Iterator[tuple[str, str]]:
    # A class without a docstring would answer with that of its base; pydantic's own speaks of what is no key.
    if owner.__dict__.get("__doc__") and owner.__module__.partition(".")[0] not in ("builtins", "pydantic"):
        yield from Docstring(owner).entries("Attributes", strict=False).items()
