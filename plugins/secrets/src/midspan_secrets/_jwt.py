"""JSON Web Tokens: signed (RFC 7515, three parts) and encrypted (RFC 7516, five)."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from typing import Final, cast

from midspan_secrets._detector import EDGE, Span, compiled

_HEADER: Final = r"[A-Za-z0-9_-]*+"
_REST: Final = r"\.[A-Za-z0-9_-]*+\.[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]++(?!\.[A-Za-z0-9_-]))?"
_LONGEST_HEADER: Final = 65536
_TRIES: Final = 16
"""How many beginnings within one run of characters are looked at."""


class JwtDetector:
    """Finds JSON Web Tokens: the first part must decode to a JSON object with `alg`."""

    kind = "jwt"
    what = "JSON Web Tokens, signed or encrypted, whose header decodes to a JSON object with `alg`"
    # What a JSON object begins with: `{"`, `{ `, and `{` before a line break or tab.
    anchors = ("eyJ", "eyA", "ewo", "ew0", "ewk")
    named = False

    def find(self, text: str) -> Iterator[Span]:
        """Yield the spans of the tokens."""
        for anchor in self.anchors:
            yield from _find(text, anchor)


def _find(text: str, anchor: str) -> Iterator[Span]:
    at = text.find(anchor)
    if at < 0:
        return
    start, header, rest = compiled(EDGE), compiled(_HEADER), compiled(_REST)
    run_end = tries = 0
    following = None
    while at >= 0:
        if at >= run_end:
            match = header.match(text, at)
            assert match is not None
            run_end, tries = match.end(), 0
            following = rest.match(text, run_end)
        if following is None or tries >= _TRIES:
            at = text.find(anchor, run_end)
            continue
        if start.match(text, at) is not None:
            tries += 1
            if _is_header(text[at:run_end]):
                yield at, following.end()
                at = text.find(anchor, following.end())
                continue
        at = text.find(anchor, at + 1)


def _is_header(part: str) -> bool:
    if not 12 <= len(part) <= _LONGEST_HEADER:
        return False
    try:
        header: object = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and isinstance(cast("dict[str, object]", header).get("alg"), str)
