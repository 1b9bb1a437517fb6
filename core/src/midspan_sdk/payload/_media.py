"""Base64 that is media, which nobody edits."""

from __future__ import annotations

import re
from typing import Any, Final

# Shorter than any picture, and long enough to hold a key: shown as text.
_SHORTEST: Final = 44
_BASE64: Final = re.compile(r"[A-Za-z0-9+/\r\n]*+={0,2}[\r\n]*+")
_DATA_URI: Final = re.compile(
    r"data:[^,:\s\"'<>]{0,100}?;base64,[A-Za-z0-9+/]{44,}+={0,2}+(?![A-Za-z0-9_=-])", re.IGNORECASE
)
_MEDIA_TYPES: Final = frozenset({"image", "audio", "base64"})


def media_key(member: dict[str, Any]) -> str | None:
    """Return the key under which an object holds base64 media, or None.

    Image and audio content has it in `data`, resource contents in `blob`. What is there must look like base64, so that
    text cannot pass under these names.
    """
    kind = member.get("type")
    if type(kind) is str and kind in _MEDIA_TYPES and _is_base64(member.get("data")):
        return "data"
    return "blob" if "blob" in member and _is_base64(member["blob"]) else None


def _is_base64(value: object) -> bool:
    return type(value) is str and len(value) >= _SHORTEST and _BASE64.fullmatch(value) is not None


def outside_data_uris(text: str) -> list[tuple[int, int]]:
    """Return the spans of a text that are not base64 `data:` URIs, empty ones left out."""
    spans: list[tuple[int, int]] = []
    start = 0
    for uri in _DATA_URI.finditer(text):
        if uri.start() > start:
            spans.append((start, uri.start()))
        start = uri.end()
    if start < len(text):
        spans.append((start, len(text)))
    return spans
