"""Where an import would lead, without importing anything."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder


def find_top_level(name: str) -> ModuleSpec | None:
    """Ask the finders of this process for a top-level module, in their order.

    Unlike `importlib.util.find_spec` it does not answer from what is imported already.
    """
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(name, None)
        if spec is not None:
            return spec
    return None


def find_within(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    """Look for a module of a namespace package in the namespace's folders.

    Args:
        name: its last part. Given in full, Python would want the namespace to be imported.
        folders: of the namespace.
    """
    return PathFinder.find_spec(name, folders)
