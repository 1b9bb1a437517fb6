"""One served interceptor: it runs by the chain's own steps, and its result is put into the wire's form."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any, cast

import anyio

from midspan_sdk import (
    Exchange,
    Interceptor,
    InterceptorFailedError,
    InvalidInvocationError,
    InvocationError,
    SinkResult,
    ValidationResult,
    wire,
)
from midspan_sdk._chain import default_direction
from midspan_sdk._engine import IncompatibleStep, failure_of
from midspan_sdk._entries import ChainEntry
from midspan_sdk._frame import Frame
from midspan_sdk._handler import Mutation, reason_of
from midspan_sdk._local_step import LocalStep, read_config
from midspan_sdk._outcome import Outcome, result_of
from midspan_sdk._plain import NotPlainError, plain_object
from midspan_sdk._steps import Step, timeout_error
from midspan_sdk._surroundings import Surroundings
from midspan_sdk.serving._capability import context_needs
from midspan_sdk.serving._reading import InvocationRequest
from midspan_sdk.serving._sendable import check_sendable

logger = logging.getLogger("midspan.mcp")


class ServedInterceptor:
    """An interceptor on a server.

    Args:
        interceptor: what its author wrote.
        surroundings: what the server gives to handlers.

    Attributes:
        interceptor: the same.
        takes_session: whether its handler keeps state of a session.
    """

    def __init__(self, interceptor: Interceptor[..., Any], surroundings: Surroundings) -> None:
        self.interceptor = interceptor
        self.takes_session = "session_state" in interceptor.signature.names
        self._surroundings = surroundings
        self._needs = context_needs(interceptor)
        self._step = self._step_within(interceptor.timeout)
        self._shorter: LocalStep | None = None  # one, because an invoker asks for the same deadline each time

    async def invoke(self, request: InvocationRequest) -> dict[str, Any]:
        """Run the handler once and return the flat result of the wire.

        Raises:
            InvocationError: the invocation is refused, or the handler failed or was too slow.
        """
        self._check_hooks(request)
        config = self._config(request)
        step = self._step_for(request)
        exchange = self._exchange(request)
        frame = Frame(
            request.event,
            request.phase,
            default_direction(request.phase),
            request.context,
            exchange,
            {self.interceptor.name: config} if config is not None else None,
            anyio.current_time(),
            step.entry.timeout,
        )
        before = perf_counter()
        try:
            value = await self._run(step, frame, request)
            elapsed = perf_counter() - before
            if step.inline and elapsed > step.entry.timeout:
                # Nothing can interrupt a handler that does not suspend; late is late all the same.
                raise timeout_error(step, frame)
        except BaseException as error:  # noqa: BLE001 - sorted out by `failure_of`
            failure = self._logged(failure_of(step, frame, error))
            raise failure from failure.__cause__
        return self._wire_result(step, request, value, elapsed, exchange)

    def _check_hooks(self, request: InvocationRequest) -> None:
        name, descriptor = self.interceptor.name, self.interceptor.descriptor
        if request.event in wire.UNINTERCEPTED_METHODS or not descriptor.matches(request.event):
            raise InvalidInvocationError(name, "is not hooked to this event")
        if not descriptor.matches(request.event, request.phase):
            raise InvalidInvocationError(name, f"is not hooked to the {request.phase} phase of this event")

    def _config(self, request: InvocationRequest) -> dict[str, Any] | None:
        if not request.config and self.interceptor.config_model is None:
            return None  # some invokers always send an object
        if request.config is not None:
            # Checked also for a handler that does not take it: the caller means it to count.
            read_config(self.interceptor, self.interceptor.name, request.config)
        return request.config

    def _step_within(self, timeout: float | None) -> LocalStep:
        entry = ChainEntry(self.interceptor.descriptor, timeout=timeout)
        return LocalStep(self.interceptor, entry, self._surroundings)

    def _step_for(self, request: InvocationRequest) -> Step:
        step: Step = self._step
        declared = self.interceptor.timeout
        if request.timeout is not None and (declared is None or request.timeout < declared):
            if self._shorter is None or self._shorter.entry.timeout != request.timeout:
                self._shorter = self._step_within(request.timeout)
            step = self._shorter
        compat, version = self.interceptor.descriptor.compat, request.context.protocol_version
        if compat is not None and version is not None and not compat.admits(version):
            return IncompatibleStep(step, version)
        return step

    def _exchange(self, request: InvocationRequest) -> Exchange:
        name = self.interceptor.name
        exchange = Exchange()
        try:
            if wire.STATE_KEY in self._needs:
                if request.state is None:
                    raise InvalidInvocationError(name, f"needs {wire.STATE_KEY} in the context; send {{}} at first")
                exchange.commit_state(self.interceptor.state_group, {}, request.state)
            if wire.REQUEST_KEY in self._needs and request.phase == "response":
                if request.request is None:
                    raise InvalidInvocationError(name, f"needs the {wire.REQUEST_KEY}'s payload in the context")
                exchange.keep_request(request.request)
        except NotPlainError:
            raise InvalidInvocationError(name, "the context is not plain JSON") from None
        return exchange

    async def _run(
        self, step: Step, frame: Frame, request: InvocationRequest
    ) -> ValidationResult | Mutation | SinkResult:
        payload = request.payload
        if self.interceptor.type == "sink":
            return await step.record(frame, payload)
        if self.interceptor.type == "mutation":
            return await step.mutate(frame, payload)
        result, change = await step.validate(frame, payload)
        if change is not None:
            change.commit()
        return result

    def _logged(self, failure: InvocationError) -> InvocationError:
        extra = {"interceptor": self.interceptor.name}
        if isinstance(failure, InvalidInvocationError):
            logger.info("invocation refused: %s", failure, extra=extra)
        else:
            logger.error("%s", failure, exc_info=failure.__cause__, extra=extra)
        return failure

    def _wire_result(
        self,
        step: Step,
        request: InvocationRequest,
        value: ValidationResult | Mutation | SinkResult,
        elapsed: float,
        exchange: Exchange,
    ) -> dict[str, Any]:
        try:
            if isinstance(value, SinkResult):
                update = {"interceptor": self.interceptor.name, "phase": request.phase, "duration_ms": elapsed * 1000}
                result = value.model_copy(update=update).to_wire()
            else:
                outcome = Outcome(step.entry, elapsed, value, given=request.payload.value)
                result = result_of(outcome, request.phase).to_wire()
            if wire.STATE_KEY in self._needs:
                state = dict(exchange.state_of(self.interceptor.state_group))
                result["info"] = {**cast("dict[str, Any]", result.get("info") or {}), wire.STATE_KEY: state}
            result = plain_object(result)
            check_sendable(result)
        except ValueError as error:  # not plain, not to be encoded by pydantic, or not to be carried by the transports
            reason = reason_of(NotPlainError("$", "not JSON"), self.interceptor.type)
            failure = InterceptorFailedError(self.interceptor.name, reason)
            failure.__cause__ = error
            raise self._logged(failure) from error
        return result
