"""Invokes an interceptor that lives on a server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from mcp import Client, ClientSession, MCPError
from mcp_types import METHOD_NOT_FOUND
from pydantic import ValidationError

from midspan_sdk import (
    InterceptorFailedError,
    InterceptorResult,
    InterceptorTimeoutError,
    InvalidInvocationError,
    InvocationContext,
    InvocationError,
    LostServerError,
    MutationResult,
    SinkResult,
    UnknownInterceptorError,
    ValidationResult,
    wire,
)
from midspan_sdk._model import faulty_fields
from midspan_sdk._plain import NotPlainError, plain_object
from midspan_sdk.mcp._calls import LostConnectionError, NoAnswerError, call
from midspan_sdk.serving._sendable import UnsendableError, check_sendable
from midspan_sdk.wire import Phase

ANSWER_MARGIN: Final = 1.0
"""Seconds that a client waits beyond `timeoutMs`: the server's own answer says more than silence."""
_MAX_REASON: Final = 300
_VERDICTS: Final = {"validation": "valid", "mutation": "modified", "sink": "recorded"}


async def invoke_interceptor(
    client: Client | ClientSession,
    name: str,
    *,
    event: str,
    phase: Phase,
    payload: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    timeout_ms: int | None = None,
    context: InvocationContext | Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    request: Mapping[str, Any] | None = None,
) -> InterceptorResult:
    """Invoke one interceptor of a server, once.

    Args:
        client: an open client or session.
        name: the interceptor's name on that server.
        event: the JSON-RPC method of the message.
        phase: `request` or `response`.
        payload: the `params` object (`{}` if absent) or the `result` object.
        config: replaces the interceptor's configured one.
        timeout_ms: deadline in milliseconds, kept by the server; without an answer a second later the call ends.
        context: where the message comes from; the time is added when it has none.
        state: the exchange's state, for a server whose capability asks for `interceptorState`; the result's `info` has
            the new one under the same key.
        request: the request's payload, in the response phase, for a server that asks for `request`.

    Returns:
        The result, of the class of its type.

    Raises:
        UnknownInterceptorError: the server has none of that name.
        InvalidInvocationError: the server refused config or payload, or they cannot be sent: then nothing was.
        InterceptorTimeoutError: the interceptor, or the server, did not answer in time.
        LostServerError: the connection is closed.
        InterceptorFailedError: the interceptor failed, or what came back is no result.
    """
    params = _params(name, event, phase, payload, config, timeout_ms, _context(context, state, request))
    waits = timeout_ms / 1000 + ANSWER_MARGIN if timeout_ms is not None else None
    try:
        raw = await call(client, wire.INVOKE_METHOD, params, timeout=waits)
    except LostConnectionError as error:
        raise LostServerError(name) from error
    except NoAnswerError as error:
        raise InterceptorTimeoutError(name, timeout_ms=timeout_ms or 0, phase=phase) from error
    except MCPError as error:
        raise _failure(name, error, phase, timeout_ms) from error
    return _result(name, phase, raw)


def _context(
    context: InvocationContext | Mapping[str, Any] | None,
    state: Mapping[str, Any] | None,
    request: Mapping[str, Any] | None,
) -> dict[str, Any]:
    fields = context.to_wire() if isinstance(context, InvocationContext) else dict(context or {})
    fields.setdefault("timestamp", datetime.now(UTC).isoformat())
    if state is not None:
        fields[wire.STATE_KEY] = state
    if request is not None:
        fields[wire.REQUEST_KEY] = request
    return fields


def _params(
    name: str,
    event: str,
    phase: Phase,
    payload: Mapping[str, Any],
    config: Mapping[str, Any] | None,
    timeout_ms: int | None,
    context: dict[str, Any],
) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "event": event, "phase": phase, "payload": payload}
    if config is not None:
        params["config"] = config
    if timeout_ms is not None:
        params[wire.TIMEOUT_KEY] = timeout_ms
    params[wire.CONTEXT_KEY] = context
    try:
        params = plain_object(params)
        check_sendable(params)
    except NotPlainError as error:
        raise InvalidInvocationError(name, "the invocation is not plain JSON") from error
    except UnsendableError as error:
        raise InvalidInvocationError(name, f"the invocation {error}") from None
    return params


def _failure(name: str, error: MCPError, phase: Phase, timeout_ms: int | None) -> InvocationError:
    answer: object = error.data
    data = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    reason = _reason(data)
    if error.code == wire.INVALID_PARAMS:
        if reason is None and "interceptor" in data:
            return UnknownInterceptorError(name)
        return InvalidInvocationError(name, reason or "the server refused the invocation")
    if error.code == wire.EXECUTION_TIMEOUT and (
        wire.TIMEOUT_KEY in data or error.message == wire.EXECUTION_TIMEOUT_MESSAGE
    ):
        said = data.get(wire.TIMEOUT_KEY)
        return InterceptorTimeoutError(name, timeout_ms=said if type(said) is int else timeout_ms or 0, phase=phase)
    if error.code == METHOD_NOT_FOUND:
        return InterceptorFailedError(name, f"the server does not serve {wire.INVOKE_METHOD}")
    return InterceptorFailedError(name, reason or f"the server failed with code {error.code}")


def _reason(data: Mapping[str, Any]) -> str | None:
    reason = data.get("reason")
    if not isinstance(reason, str) or not reason:
        return None
    return "".join(character if character.isprintable() else " " for character in reason[:_MAX_REASON])


def _result(name: str, phase: Phase, raw: dict[str, Any]) -> InterceptorResult:
    kind = raw.get("type")
    verdict = _VERDICTS.get(kind) if isinstance(kind, str) else None
    if verdict is None:
        raise InterceptorFailedError(name, "the server's result is of no known type")
    # A word like "yes" would pass a lenient reader; a verdict is a boolean or none at all.
    if type(raw.get(verdict)) is not bool:
        raise InterceptorFailedError(name, f"the server's result has no boolean {verdict!r}")
    if raw.get("interceptor", name) != name or raw.get("phase", phase) != phase:
        raise InterceptorFailedError(name, "the server's result is of another invocation")
    try:
        fields = {"interceptor": name, "phase": phase, **raw}
        if kind == "validation":
            return ValidationResult.model_validate(fields)
        if kind == "mutation":
            return MutationResult.model_validate(fields)
        return SinkResult.model_validate(fields)
    except ValidationError as error:
        fields = faulty_fields(error, whole="result")
        raise InterceptorFailedError(name, f"the server's result does not fit: {fields}") from error
