"""The lock for the guards: what was agreed on, in a file, and whether it is what is there.

`midspan plugins lock` writes it; with `--locked` a start is refused on any difference. Distributions are compared
before any plugin is imported, chains after they are built.
"""

from __future__ import annotations

from midspan.locking._closure import ENVIRONMENT
from midspan.locking._descriptors import ANY_SERVER, EVERY_PLUGIN, BuiltChain, BuiltInstance
from midspan.locking._difference import Difference, LockError
from midspan.locking._file import lock_path, read_lock, write_lock
from midspan.locking._imports import locked_imports
from midspan.locking._lock import Lock, LockChecks, Taken

__all__ = [
    "ANY_SERVER",
    "ENVIRONMENT",
    "EVERY_PLUGIN",
    "BuiltChain",
    "BuiltInstance",
    "Difference",
    "Lock",
    "LockChecks",
    "LockError",
    "Taken",
    "lock_path",
    "locked_imports",
    "read_lock",
    "write_lock",
]
