"""Find the secrets of all wanted kinds in one text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from midspan_sdk.payload import fold
from midspan_secrets._config import SecretsConfig
from midspan_secrets._detectors import DETECTORS

_SHORTEST: Final = 20
"""No secret is shorter: an AWS access key id."""
_RUN: Final = r"[A-Za-z0-9_+/=.%\\-]{16}"
"""Every secret has a run like this somewhere; most short texts have none."""

_NAMED_VALUE: Final = 256
"""How much of a value is looked at together with its name."""


class Finding(NamedTuple):
    """A secret in a text.

    Attributes:
        kind: what it is.
        start: where it starts.
        end: where it ends.
    """

    kind: str
    start: int
    end: int


class Scanner:
    """Finds secrets.

    Args:
        kinds: the kinds to find.
        allow: values that are no secrets.
    """

    def __init__(self, kinds: Collection[str], allow: Collection[str] = ()) -> None:
        self.kinds = frozenset(kinds)
        self._allow = frozenset(allow)
        self._detectors = tuple(detector for detector in DETECTORS if detector.kind in self.kinds)
        self._anchors = [(anchor, detector.kind) for detector in self._detectors for anchor in detector.anchors]
        self._run = re.compile(_RUN)
        self._named = tuple(detector for detector in self._detectors if detector.named)

    def find(self, text: str, *, names: Iterable[str] = ()) -> list[Finding]:
        """Return the secrets in a text, in order and apart from each other.

        Args:
            text: the text; looked at as it is and as it reads.
            names: what the text is the value of, for kinds that only a name gives away.
        """
        if len(text) < _SHORTEST and text.isascii():
            return []
        names = tuple(names)
        found = self._both(names, text)
        if not text.isascii():
            folded = fold(text)
            for kind, start, end in self._both(names, folded.text):
                found.append(Finding(kind, *folded.original_span(start, end)))
        return _apart(found) if found else found

    def _both(self, names: tuple[str, ...], text: str) -> list[Finding]:
        found = self._find(text)
        for name in names:
            found += self._find_named(name, text)
        return found

    def _find(self, text: str) -> list[Finding]:
        if self._run.search(text) is None:
            return []
        present = {kind for anchor, kind in self._anchors if anchor in text}
        return [
            Finding(detector.kind, start, end)
            for detector in self._detectors
            if detector.kind in present
            for start, end in detector.find(text)
            if text[start:end] not in self._allow
        ]

    def _find_named(self, name: str, text: str) -> list[Finding]:
        assigned = f"{name}={text[:_NAMED_VALUE]}"
        before = len(name) + 1
        return [
            Finding(detector.kind, start - before, end - before)
            for detector in self._named
            for start, end in detector.find(assigned)
            if start >= before and assigned[start:end] not in self._allow
        ]


def _apart(found: list[Finding]) -> list[Finding]:
    """Join what overlaps; the kind is that of the longer one."""
    found.sort(key=lambda finding: (finding.start, -finding.end))
    apart = [found[0]]
    for finding in found[1:]:
        last = apart[-1]
        if finding.start >= last.end:
            apart.append(finding)
        elif finding.end > last.end:
            longer = max(last, finding, key=lambda one: one.end - one.start)
            apart[-1] = Finding(longer.kind, last.start, finding.end)
    return apart


@lru_cache(maxsize=64)
def _scanner(detect: tuple[str, ...], ignore: tuple[str, ...], allow: tuple[str, ...]) -> Scanner:
    return Scanner(set(detect) - set(ignore), allow)


def scanner_of(config: SecretsConfig) -> Scanner:
    """Return the scanner for a config; the same one for an equal config."""
    return _scanner(config.detect, config.ignore, config.allow)
