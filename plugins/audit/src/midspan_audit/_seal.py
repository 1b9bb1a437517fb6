"""The hash chain: what closes a line, and what a closed line says.

A line is a JSON object whose last key is `hash`. The hash is taken over the bytes of the line before `,"hash"`, which
hold the hash of the line before under `prev`; so a line cannot be edited, removed or moved without a break in the
chain. Nothing is parsed and printed again to check it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from midspan_audit._errors import AuditLogError, os_problem

VERSION: Final = 1
MAX_LINE_BYTES: Final = 1024 * 1024
MIN_KEY_BYTES: Final = 32
MAX_KEY_BYTES: Final = 64 * 1024
LINE_START: Final = b'{"v":1,"seq":'

PLAIN: Final = "sha256:"
KEYED: Final = "hmac-sha256:"

_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_CLOSED: Final = re.compile(rb'(\{.+),"hash":"((?:hmac-)?sha256:[0-9a-f]{64})"\}\n', re.DOTALL)


class BrokenLineError(ValueError):
    """A line is no record of this log. The text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One line's place in the chain.

    Attributes:
        seq: its number in the file, from 1.
        prev: the hash of the line before, or None in the first.
        hash: its own hash.
    """

    seq: int
    prev: str | None
    hash: str


class Seal:
    """Closes and checks lines, and makes payload digests, with a key or without.

    Args:
        key: the secret, or None for plain SHA-256, which anybody can recompute.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._chain_key = _derived(key, b"chain")
        self._digest_key = _derived(key, b"digest")

    @classmethod
    def from_file(cls, path: Path | None) -> Seal:
        """Read the key; white space around it does not count.

        Raises:
            AuditLogError: the file cannot be read, or holds too little or too much for a key.
        """
        if path is None:
            return cls()
        try:
            with path.open("rb") as file:
                key = file.read(MAX_KEY_BYTES + 1).strip()
        except OSError as error:
            raise AuditLogError(path, f"the key cannot be read: {os_problem(error)}") from error
        if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
            raise AuditLogError(
                path, f"a key has {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes; make one with `openssl rand -hex 32`"
            )
        return cls(key)

    def digest(self, digest: str | None) -> str | None:
        """Return the digest as it is recorded: with a key, the keyed hash of the SDK's plain one."""
        if digest is None or self._digest_key is None:
            return digest
        return KEYED + hmac.digest(self._digest_key, digest.encode("ascii"), "sha256").hex()

    def close(self, fields: Mapping[str, Any], after: Link | None) -> tuple[bytes, Link]:
        """Return the line that holds `fields` and follows `after`, and its place in the chain."""
        seq = after.seq + 1 if after is not None else 1
        prev = after.hash if after is not None else None
        body = _encode({"v": VERSION, "seq": seq, **fields, "prev": prev})[:-1].encode("ascii")
        hashed = self._hash(body)
        return body + b',"hash":"' + hashed.encode("ascii") + b'"}\n', Link(seq=seq, prev=prev, hash=hashed)

    def check(self, line: bytes) -> Link:
        """Return the place in the chain that a whole line, line end included, claims, once its own hash is right.

        Raises:
            BrokenLineError: it is no record, or its hash does not match.
        """
        found = _CLOSED.fullmatch(line)
        if found is None:
            raise BrokenLineError("not a record of this log")
        body, hashed = found[1], found[2].decode("ascii")
        if hashed.startswith(KEYED) and self._chain_key is None:
            raise BrokenLineError("written with a key, and none was given")
        if hashed.startswith(PLAIN) and self._chain_key is not None:
            raise BrokenLineError("written without a key")
        if not hmac.compare_digest(self._hash(body), hashed):
            keyed = ", or another key wrote it" if self._chain_key is not None else ""
            raise BrokenLineError(f"edited: its hash does not match its content{keyed}")
        return _link(body, hashed)

    def _hash(self, body: bytes) -> str:
        if self._chain_key is None:
            return PLAIN + hashlib.sha256(body).hexdigest()
        return KEYED + hmac.digest(self._chain_key, body, "sha256").hex()


def _derived(key: bytes | None, purpose: bytes) -> bytes | None:
    # A digest must never serve as a hash of the chain, so each use has a key of its own.
    return None if key is None else hmac.digest(key, b"midspan-audit 1 " + purpose, "sha256")


def _link(body: bytes, hashed: str) -> Link:
    try:
        loaded: object = json.loads(body + b"}")
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not a record of this log") from error
    record = cast("dict[str, Any]", loaded)
    version, seq, prev = record.get("v"), record.get("seq"), record.get("prev")
    if version != VERSION:
        raise BrokenLineError(f"a record of format {version!r}; this version reads format {VERSION}")
    if type(seq) is not int or seq < 1 or not (prev is None or isinstance(prev, str)):
        raise BrokenLineError("not a record of this log")
    return Link(seq=seq, prev=prev, hash=hashed)
