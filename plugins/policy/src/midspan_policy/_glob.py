"""Globs over tool names."""

from __future__ import annotations

from midspan_policy._fold import fold

# Stands for a wildcard inside a text; no folded text contains it.
_WILD = "\0"


class Glob:
    """A pattern in which `*` stands for any run of characters, the empty one included. Nothing else is special.

    Matching is linear in the name: a glob without alternatives needs no backtracking, only the leftmost place of each
    literal part.

    Args:
        parts: the literal parts between the wildcards; a single one is a name without wildcard.
    """

    __slots__ = ("_first", "_last", "_middle", "parts")

    def __init__(self, parts: tuple[str, ...]) -> None:
        self.parts = parts
        self._first, self._last = parts[0], parts[-1]
        self._middle = tuple(part for part in parts[1:-1] if part)

    @classmethod
    def of(cls, pattern: str) -> Glob:
        """Read a pattern as it is written."""
        return cls(tuple(pattern.split("*")))

    def folded(self) -> Glob:
        """Return the glob that matches the folded form of every name that this one matches."""
        # Part by part: the full-width asterisk folds to `*`, and must not become a wildcard by that.
        return Glob(tuple(fold(part) for part in self.parts))

    @property
    def literal(self) -> str | None:
        """The one name it matches, or None when it has a wildcard."""
        return self._first if len(self.parts) == 1 else None

    @property
    def matches_everything(self) -> bool:
        """Whether it has wildcards only."""
        return len(self.parts) > 1 and not any(self.parts)

    def matches(self, name: str) -> bool:
        """Tell whether the whole name matches."""
        if len(self.parts) == 1:
            return name == self._first
        if not (name.startswith(self._first) and name.endswith(self._last)):
            return False
        position = len(self._first)
        end = len(name) - len(self._last)
        if end < position:
            return False
        for part in self._middle:
            found = name.find(part, position, end)
            if found < 0:
                return False
            position = found + len(part)
        return True

    def covers(self, other: Glob) -> bool:
        """Tell whether every name that `other` matches is matched by this one; both must be folded."""
        # A wildcard of `other` is a letter that no literal part contains, so that only a wildcard of this one absorbs
        # it: an ordinary match answers the question.
        return self.matches(_WILD.join(other.parts))
