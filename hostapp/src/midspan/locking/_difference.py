"""One difference between the lock and what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from midspan.errors import OperatorError, one_line

_SHOWN = 12
"""Hexadecimal digits of a hash that are shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Something that is not as the lock says.

    Attributes:
        group: what it belongs to, for an overview: the distribution's name, or `plugin file no_rm.py`.
        subject: who differs: `midspan-acme 1.0`, `plugin 'acme'`, `acme.guard (midspan-acme 1.0)`.
        what: in which respect (a file's name, `fail_open`), or None when the subject itself does.
        expected: what the lock says.
        found: what is there.
    """

    group: str
    subject: str
    what: str | None = None
    expected: str
    found: str

    @property
    def place(self) -> str:
        """Who differs, and in which respect."""
        return self.subject if self.what is None else f"{self.subject}: {self.what}"

    def __str__(self) -> str:
        """Return the difference as a sentence."""
        return one_line(f"{self.place}: expected {self.expected}, found {self.found}")


def hash_difference(
    build: Callable[[str, str], Difference], expected: str | None, found: str | None, where: str | None = None
) -> Difference | None:
    """Return the difference of two hashes, or None when there is none.

    Args:
        build: makes the difference of two texts.
        expected: the hash in the lock; None for no such file.
        found: the hash of what is there; None for no such file.
        where: a place to name with what was found, or not found.
    """
    if expected == found:
        return None
    shown = f"{_short(found, expected)} ({where})" if where else _short(found, expected)
    return build(_short(expected, found), shown)


def _short(digest: str | None, other: str | None) -> str:
    if digest is None:
        return "no such file"
    kind, _, digits = digest.partition(":")
    if other is not None and other.startswith(f"{kind}:{digits[:_SHOWN]}"):
        return digest
    return f"{kind}:{digits[:_SHOWN]}…"


class LockError(OperatorError):
    """What is there is not what was locked.

    Attributes:
        differences: all that were found, at least one.
    """

    def __init__(self, differences: Iterable[Difference]) -> None:
        self.differences = tuple(differences)
        more = len(self.differences) - 1
        rest = f"and {more} more; " if more else ""
        super().__init__(f"--locked: {self.differences[0]} ({rest}`midspan plugins lock --diff` shows all)")
