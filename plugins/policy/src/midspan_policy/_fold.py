"""One spelling for all names that look or normalise alike."""

from __future__ import annotations

import unicodedata
from itertools import filterfalse
from typing import Final

# White space without a decomposition of its own to a plain space.
_WHITE_SPACE: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u1680\u2028\u2029"

# Default_Ignorable_Code_Point of Unicode that are not in a category C* and have no combining class: `unicodedata` does
# not know the property.
_IGNORABLE: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)

# `normalize` sorts each run of combining marks by insertion, in time quadratic in the run. The marks are dropped
# afterwards, so that their order across pieces does not matter and short pieces bound the time.
_PIECE: Final = 32


def fold(text: str) -> str:
    """Return the spelling that a text shares with all its look-alikes.

    Each character by itself becomes its compatibility decomposition (NFKD), without combining marks, without control,
    format and other invisible characters, white space as a plain space. So texts of equal NFKC form fold to the same,
    and `fold(a + b) == fold(a) + fold(b)`: what a glob matches, the folded glob matches in the folded text. Letter case
    stays. Linear in the text.
    """
    if text.isascii() and text.isprintable():
        return text
    for character in _WHITE_SPACE:
        text = text.replace(character, " ")
    if not text.isascii():
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        text = "".join(unicodedata.normalize("NFKD", piece) for piece in pieces)
    dropped = set(filter(_is_dropped, set(text)))
    return "".join(filterfalse(dropped.__contains__, text)) if dropped else text


def _is_dropped(character: str) -> bool:
    return bool(
        unicodedata.combining(character) or unicodedata.category(character)[0] == "C" or character in _IGNORABLE
    )
