"""A copy of a text as it reads, with the way back to the original.

The copy is NFKC (Unicode Standard Annex 15) without the characters that have no width. It is made in blocks: an ASCII
block is itself, any other is folded piece by piece, and only a block in which somebody finds something pays for the
table of positions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from unicodedata import combining, normalize

_BLOCK = 4096
# Sorting a run of combining marks costs the square of its length; text that is meant to be read has no more than this
# many on one letter (Unicode Standard Annex 15, Stream-Safe Text Format).
_MARKS = 30
# Unicode's Default_Ignorable_Code_Point, with the other format characters that show nothing.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


@lru_cache(maxsize=8192)
def _folded(piece: str) -> str:
    return _INVISIBLE.sub("", normalize("NFKC", piece))


def _pieces(block: str, characters: Iterable[str]) -> Sequence[str]:
    """Return the parts of a block that fold on their own: characters, each with the marks on it."""
    if not any(map(combining, characters)):
        return block
    pieces: list[str] = []
    start = 0
    for index, character in enumerate(block):
        if index > start and (not combining(character) or index - start > _MARKS):
            pieces.append(block[start:index])
            start = index
    pieces.append(block[start:])
    return pieces


def _fold_block(block: str) -> str:
    # Few different characters make up a block, so most of the work is done once for each of them.
    characters = set(block)
    pieces = _pieces(block, characters)
    table = {piece: _folded(piece) for piece in (characters if pieces is block else set(pieces))}
    if all(piece == folded for piece, folded in table.items()):
        return block
    return "".join(map(table.__getitem__, pieces))


class Folded:
    """A folded text. Made by `fold`.

    Attributes:
        original: the text as it was.
        text: the text as it reads.
    """

    __slots__ = ("_changed", "_folded_starts", "_original_starts", "_tables", "original", "text")

    def __init__(
        self,
        original: str,
        text: str,
        original_starts: Sequence[int],
        folded_starts: Sequence[int],
        changed: Sequence[bool],
    ) -> None:
        self.original = original
        self.text = text
        self._original_starts = original_starts
        self._folded_starts = folded_starts
        self._changed = changed
        self._tables: dict[int, tuple[list[int], list[int]]] = {}

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Return where in `original` the span `text[start:end]` stands.

        A character that folds to several is in the span as a whole. Invisible characters are when they stand between
        its first and its last character.

        Raises:
            ValueError: the span is not within `text`.
        """
        if not 0 <= start <= end <= len(self.text):
            raise ValueError(f"no span {start}:{end} in a text of {len(self.text)} characters")
        if start == end:
            first = self._original(start)[0] if start < len(self.text) else len(self.original)
            return first, first
        return self._original(start)[0], self._original(end - 1)[1]

    def _original(self, index: int) -> tuple[int, int]:
        """Return the span of the original character or cluster that the folded character comes from."""
        block = bisect_right(self._folded_starts, index) - 1
        start = self._original_starts[block]
        within = index - self._folded_starts[block]
        if not self._changed[block]:
            return start + within, start + within + 1
        folded_ends, original_ends = self._table(block)
        piece = bisect_right(folded_ends, within)
        return start + (original_ends[piece - 1] if piece else 0), start + original_ends[piece]

    def _table(self, block: int) -> tuple[list[int], list[int]]:
        table = self._tables.get(block)
        if table is None:
            start = self._original_starts[block]
            is_last = block + 1 == len(self._original_starts)
            end = len(self.original) if is_last else self._original_starts[block + 1]
            text = self.original[start:end]
            pieces = _pieces(text, text)
            folded_ends = list(accumulate(len(_folded(piece)) for piece in pieces))
            table = self._tables[block] = folded_ends, list(accumulate(map(len, pieces)))
        return table

    def __repr__(self) -> str:
        return f"<Folded text of {len(self.original)} characters>"


def fold(text: str) -> Folded:
    """Return the text as it reads: NFKC, without invisible characters.

    Takes time and space linear in the text; ASCII text is returned as it is.
    """
    if text.isascii():
        return Folded(text, text, (0,), (0,), (False,))
    blocks: list[str] = []
    original_starts: list[int] = []
    folded_starts: list[int] = []
    changed: list[bool] = []
    start = length = 0
    while start < len(text):
        end = min(start + _BLOCK, len(text))
        while end < len(text) and end - start < _BLOCK + _MARKS and combining(text[end]):
            end += 1
        block = text[start:end]
        folded = block if block.isascii() else _fold_block(block)
        original_starts.append(start)
        folded_starts.append(length)
        changed.append(folded != block)
        blocks.append(folded)
        start = end
        length += len(folded)
    return Folded(text, "".join(blocks), original_starts, folded_starts, changed)
