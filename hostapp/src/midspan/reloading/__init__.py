"""Changing what guards the servers while they run.

A new chain is built and checked aside, then swapped between messages; the old one finishes what it began. A config that
cannot be used changes nothing.
"""

from midspan.reloading._changes import Changes
from midspan.reloading._reloader import Reloader

__all__ = ["Changes", "Reloader"]
