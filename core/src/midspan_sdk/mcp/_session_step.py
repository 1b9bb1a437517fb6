"""A chain's step whose interceptor lives on a server: `interceptor/invoke` on a client session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from midspan_sdk import (
    ChainEntry,
    InterceptorFailedError,
    InterceptorResult,
    InterceptorTimeoutError,
    InvalidInvocationError,
    LostServerError,
    MutationResult,
    SinkResult,
    UnknownInterceptorError,
    ValidationResult,
)
from midspan_sdk._handler import Mutation, mutation_of
from midspan_sdk._plain import Snapshot, plain_object
from midspan_sdk._steps import Frame, StateChange, within
from midspan_sdk.mcp._connection import Connection
from midspan_sdk.mcp._invoking import invoke_interceptor
from midspan_sdk.wire import REQUEST_KEY, STATE_KEY

_NEVER_SENT: Final = "requestState"
"""Opaque to all but the server that made it, and often a bearer of secrets; no remote interceptor sees it."""


class SessionStep:
    """Invokes one interceptor of a server."""

    def __init__(self, entry: ChainEntry, connection: Connection) -> None:
        self.entry = entry
        self.inline = False
        self.direct: Callable[[dict[str, Any]], Any] | None = None
        self._connection = connection
        self._name = entry.descriptor.name
        self._group = f"{connection.server}\x1f{self._name.rpartition('.')[0] or self._name}"

    def validate_now(self, frame: Frame, snapshot: Snapshot) -> ValidationResult:
        """Not possible: a session always suspends."""
        raise NotImplementedError

    def mutate_now(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Not possible: a session always suspends."""
        raise NotImplementedError

    async def validate(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]:
        """Run a validator; its state is committed by the engine, in entry order."""
        result, change = await self._invoke(frame, snapshot)
        if not isinstance(result, ValidationResult):
            raise self._wrong_kind()
        return result, change

    async def mutate(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Run a mutator."""
        result, change = await self._invoke(frame, snapshot)
        if not isinstance(result, MutationResult):
            raise self._wrong_kind()
        if change is not None:
            change.commit()
        # The copy that a local handler could have edited is the server's own here; there is nothing to compare.
        return mutation_of(result, given=snapshot.value, original=snapshot.value)

    async def record(self, frame: Frame, snapshot: Snapshot) -> SinkResult:
        """Run a sink."""
        result, change = await self._invoke(frame, snapshot)
        if not isinstance(result, SinkResult):
            raise self._wrong_kind()
        if change is not None:
            change.commit()
        return result

    def _wrong_kind(self) -> InterceptorFailedError:
        return InterceptorFailedError(self.entry.name, "the server's result is of another type than its descriptor")

    async def _invoke(self, frame: Frame, snapshot: Snapshot) -> tuple[InterceptorResult, StateChange | None]:
        try:
            return await within(frame, self.entry.timeout, self._call(frame, snapshot))
        except InterceptorTimeoutError as error:
            raise InterceptorTimeoutError(self.entry.name, timeout_ms=error.timeout_ms, phase=error.phase) from error
        except LostServerError as error:
            raise LostServerError(self.entry.name) from error
        except InvalidInvocationError as error:
            raise InvalidInvocationError(self.entry.name, error.reason) from error
        except UnknownInterceptorError as error:
            raise UnknownInterceptorError(self.entry.name) from error
        except InterceptorFailedError as error:
            raise InterceptorFailedError(self.entry.name, error.reason) from error

    async def _call(self, frame: Frame, snapshot: Snapshot) -> tuple[InterceptorResult, StateChange | None]:
        connection = self._connection
        client = await connection.client()
        if client is None:
            raise LostServerError(self.entry.name)
        wanted = connection.context_keys
        change = StateChange(frame.exchange_or_new(), self._group) if STATE_KEY in wanted else None
        request = None
        if REQUEST_KEY in wanted and frame.phase == "response" and frame.exchange is not None:
            request = frame.exchange.request
        payload = snapshot.value
        if _NEVER_SENT in payload:
            payload = {key: value for key, value in payload.items() if key != _NEVER_SENT}
        try:
            result = await invoke_interceptor(
                client,
                self._name,
                event=frame.event,
                phase=frame.phase,
                payload=payload,
                config=frame.config.get(self.entry.name) if frame.config else None,
                timeout_ms=max(1, round(self.entry.timeout * 1000)),
                context=frame.context,
                state=change.before if change is not None else None,
                request=request,
            )
        except LostServerError:
            connection.lost(client)
            raise
        if change is not None:
            result = self._take_state(result, change)
        return result, change

    def _take_state(self, result: InterceptorResult, change: StateChange) -> InterceptorResult:
        info = dict(result.info or {})
        state: object = info.pop(STATE_KEY, None)
        if state is not None:
            if not isinstance(state, dict):
                raise InterceptorFailedError(self.entry.name, "the server returned a state that is no object")
            change.after.clear()
            change.after.update(plain_object(state))  # pyright: ignore[reportUnknownArgumentType] - checked in there
        return result.model_copy(update={"info": info or None})


class MissingStep(SessionStep):
    """Stands for an interceptor that its server offered once and no longer does: it fails, and policy decides."""

    async def _call(self, frame: Frame, snapshot: Snapshot) -> tuple[InterceptorResult, StateChange | None]:
        raise InterceptorFailedError(self.entry.name, "its server no longer offers it")
