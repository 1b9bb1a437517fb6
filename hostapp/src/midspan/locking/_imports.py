"""Importing what was hashed: the source, never bytecode that was written earlier.

Python runs `__pycache__/x.pyc` when the time and size that it records are those of `x.py`, whoever wrote it.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


@contextmanager
def locked_imports() -> Generator[None]:
    """Import from source within the block, whatever it is: no bytecode is read or written."""
    was = sys.pycache_prefix, sys.dont_write_bytecode
    # A folder that nobody can have made in advance.
    sys.pycache_prefix = os.path.join(os.path.abspath(os.sep), f"midspan-{secrets.token_hex(16)}")
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = was


def import_from_source(packages: Iterable[str]) -> None:
    """Import packages and all within them from source, for the life of the process.

    Plugins import inside of functions too, while they serve. For everything it would cost too much then: the MCP SDK
    takes seconds to compile.

    Args:
        packages: names of top-level packages and modules.
    """
    finder = next((one for one in sys.meta_path if isinstance(one, _SourceFinder)), None)
    if finder is None:
        finder = _SourceFinder()
        sys.meta_path.insert(0, finder)
    finder.packages.update(packages)


class _SourceFinder(MetaPathFinder):
    """Finds modules of some packages as Python does, and has them loaded without bytecode."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _SourceLoader(spec.loader.name, spec.loader.path)
        spec.cached = None
        return spec


class _SourceLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)  # pyright: ignore[reportCallIssue]
