"""JSON-RPC envelopes, read without losing a key."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, Literal, cast

from midspan.relay._json import INVALID_REQUEST, JSONFaultError

CANCELLED: Final = "notifications/cancelled"

MessageId = str | int | float
Kind = Literal["request", "notification", "result", "error"]

_ENVELOPE: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_OPERANDS: Final = frozenset({"name", "uri", "arguments", "argument", "ref"})
"""Parameters that say what a request acts on."""


class Message:
    """One JSON-RPC message as it arrived.

    Attributes:
        envelope: the whole object; unknown keys included.
        kind: `request`, `notification`, `result` or `error`.
        id: of requests and their answers; None for notifications, and for errors that answer nothing.
        method: of requests and notifications; empty otherwise.
    """

    __slots__ = ("envelope", "id", "kind", "method")

    def __init__(self, envelope: dict[str, Any], kind: Kind, message_id: MessageId | None, method: str) -> None:
        self.envelope = envelope
        self.kind: Kind = kind
        self.id = message_id
        self.method = method

    def payload(self) -> dict[str, Any]:
        """Return the flat payload that interceptors see: `params`, `result`, or `{"error": ...}`.

        Raises:
            JSONFaultError: `params`, `result` or `error` is no object, or readers may differ on what `params` names.
        """
        key = {"result": "result", "error": "error"}.get(self.kind, "params")
        if key == "params" and key not in self.envelope:
            return {}
        value: object = self.envelope[key]
        if not isinstance(value, dict):
            raise JSONFaultError(f"{key} must be an object", INVALID_REQUEST)
        payload = cast("dict[str, Any]", value)
        if key == "error":
            return {"error": payload}
        if key == "params":
            check_spelling(payload, _OPERANDS)
        return payload

    def params_or_empty(self) -> dict[str, Any]:
        """Return `params`, or an empty object when there is none or it is none."""
        return object_or_empty(self.envelope.get("params"))

    def cancels(self) -> MessageId | None:
        """Return the id of the request that this cancels; None when it is no cancellation, or names none."""
        return as_id(self.params_or_empty().get("requestId")) if self.method == CANCELLED else None

    def with_payload(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the envelope with another payload, everything else as it was.

        Raises:
            TypeError: a JSON-RPC error is to become none.
        """
        if self.kind == "error":
            if not isinstance(payload.get("error"), dict):
                raise TypeError("an error must stay one")
            return {**self.envelope, "error": payload["error"]}
        key = "result" if self.kind == "result" else "params"
        if key not in self.envelope and not payload:
            return self.envelope
        return {**self.envelope, key: payload}


def classify(value: Any) -> Message:
    """Read a JSON value as a JSON-RPC message.

    Raises:
        JSONFaultError: it is a batch, no object, neither request, notification, result nor error, or more than one.
    """
    if isinstance(value, list):
        raise JSONFaultError("batches are not accepted", INVALID_REQUEST)
    if not isinstance(value, dict):
        raise JSONFaultError("a message must be an object", INVALID_REQUEST)
    envelope = cast("dict[str, Any]", value)
    check_spelling(envelope, _ENVELOPE)
    message_id: object = envelope.get("id")
    if "method" in envelope:
        if "result" in envelope or "error" in envelope:
            raise JSONFaultError("a message cannot be both a request and an answer", INVALID_REQUEST)
        method: object = envelope["method"]
        if not isinstance(method, str):
            raise JSONFaultError("method must be a string", INVALID_REQUEST)
        if "id" not in envelope:
            return Message(envelope, "notification", None, method)
        return Message(envelope, "request", _checked_id(message_id), method)
    if ("result" in envelope) == ("error" in envelope):
        raise JSONFaultError("neither a request, a notification, a result nor an error", INVALID_REQUEST)
    if "result" in envelope:
        return Message(envelope, "result", _checked_id(message_id), "")
    return Message(envelope, "error", None if message_id is None else _checked_id(message_id), "")


def check_spelling(value: dict[str, Any], names: frozenset[str]) -> None:
    """Refuse a key that only a reader who ignores letter case takes for one of these names.

    Some JSON libraries do, by default, so that the server would obey what the judge took for an unknown key.

    Raises:
        JSONFaultError: there is one.
    """
    others = value.keys() - names
    if others and any(key.casefold() in _folded(names) for key in others):
        raise JSONFaultError("a key differs from a protocol key by letter case only", INVALID_REQUEST)


@lru_cache
def _folded(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _checked_id(value: object) -> MessageId:
    message_id = as_id(value)
    if message_id is None:
        raise JSONFaultError("id must be a string or a number", INVALID_REQUEST)
    return message_id


def as_id(value: object) -> MessageId | None:
    """Return the value if it can be an id, else None. NaN and infinities cannot: no answer could say them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def object_or_empty(value: object) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def id_of(value: Any) -> MessageId | None:
    """Return the id of whatever this is, for answering a message that was refused; None when it has no usable one."""
    return as_id(object_or_empty(value).get("id"))


def error_message(message_id: MessageId | None, code: int, text: str, data: Any = None) -> dict[str, Any]:
    """Build a JSON-RPC error response."""
    error: dict[str, Any] = {"code": code, "message": text}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": message_id, "error": error}
