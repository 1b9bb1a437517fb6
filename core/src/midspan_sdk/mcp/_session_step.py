"""A chain's step whose interceptor lives on a server: `interceptor/invoke` on a client session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from mcp import MCPError

from midspan_sdk import (
    ChainEntry,
    InterceptorFailedError,
    InterceptorResult,
    InterceptorTimeoutError,
    InvalidInvocationError,
    InvocationError,
    LostServerError,
    MutationResult,
    SinkResult,
    UnknownInterceptorError,
    ValidationResult,
)
from midspan_sdk._deadlines import DeadlinePassedError, within
from midspan_sdk._frame import Frame, StateChange
from midspan_sdk._handler import Mutation, mutation_of
from midspan_sdk._interruption import interrupts
from midspan_sdk._plain import Snapshot, plain_object
from midspan_sdk._protected_names import REQUEST_STATE
from midspan_sdk.mcp._calls import NoAnswerError
from midspan_sdk.mcp._connection import AnyClient, Connection, Listing
from midspan_sdk.mcp._invoking import invoke_interceptor
from midspan_sdk.wire import REQUEST_KEY, STATE_KEY


class SessionStep:
    """Invokes one interceptor of a server.

    Args:
        entry: whose name may be another one than the server's.
        connection: to the server.
        listing: in which the server said what it needs.
    """

    def __init__(self, entry: ChainEntry, connection: Connection, listing: Listing) -> None:
        self.entry = entry
        self.inline = False
        self.direct: Callable[[dict[str, Any]], Any] | None = None
        self._connection = connection
        self._name = entry.descriptor.name
        self._takes_state = STATE_KEY in listing.context_keys
        self._takes_request = REQUEST_KEY in listing.context_keys
        group = listing.state_groups.get(self._name, self._name.rpartition(".")[0] or self._name)
        self._group = f"{connection.key}\x1f{group}"  # of this server only, also where another one has its name

    def validate_now(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]:
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
        started = asyncio.get_running_loop().time()
        client = await self._client(frame, started)
        call = self._connection.in_flight.run(self._call(client, frame, snapshot))
        try:
            return await within(frame, self.entry.timeout, call, started=started)
        except InvocationError as error:
            if isinstance(error, LostServerError):
                self._connection.lost(client)
            elif not _is_answer(error):
                self._connection.doubt(client)
            raise self._named(error) from None
        except DeadlinePassedError:
            self._connection.doubt(client)
            raise
        except BaseException as error:
            if interrupts(error):
                raise
            self._connection.doubt(client)
            raise InterceptorFailedError(self.entry.name, "the call to its server failed") from error

    async def _client(self, frame: Frame, started: float) -> AnyClient:
        client = self._connection.current
        if client is None:
            try:
                client = await within(frame, self.entry.timeout, self._connection.client(), started=started)
            except DeadlinePassedError as error:
                if error.chain:
                    raise
        if client is None:
            raise LostServerError(self.entry.name)
        return client

    async def _call(
        self, client: AnyClient, frame: Frame, snapshot: Snapshot
    ) -> tuple[InterceptorResult, StateChange | None]:
        change = StateChange(frame.exchange_or_new(), self._group) if self._takes_state else None
        request = None
        if self._takes_request and frame.phase == "response" and frame.exchange is not None:
            request = frame.exchange.request
        result = await invoke_interceptor(
            client,
            self._name,
            event=frame.event,
            phase=frame.phase,
            payload=_without_secret(snapshot.value),
            config=frame.config.get(self.entry.name) if frame.config else None,
            timeout_ms=max(1, round(self.entry.timeout * 1000)),
            context=frame.context,
            state=change.before if change is not None else None,
            request=_without_secret(request) if request is not None else None,
        )
        if change is not None:
            result = self._take_state(result, change)
        return result, change

    def _take_state(self, result: InterceptorResult, change: StateChange) -> InterceptorResult:
        if result.info is None or STATE_KEY not in result.info:
            return result
        info = dict(result.info)
        state: object = info.pop(STATE_KEY)
        if not isinstance(state, dict):
            raise InterceptorFailedError(self.entry.name, "the server returned a state that is no object")
        change.after.clear()
        change.after.update(plain_object(cast("object", state)))
        return result.model_copy(update={"info": info or None})

    def _named(self, error: InvocationError) -> InvocationError:
        """Return the same failure under the name that the entry has in the chain."""
        name = self.entry.name
        if isinstance(error, InterceptorTimeoutError):
            return InterceptorTimeoutError(name, timeout_ms=error.timeout_ms, phase=error.phase)
        if isinstance(error, UnknownInterceptorError):
            return UnknownInterceptorError(name)
        if isinstance(error, InvalidInvocationError | LostServerError):
            return type(error)(name, error.reason)
        assert isinstance(error, InterceptorFailedError)
        return InterceptorFailedError(name, error.reason)


class MissingStep(SessionStep):
    """Stands for an interceptor that its server offered once and no longer does: it fails, and policy decides."""

    async def _invoke(self, frame: Frame, snapshot: Snapshot) -> tuple[InterceptorResult, StateChange | None]:
        raise InterceptorFailedError(self.entry.name, "its server no longer offers it")


def _without_secret(payload: dict[str, Any]) -> dict[str, Any]:
    if REQUEST_STATE not in payload:
        return payload
    return {key: value for key, value in payload.items() if key != REQUEST_STATE}


def _is_answer(error: InvocationError) -> bool:
    """Tell whether it is what an interceptor's server says of an invocation, not what a transport made up."""
    cause = error.__cause__
    if isinstance(cause, NoAnswerError):
        return False
    if not isinstance(cause, MCPError):
        return True
    data: object = cause.data
    return isinstance(data, dict) and "interceptor" in data
