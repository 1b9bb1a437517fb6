"""Scopes: which servers a guard is for, by their names. Needs the standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

PATTERN: Final = re.compile(r"[A-Za-z0-9*?\[\]!._:-]+")
"""Names of tables are lower-case letters, digits and hyphens; those that the command line gives may have more."""
PATTERN_FORM: Final = 'must be the name of a server, or a glob such as "prod-*"'


def check_pattern(text: str) -> None:
    """Refuse what matches no name at all.

    Raises:
        ValueError: it is no name and no glob.
    """
    if not PATTERN.fullmatch(text):
        raise ValueError(PATTERN_FORM)


def in_scope(server: str, scope: Iterable[str] | None) -> bool:
    """Tell whether a guard with this scope is for a server; None is for all."""
    return scope is None or any(fnmatchcase(server, pattern) for pattern in scope)


def unmatched(scope: Sequence[str], servers: Iterable[str]) -> list[int]:
    """Return the places in a scope of the patterns that match none of the servers."""
    names = list(servers)
    return [index for index, pattern in enumerate(scope) if not any(fnmatchcase(name, pattern) for name in names)]
