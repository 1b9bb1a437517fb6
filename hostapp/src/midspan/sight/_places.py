"""Places in the operator's files, as they are shown."""

from __future__ import annotations

import os
from pathlib import Path


def shown_path(path: Path) -> str:
    """Return a path as it is shown: from the working directory when it is within it, else whole."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # on another drive
        return str(path)
    return str(path) if relative.startswith(os.pardir) else relative


def place_text(file: Path | None, line: int | None, column: int | None = None) -> str:
    """Return `midspan.toml:12:3`, as far as it is known; an empty text when nothing is."""
    parts = [None if file is None else shown_path(file), line, column]
    return ":".join(str(part) for part in parts if part is not None)
