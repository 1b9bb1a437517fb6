"""The step of a handler in this process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from midspan_sdk._asking import HandlerAsk
from midspan_sdk._authoring import Interceptor
from midspan_sdk._deadlines import Resumed, stepped_value, stepping, within
from midspan_sdk._entries import ChainEntry
from midspan_sdk._frame import Frame, StateChange
from midspan_sdk._handler import (
    Mutation,
    WrongReturnError,
    mutation_of,
    sink_of,
    typed_payload,
    validation_of,
)
from midspan_sdk._interruption import interrupts
from midspan_sdk._invocation import Invocation, InvocationContext, ToolsView
from midspan_sdk._model import faulty_fields
from midspan_sdk._plain import Snapshot
from midspan_sdk._results import SinkResult, ValidationResult
from midspan_sdk._store import NamespacedStore
from midspan_sdk._surroundings import Surroundings
from midspan_sdk.errors import InterceptorFailedError, InvalidInvocationError


class LocalStep:
    """Calls a handler in this process: same isolation, checks, deadline and errors as over the wire."""

    __slots__ = (
        "_arguments",
        "_asks",
        "_keyword_only",
        "_stepped",
        "_surroundings",
        "direct",
        "entry",
        "inline",
        "interceptor",
    )

    def __init__(self, interceptor: Interceptor[..., Any], entry: ChainEntry, surroundings: Surroundings) -> None:
        self.entry = entry
        self.interceptor = interceptor
        self._surroundings = surroundings
        self.inline = interceptor.kind in ("plain", "stepped")
        self._stepped = interceptor.kind == "stepped"
        names = interceptor.signature.names
        simple = self.inline and names == ("payload",) and not interceptor.signature.keyword_only
        self.direct: Callable[[dict[str, Any]], Any] | None = None
        if simple:
            self.direct = stepping(interceptor.handler) if self._stepped else interceptor.handler
        self._arguments = [(name, self._getter(name)) for name in names]
        self._keyword_only = interceptor.signature.keyword_only
        self._asks = "ask" in names

    def validate_now(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]:
        """Run a validator that cannot suspend; its state is committed by the engine, in entry order."""
        call = _Call(self, frame, snapshot)
        return validation_of(call.run_now()), call.state

    def mutate_now(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Run a mutator that cannot suspend."""
        call = _Call(self, frame, snapshot)
        mutation = call.mutation(call.run_now())
        call.commit()
        return mutation

    async def validate(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]:
        """Run a validator; its state is committed by the engine, in entry order."""
        call = _Call(self, frame, snapshot)
        value = await (call.run_asking() if self._asks else call.run())
        return validation_of(value), call.state

    async def mutate(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Run a mutator."""
        call = _Call(self, frame, snapshot)
        mutation = call.mutation(await (call.run_asking() if self._asks else call.run()))
        call.commit()
        return mutation

    async def record(self, frame: Frame, snapshot: Snapshot) -> SinkResult:
        """Run a sink."""
        call = _Call(self, frame, snapshot)
        result = sink_of(await call.run())
        call.commit()
        return result

    def _getter(self, name: str) -> Callable[[_Call], Any]:
        interceptor, surroundings = self.interceptor, self._surroundings
        if name == "store":
            store = NamespacedStore(surroundings.store, interceptor.state_group)
            return lambda call: store
        if name == "session_state":
            return _session_state
        if name == "lifespan":
            bindings = interceptor.bindings
            return lambda call: bindings.lifespan
        return _GETTERS[name]


class _Call:
    """One call of one local handler."""

    __slots__ = ("ask", "frame", "given", "invocation", "original", "state", "step", "typed")

    def __init__(self, step: LocalStep, frame: Frame, snapshot: Snapshot) -> None:
        self.step = step
        self.frame = frame
        self.original = snapshot.value
        self.given = snapshot.copy()
        self.typed: BaseModel | None = None
        self.state: StateChange | None = None
        self.invocation: Invocation | None = None
        self.ask: HandlerAsk | None = None

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        step = self.step
        if self.frame.config is not None and "config" not in step.interceptor.signature.names:
            _config(self)  # checked although the handler does not look at it
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for name, getter in step._arguments:  # pyright: ignore[reportPrivateUsage]
            value = getter(self)
            if name in step._keyword_only:  # pyright: ignore[reportPrivateUsage]
                keywords[name] = value
            else:
                positional.append(value)
        return positional, keywords

    def start(self) -> Any:
        """Call the handler."""
        positional, keywords = self._arguments()
        return self.step.interceptor.handler(*positional, **keywords)

    def run_now(self) -> Any:
        value = self.start()
        return stepped_value(value) if self.step._stepped else value  # pyright: ignore[reportPrivateUsage]

    async def run(self) -> Any:
        """Run the handler to its end or its deadline."""
        kind = self.step.interceptor.kind
        if kind in ("plain", "stepped"):
            return self.run_now()
        if kind == "blocking":
            return await self._run_in_thread()
        started = asyncio.get_running_loop().time()
        value = self.start()
        if not inspect.iscoroutine(value):
            return await self._within(value, started) if inspect.isawaitable(value) else value
        coroutine = cast("Coroutine[Any, Any, Any]", value)
        try:
            yielded = coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        return await self._within(Resumed(coroutine, yielded), started)

    async def run_asking(self) -> Any:
        """Run a handler that may ask the user."""
        try:
            value = await self.run()
        except BaseException as error:
            if self.ask is not None and not interrupts(error):
                self.ask.end()
            raise
        if self.ask is not None:
            self.ask.end()
        return value

    async def _within(self, awaitable: Any, started: float) -> Any:
        return await within(self.frame, self.step.entry.timeout, awaitable, started=started, ask=self.ask)

    async def _run_in_thread(self) -> Any:
        threads = self.step._surroundings.threads  # pyright: ignore[reportPrivateUsage]
        if threads.exhausted():
            raise InterceptorFailedError(self.step.entry.name, "too many earlier calls still hang in their threads")
        invocation = _invocation(self)
        positional, keywords = self._arguments()
        handler = self.step.interceptor.handler
        started = asyncio.get_running_loop().time()
        try:
            return await self._within(threads.run(lambda: handler(*positional, **keywords)), started)
        except BaseException:
            invocation.cancel()
            raise

    def mutation(self, value: object) -> Mutation:
        """Turn what a mutator returned into its mutation."""
        if value is None and self.typed is not None:
            model = type(self.typed)
            if self.typed != model.model_validate(self.original):
                raise WrongReturnError("a mutator that edits its payload must return it")
        return mutation_of(value, given=self.given, original=self.original)

    def commit(self) -> None:
        """Apply what the handler changed in its state."""
        if self.state is not None:
            self.state.commit()


def _payload(call: _Call) -> Any:
    return call.given


def _typed(call: _Call) -> Any:
    model = call.step.interceptor.signature.typed
    assert model is not None
    call.typed = typed_payload(call.step.entry.name, model, call.given)
    return call.typed


def _request(call: _Call) -> Any:
    if call.frame.phase == "request" or call.frame.exchange is None:
        return None
    return call.frame.exchange.request


def _state(call: _Call) -> Any:
    call.state = StateChange(call.frame.exchange_or_new(), call.step.interceptor.state_group)
    return call.state.after


def _session_state(call: _Call) -> Any:
    session_id = call.frame.context.session_id
    if session_id is None:
        raise InvalidInvocationError(call.step.entry.name, "needs a session, and the context names none")
    surroundings = call.step._surroundings  # pyright: ignore[reportPrivateUsage]
    return surroundings.sessions.state(session_id, call.step.interceptor.state_group)


def _config(call: _Call) -> Any:
    interceptor = call.step.interceptor
    given = call.frame.config.get(call.step.entry.name) if call.frame.config else None
    if given is None:
        return interceptor.bindings.config
    return read_config(interceptor, call.step.entry.name, given)


def read_config(interceptor: Interceptor[..., Any], name: str, given: object) -> BaseModel | None:
    """Read a config that came with an invocation.

    Raises:
        InvalidInvocationError: the interceptor has no config, or this one does not fit.
    """
    model = interceptor.config_model
    if model is None:
        if given == {}:
            return None
        raise InvalidInvocationError(name, "takes no config")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        fields = faulty_fields(error, whole="config")
        raise InvalidInvocationError(name, f"the config does not fit: {fields}") from error


def _invocation(call: _Call) -> Invocation:
    if call.invocation is None:
        call.invocation = Invocation(
            interceptor=call.step.entry.name,
            event=call.frame.event,
            phase=call.frame.phase,
            timeout_ms=round(call.step.entry.timeout * 1000),
            context=_context(call),
        )
    return call.invocation


def _context(call: _Call) -> InvocationContext:
    context = call.frame.context
    if context.principal is None or not context.principal.claims:
        return context
    return context.model_copy(deep=True)  # claims are a dict, the one part of a context that could be edited


def _tools(call: _Call) -> Any:
    tools = call.frame.tools
    return _not_given(call) if tools is None else ToolsView(tools)


def _ask(call: _Call) -> Any:
    frame, entry = call.frame, call.step.entry
    if frame.asking is None:
        return _not_given(call)
    call.ask = HandlerAsk(
        frame.asking, interceptor=entry.name, event=frame.event, phase=frame.phase, audit=entry.mode == "audit"
    )
    return call.ask


def _not_given(call: _Call) -> Any:
    # Reached only in a chain that was told it gives this and has no way to: the entry fails, and policy decides.
    raise InterceptorFailedError(call.step.entry.name, "needs something that this mount does not give")


_GETTERS: dict[str, Callable[[_Call], Any]] = {
    "payload": _payload,
    "params": _typed,
    "result": _typed,
    "request": _request,
    "event": lambda call: call.frame.event,
    "phase": lambda call: call.frame.phase,
    "config": _config,
    "context": _context,
    "state": _state,
    "invocation": _invocation,
    "tools": _tools,
    "ask": _ask,
}
