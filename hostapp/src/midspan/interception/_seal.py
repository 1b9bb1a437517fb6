"""What a client carries for the gateway: it can neither read nor change it, nor use it for anything else."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX: Final = "midspan.1."
"""Begins every sealed text."""
SHORTEST_KEY: Final = 32

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_USE: Final = b"midspan/request-state/1"


class BrokenSealError(Exception):
    """A text was not sealed here, not for this, or was changed."""


class ExpiredSealError(Exception):
    """A text was sealed too long ago."""


class Seal:
    """Seals values with AES-256-GCM.

    Args:
        key: the secret; None makes one for this process.
    """

    def __init__(self, key: str | None = None) -> None:
        self._key = key

    @cached_property
    def _cipher(self) -> AESGCM:
        # Imported here: most gateways never ask anybody, and every `midspan run` would pay for it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        if self._key is None:
            return AESGCM(os.urandom(_KEY_BYTES))
        derivation = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_USE)
        return AESGCM(derivation.derive(self._key.encode()))

    def close(self, value: dict[str, Any], purpose: object, *, seconds: float) -> str:
        """Seal a value.

        Args:
            value: plain JSON.
            purpose: plain JSON; it can be opened for the very same only.
            seconds: for how long it can be.
        """
        text = json.dumps([time.time() + seconds, value], separators=(",", ":")).encode("ascii")
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, text, _digest(purpose))
        return PREFIX + _text(sealed)

    def open(self, sealed: str, purpose: object) -> dict[str, Any]:
        """Return what was sealed.

        Raises:
            BrokenSealError: it was not sealed here, not for this purpose, or was changed.
            ExpiredSealError: it was, too long ago.
        """
        from cryptography.exceptions import InvalidTag

        text = sealed.removeprefix(PREFIX)
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            if _text(raw) != text:
                raise BrokenSealError
            opened = self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _digest(purpose))
        except (ValueError, InvalidTag):
            raise BrokenSealError from None
        until, value = cast("tuple[float, dict[str, Any]]", json.loads(opened))
        if time.time() >= until:
            raise ExpiredSealError
        return value


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode("ascii").rstrip("=")


def _digest(purpose: object) -> bytes:
    text = json.dumps(purpose, sort_keys=True, separators=(",", ":"))
    return PREFIX.encode() + hashlib.sha256(text.encode("ascii")).digest()
