"""Redact one payload."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from midspan_sdk.payload import PROTECTED_PARTS, Text, edit_text, find_text, replace_spans
from midspan_secrets._config import SecretsConfig
from midspan_secrets._detectors import JWT, PRIVATE_KEY
from midspan_secrets._private_key import continued, left_open
from midspan_secrets._scanner import Finding, Scanner, scanner_of

_REPORTED: Final = 100
"""How many places a report names."""
_PATH_LENGTH: Final = 400
_NAME_LENGTH: Final = 64
"""The longest text that counts as the name of the value behind it."""


class Redaction:
    """Edits the texts of one payload, in order, and remembers what it redacted where.

    Args:
        config: what is detected and what stands in its place.
    """

    def __init__(self, config: SecretsConfig) -> None:
        self._scanner = scanner_of(config)
        self._replacement = config.replacement
        self._redacted: Counter[tuple[str, str]] = Counter()
        self._key_open = False
        self._last_value = ""

    def edit(self, text: Text) -> str | None:
        """Return the text without its secrets, or None when it has none."""
        value = text.value
        if text.part == "key":
            findings = self._scanner.find(value)
        else:
            findings = self._scanner.find(value, names=self._names(text))
            if PRIVATE_KEY in self._scanner.kinds:
                findings = self._with_open_key(value, findings)
        if not findings:
            return None
        for finding in findings:
            self._redacted[finding.kind, text.path] += 1
        return replace_spans(value, [(start, end, self._instead_of(kind)) for kind, start, end in findings])

    def report(self) -> dict[str, Any]:
        """Return what was redacted: kind, JSON path and count, never a value."""
        places = [
            {"kind": kind, "path": _cut(path), "count": count}
            for (kind, path), count in list(self._redacted.items())[:_REPORTED]
        ]
        return {"redacted": places, "total": self._redacted.total()}

    def _names(self, text: Text) -> list[str]:
        """Return what the text may be the value of: its key; in `{"name": ..., "value": ...}` the value before."""
        name, before = text.name, self._last_value
        self._last_value = text.value if len(text.value) <= _NAME_LENGTH else ""
        names = [name] if name is not None else []
        return [*names, before] if before and name is not None and name.lower() == "value" else names

    def _with_open_key(self, value: str, findings: list[Finding]) -> list[Finding]:
        """Follow a private key over several texts, such as an array of its lines."""
        if self._key_open and not findings:
            span, self._key_open = continued(value)
            if span is not None:
                return [Finding(PRIVATE_KEY, *span)]
        if "BEGIN" in value:
            self._key_open = left_open(value)
        return findings

    def _instead_of(self, kind: str) -> str:
        return self._replacement.replace("{kind}", kind)


def redacted(payload: dict[str, Any], config: SecretsConfig) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return a payload without its secrets and a report, or None when it has none."""
    redaction = Redaction(config)
    edited = edit_text(payload, redaction.edit)
    return (edited, redaction.report()) if edited is not None else None


def protected_finding(payload: dict[str, Any], config: SecretsConfig) -> tuple[str, str] | None:
    """Return kind and path of the first secret that stands where nobody may edit, or None."""
    scanner = scanner_of(config)
    for text in find_text(payload, PROTECTED_PARTS):
        for finding in scanner.find(text.value):
            # A cursor may be a token that the server signed for itself.
            if not (text.part == "cursor" and finding.kind == JWT):
                return finding.kind, _without_secrets(text.path, scanner)
    return None


def _cut(path: str) -> str:
    return path if len(path) <= _PATH_LENGTH else f"{path[:_PATH_LENGTH]}…"


def _without_secrets(path: str, scanner: Scanner) -> str:
    return _cut(replace_spans(path, [(start, end, "…") for _, start, end in scanner.find(path)]))
