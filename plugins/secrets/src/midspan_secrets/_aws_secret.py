"""AWS secret access keys: forty characters that nothing but their surroundings tell from others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from midspan_secrets._detector import Span, compiled, mixed, varied

_KEY: Final = r"((?:[A-Za-z0-9/+]|\\/|%2[bBfF]){40})(?![A-Za-z0-9/+=])"
_GAP: Final = r"[^A-Za-z0-9/+]{1,20}+"
# The name says it: secret access key, secret key, aws_secret; a `value` may stand between, as in lists of variables.
_NAMED: Final = (
    r"(?:(?i:ecret[_\-. ]?(?:access[_\-. ]?)?key)|(?<=[Aa][Ww][Ss][_-][Ss])(?i:ecret))"
    rf"{_GAP}(?:(?i:value){_GAP})?{_KEY}"
)
_IDENTIFIER: Final = r"(?<![A-Z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Z0-9])"
_NEAR: Final = 160


def _is_key(token: str) -> bool:
    # Forty hexadecimal digits are a commit; a path has no digits among letters of both cases.
    return varied(token) and mixed(token) and compiled(r"[0-9A-Fa-f]{40}").fullmatch(token) is None


class AwsSecretDetector:
    """Finds a secret access key behind a name that says so, or soon behind an access key id."""

    kind = "aws-secret-access-key"
    what = "AWS secret access keys behind a name that says so, or soon behind an access key id"
    anchors = ("ecret", "ECRET", "AKIA", "ASIA")
    named = True

    def find(self, text: str) -> Iterator[Span]:
        """Yield the spans of the secrets."""
        named = compiled(_NAMED)
        for anchor in self.anchors[:2]:
            at = text.find(anchor)
            while at >= 0:
                match = named.match(text, at)
                if match is not None and _is_key(match[1]):
                    yield match.span(1)
                at = text.find(anchor, at + 1)
        identifier, key = compiled(_IDENTIFIER), compiled(r"(?<![A-Za-z0-9/+=])" + _KEY)
        for anchor in self.anchors[2:]:
            at = text.find(anchor)
            while at >= 0:
                found = identifier.match(text, at)
                if found is not None:
                    # One character more than the window, so that its edge is no end of a key.
                    for match in key.finditer(text, found.end(), found.end() + _NEAR):
                        if match.end(1) < found.end() + _NEAR and _is_key(match[1]):
                            yield match.span(1)
                at = text.find(anchor, at + 1)
