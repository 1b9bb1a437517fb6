"""The parameters of an invocation, read one by one: each fault has an answer of its own in the protocol's table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import ValidationError

from midspan_sdk import InvalidInvocationError, InvocationContext, wire
from midspan_sdk._plain import NotPlainError, Snapshot
from midspan_sdk.serving._sendable import UnsendableError, check_sendable
from midspan_sdk.wire import Phase

_MAX_TIMEOUT_MS: Final = 24 * 60 * 60 * 1000
_PHASES: Final[tuple[Phase, ...]] = ("request", "response")


@dataclass(frozen=True, kw_only=True, slots=True)
class InvocationRequest:
    """One invocation, as it was asked for.

    Attributes:
        event: the JSON-RPC method of the message.
        phase: `request` or `response`.
        payload: the payload.
        config: the config that replaces the interceptor's own, or None.
        timeout: the caller's deadline in seconds, or None.
        context: where the message comes from.
        state: the exchange's state as the caller has it, or None when it sent none.
        request: the request's payload, or None when the caller sent none.
    """

    event: str
    phase: Phase
    payload: Snapshot
    config: dict[str, Any] | None
    timeout: float | None
    context: InvocationContext
    state: Mapping[str, Any] | None
    request: Mapping[str, Any] | None


def read_invocation(name: str, params: Mapping[str, Any]) -> InvocationRequest:
    """Read all but the name.

    Raises:
        InvalidInvocationError: a parameter is missing or has the wrong form; the reason names it, never its value.
    """
    event, phase = params.get("event"), params.get("phase")
    if not isinstance(event, str) or not event:
        raise InvalidInvocationError(name, "event must be the name of a JSON-RPC method")
    if phase not in _PHASES:
        raise InvalidInvocationError(name, "phase must be 'request' or 'response'")
    context = _object(name, "context", params.get("context")) or {}
    return InvocationRequest(
        event=event,
        phase=phase,
        payload=_payload(name, params.get("payload")),
        config=_object(name, "config", params.get("config")),
        timeout=_timeout(name, params.get(wire.TIMEOUT_KEY)),
        context=_context(name, context),
        state=_object(name, f"context.{wire.STATE_KEY}", context.get(wire.STATE_KEY)),
        request=_object(name, f"context.{wire.REQUEST_KEY}", context.get(wire.REQUEST_KEY)),
    )


def _payload(name: str, value: object) -> Snapshot:
    if not isinstance(value, Mapping):
        raise InvalidInvocationError(name, "the payload must be a JSON object")
    try:
        snapshot = Snapshot(cast("Mapping[str, Any]", value))
        check_sendable(snapshot.value)
    except NotPlainError:
        raise InvalidInvocationError(name, "the payload is not plain JSON") from None
    except UnsendableError as error:
        raise InvalidInvocationError(name, f"the payload {error}") from None
    return snapshot


def _object(name: str, what: str, value: object) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidInvocationError(name, f"{what} must be a JSON object")
    return cast("dict[str, Any]", value)


def _timeout(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0 or value == math.inf:
        raise InvalidInvocationError(name, f"{wire.TIMEOUT_KEY} must be a positive number of milliseconds")
    return min(value, _MAX_TIMEOUT_MS) / 1000


def _context(name: str, value: dict[str, Any]) -> InvocationContext:
    try:
        return InvocationContext.model_validate(value)
    except ValidationError as error:
        fields = ", ".join(".".join(str(part) for part in item["loc"]) for item in error.errors())
        raise InvalidInvocationError(name, f"the context does not fit: {fields}") from error
