"""Private keys: PEM blocks (RFC 7468), OpenSSH and OpenPGP armour, whole or cut off.

A block ends at its END line. Where that is missing, it ends with the run of base64: the lines as long as a line of a
key is, and one shorter one. The lines may be broken as in a file, by written-out escapes, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from midspan_secrets._detector import Span, compiled

_GAP: Final = r"(?:[ +]|%20)"
_BEGIN: Final = rf"BEGIN{_GAP}(?:[A-Z0-9]{{1,16}}{_GAP}){{0,4}}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?{_GAP}?-{{4,5}}"
_MARK: Final = r"-{4,5} ?(?:BEGIN|END)(?![A-Za-z])"
_END: Final = rf"-{{4,5}} ?END{_GAP}(?:[A-Z0-9]{{1,16}}{_GAP}){{0,4}}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?{_GAP}?-{{4,5}}"
_CHARACTER: Final = r"(?:[A-Za-z0-9+/=]|\\+/|%2[bBfF]|%3[dD])"
_TOKEN: Final = rf"{_CHARACTER}++"
# What may stand between two lines: line breaks, also written out; and what quotes, concatenates or prefixes them.
_BETWEEN: Final = r"(?:\s|\\++[nrt]|%0[aAdD]|[\"',;>|#*)(]|\\(?=\s)|\+(?=\s*[\"']))*+"
_BREAK: Final = r"\s*+(?:$|[\"',;\n\r)-]|\\++[nrt]|%0[aAdD])"
_HEADERS: Final = rf"(?:{_BETWEEN}[A-Z][A-Za-z-]{{1,30}}: [^\n\r\\\"]{{0,200}})*+"
_LINE: Final = 16
"""The least length of a line of a key, its last line apart."""
# How the base64 of a key begins, for keys that come without their BEGIN line: OpenSSH, PKCS#8 and SEC 1 of elliptic
# curves, Ed25519; and for RSA, what stands behind six characters of length (PKCS#8, PKCS#1).
_BODIES: Final = (
    "b3BlbnNzaC1rZXktdjE",
    "MIGHAgEAMBMGByqGSM49AgEG",
    "MIG2AgEAMBAGByqGSM49AgEG",
    "MHcCAQEEI",
    "MIGkAgEBBD",
    "MIHcAgEBBEI",
    "MC4CAQAwBQYDK2VwBCIEI",
)
_RSA_BODIES: Final = ("IBADANBgkqhkiG9w0BAQEFAASC", "IBAAKC", "IBAAKBgQ")


class PrivateKeyDetector:
    """Finds private keys, and only them: certificates and public keys stay."""

    kind = "private-key"
    what = (
        "private keys: PEM (PKCS#1, PKCS#8, encrypted, EC), OpenSSH, OpenPGP; whole blocks, also cut off at either end"
    )
    anchors = ("BEGIN", *_BODIES, *_RSA_BODIES)
    named = False

    def find(self, text: str) -> Iterator[Span]:
        """Yield the spans of the keys."""
        at = text.find("BEGIN")
        while at >= 0:
            span, _ = _block(text, at)
            if span is not None:
                yield span
            at = text.find("BEGIN", max(at + 1, span[1] if span is not None else 0))
        yield from _bodies(text)


def _block(text: str, at: int) -> tuple[Span | None, bool]:
    """Return the span of the block whose BEGIN stands at a position, and whether it is still open at the text's end."""
    dashes = text[max(0, at - 5) : at]
    if dashes.rstrip(" ")[-4:] != "----":
        return None, False
    begin = compiled(_BEGIN).match(text, at)
    if begin is None:
        return None, False
    start = at - len(dashes) + (0 if dashes[0] == "-" else 1)
    mark = compiled(_MARK).search(text, begin.end())
    end = compiled(_END).match(text, mark.start()) if mark is not None else None
    if end is not None:
        # A sentence about the two lines has no line of a key between them.
        has_key = compiled(rf"{_CHARACTER}{{{_LINE},}}").search(text, begin.end(), end.start()) is not None
        return ((start, end.end()) if has_key else None), False
    headers = compiled(_HEADERS).match(text, begin.end())
    body = _run(text, headers.end() if headers is not None else begin.end())
    if body is None:
        rest = compiled(_BETWEEN).match(text, begin.end())
        return None, rest is not None and rest.end() == len(text)
    rest = compiled(_BETWEEN).match(text, body)
    return (start, body), rest is not None and rest.end() == len(text)


def _run(text: str, at: int) -> int | None:
    """Return where the run of base64 lines ends that begins at or soon behind a position, or None."""
    between, token = compiled(_BETWEEN), compiled(_TOKEN)
    end: int | None = None
    while True:
        gap = between.match(text, at)
        line = token.match(text, gap.end() if gap is not None else at)
        if line is None:
            return end
        if line.end() - line.start() < _LINE:
            # The last line of a key may be short; a word of the sentence behind it has another one after it.
            alone = compiled(_BREAK).match(text, line.end()) is not None or line[0].endswith("=")
            return line.end() if end is not None and alone else end
        at = end = line.end()


def _bodies(text: str) -> Iterator[Span]:
    for beginning in _BODIES:
        yield from _body(text, beginning, 0)
    for beginning in _RSA_BODIES:
        yield from _body(text, beginning, 6)


def _body(text: str, beginning: str, behind: int) -> Iterator[Span]:
    at = text.find(beginning)
    while at >= 0:
        start, done = at - behind, at + 1
        fits = start >= 0 and (behind == 0 or text.startswith("MII", start))
        if fits and compiled(r"(?<![A-Za-z0-9+/])|(?<=\\[nrt])").match(text, start) is not None:
            end = _run(text, start)
            if end is not None and end - start >= 2 * _LINE:
                yield start, end
                done = end
        at = text.find(beginning, done)


def left_open(text: str) -> bool:
    """Tell whether a text ends within a private key, so that the next text may go on with it."""
    at = text.rfind("BEGIN")
    return at >= 0 and _block(text, at)[1]


def continued(text: str) -> tuple[Span | None, bool]:
    """Look at a text that follows one which was left open.

    Returns:
        The span of the key's part in it, or None; and whether the key is still open behind it.
    """
    mark = compiled(_MARK).search(text)
    end = compiled(_END).match(text, mark.start()) if mark is not None else None
    gap = compiled(_BETWEEN).match(text)
    start = gap.end() if gap is not None else 0
    run = _run(text, start)
    if run is not None:
        if end is not None and compiled(_BETWEEN).fullmatch(text, run, end.start()) is not None:
            return (start, end.end()), False
        return (start, run), run == len(text.rstrip())
    if end is not None:
        return None, False
    short = compiled(r"[A-Za-z0-9+/]{1,15}={1,2}").fullmatch(text)
    if short is not None:
        return (0, len(text)), True
    return None, len(text) < _LINE
