"""Replace spans of a text."""

from __future__ import annotations

from collections.abc import Iterable


def replace_spans(text: str, replacements: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with some spans replaced; everything outside of them stays as it is.

    Args:
        text: the text.
        replacements: `(start, end, new)` with `text[start:end]` to be replaced; in order, not overlapping.

    Raises:
        ValueError: spans overlap, are out of order, or lie outside of the text.
    """
    kept: list[str] = []
    done = 0
    for start, end, new in replacements:
        if not done <= start <= end <= len(text):
            raise ValueError("spans must be in order, apart from each other, and within the text")
        kept += (text[done:start], new)
        done = end
    if not kept:
        return text
    kept.append(text[done:])
    return "".join(kept)
