"""What a detector is, and the one that finds tokens by their fixed beginning.

Every detector is linear in the text, whatever the text is. It jumps from one anchor to the next with `str.find`, and
the pattern that it tries there either looks at a bounded number of characters, or consumes what it looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Protocol

Span = tuple[int, int]

EDGE = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
    r"|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=;[0-9]{2}m))"
)
"""Where a token may begin: not within a word, but after a written-out escape (`\\n`, `%3D`, `\\u003d`) or a colour."""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: an import should cost nothing."""
    return re.compile(pattern)


class Detector(Protocol):
    """Finds the secrets of one kind in a text."""

    @property
    def kind(self) -> str:
        """The name of the kind, as config, replacements and reports have it."""
        ...

    @property
    def what(self) -> str:
        """What it finds, for people."""
        ...

    @property
    def anchors(self) -> tuple[str, ...]:
        """What a text must hold at least one of to have a secret of this kind."""
        ...

    @property
    def named(self) -> bool:
        """Whether it needs a name before the value, so that an object's key counts as such."""
        ...

    def find(self, text: str) -> Iterator[Span]:
        """Yield the spans of the secrets."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenDetector:
    """Finds tokens that begin with something fixed.

    Attributes:
        kind: the name of the kind.
        what: what it finds, for people.
        anchors: each begins a token, or the name before it, as the pattern does.
        pattern: matched at an anchor. Its first group is the secret, or else all of it.
        accept: a last look at the secret, or None.
        named: whether the pattern wants a name before the value.
    """

    kind: str
    what: str
    anchors: tuple[str, ...]
    pattern: str
    accept: Callable[[str], bool] | None = None
    named: bool = False

    def find(self, text: str) -> Iterator[Span]:
        """Yield the spans of the secrets."""
        for anchor in self.anchors:
            at = text.find(anchor)
            if at < 0:
                continue
            pattern = compiled(self.pattern)
            while at >= 0:
                match = pattern.match(text, at)
                if match is None:
                    at = text.find(anchor, at + 1)
                    continue
                span = match.span(1 if pattern.groups else 0)
                if self.accept is None or self.accept(text[span[0] : span[1]]):
                    yield span
                at = text.find(anchor, max(match.end(), at + 1))


def varied(token: str) -> bool:
    """Tell whether a token is more than a placeholder such as `xxxx…`."""
    return len(set(token[-24:])) >= 6


def random_looking(token: str) -> bool:
    """Tell a random token from words with hyphens: it has a digit, or letters of both cases."""
    has_digit, has_upper, has_lower = _classes(token)
    return varied(token) and (has_digit or (has_upper and has_lower))


def mixed(token: str) -> bool:
    """Tell whether a token has digits and letters of both cases."""
    return all(_classes(token))


def _classes(token: str) -> tuple[bool, bool, bool]:
    return (
        compiled("[0-9]").search(token) is not None,
        compiled("[A-Z]").search(token) is not None,
        compiled("[a-z]").search(token) is not None,
    )
