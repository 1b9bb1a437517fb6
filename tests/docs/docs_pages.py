"""What the documentation consists of: pages, their code blocks, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLE_PACKAGE = DOCS / "tutorial" / "first-plugin" / "midspan-acme-shell"
_GENERATOR = DOCS / "reference" / "_generate"
_FENCE = re.compile(r"^```(?P<language>[\w-]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A fenced block of code.

    Attributes:
        page: where it stands.
        line: the line of its fence, counted from 1.
        language: what is written behind the fence.
        text: the code.
    """

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Say where it stands."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A command of a `console` block, and what the page shows as its output."""

    command: str
    output: str


def pages() -> list[Path]:
    """Return all pages of the documentation."""
    return sorted(DOCS.rglob("*.md"))


def readmes() -> list[Path]:
    """Return the READMEs of the repository and of its distributions."""
    return [ROOT / "README.md", ROOT / "core/README.md", ROOT / "hostapp/README.md", *ROOT.glob("plugins/*/README.md")]


def example_files() -> list[Path]:
    """Return the Python files that readers are to copy from."""
    return [file for file in sorted(DOCS.rglob("*.py")) if not file.is_relative_to(_GENERATOR)]


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def prose_of(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _FENCE.sub("", text_of(page))


def blocks_of(page: Path, language: str | None = None) -> list[Block]:
    """Return the blocks of code of a page, of one language or of all."""
    text = text_of(page)
    found = [
        Block(page=page, line=text.count("\n", 0, match.start()) + 1, language=match["language"], text=match["text"])
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if language in (None, block.language)]


def commands_of(block: Block) -> Iterator[Shown]:
    """Yield the commands of a `console` block: those behind a `$`, or, when there is none, each line."""
    lines = block.text.splitlines()
    if not any(line.startswith("$ ") for line in lines):
        yield from (Shown(command=line, output="") for line in lines if line)
        return
    command, output = "", list[str]()
    for line in [*lines, "$ "]:
        if not line.startswith("$ "):
            output.append(line)
            continue
        if command:
            yield Shown(command=command, output="\n".join(output))
        command, output = line.removeprefix("$ "), []


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to a page's headings."""
    return {_slug(heading) for heading in _HEADING.findall(prose_of(page))}


def _slug(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")
