"""Fill in the generated parts of the reference from the code: `uv run python docs/reference/_generate`.

A generated part stands between two comments. The first says what belongs there:

    <!-- generated: symbols midspan_sdk validator mutator -->
    <!-- end of generated part -->

With `--check` nothing is written: pages that are not current are named, and the exit code is 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from command_line import commands
from config_tables import config_table, json_schema
from events_table import event_names
from handler_tables import parameter_table
from symbols import constructors, error_tree, hooks, symbols

PAGES = Path(__file__).parents[1]
_PART = re.compile(r"(<!-- generated: (?P<what>[^\n]+?) -->\n)(?P<text>.*?)(<!-- end of generated part -->)", re.DOTALL)
_MAKERS: dict[str, Callable[..., str]] = {
    "commands": commands,
    "config-table": config_table,
    "constructors": constructors,
    "error-tree": error_tree,
    "event-names": event_names,
    "hooks": hooks,
    "parameter-table": parameter_table,
    "symbols": symbols,
}
_FILES: dict[str, Callable[[], str]] = {"midspan.schema.json": json_schema}
"""Files that are generated as a whole."""


def filled(page: str) -> str:
    """Return a page's text with its generated parts as they should be."""

    def fill(part: re.Match[str]) -> str:
        maker, *arguments = part["what"].split()
        return f"{part[1]}\n{_MAKERS[maker](*arguments).strip()}\n\n{part[4]}"

    return _PART.sub(fill, page)


def main(arguments: list[str]) -> int:
    """Write all pages, or check them."""
    stale: list[Path] = []
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text("utf-8")
        _put(page, filled(text), text, stale, arguments)
    for name, maker in _FILES.items():
        file = PAGES / name
        _put(file, maker(), file.read_text("utf-8") if file.exists() else None, stale, arguments)
    for page in stale:
        print(f"{page.name}: {'not current' if '--check' in arguments else 'written'}")
    return 1 if stale and "--check" in arguments else 0


def _put(page: Path, new: str, text: str | None, stale: list[Path], arguments: list[str]) -> None:
    if new != text:
        stale.append(page)
        if "--check" not in arguments:
            page.write_text(new, "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
