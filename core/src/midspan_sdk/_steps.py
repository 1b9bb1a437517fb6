"""Steps: how the engine calls one entry.

A step is made once, when an entry is added. Making it finds out all that is the same for every message: which
arguments the handler takes, whether it can suspend, whether it needs state. The engine then only calls.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, cast

import anyio
import anyio.to_thread
from pydantic import BaseModel, ValidationError

from midspan_sdk._authoring import Interceptor
from midspan_sdk._entries import ChainEntry
from midspan_sdk._exchange import Exchange
from midspan_sdk._handler import (
    Mutation,
    WrongReturnError,
    mutation_of,
    sink_of,
    typed_payload,
    validation_of,
)
from midspan_sdk._invocation import EMPTY_CONTEXT, Invocation, InvocationContext, State
from midspan_sdk._plain import Snapshot
from midspan_sdk._results import SinkResult, ValidationResult
from midspan_sdk._store import NamespacedStore, Store
from midspan_sdk.errors import InterceptorFailedError, InterceptorTimeoutError, InvalidInvocationError
from midspan_sdk.wire import Direction, Phase

MAX_ABANDONED_THREADS = 32


class Sessions:
    """The `session_state` of every session and plugin."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, State]] = {}

    def state(self, session_id: str, group: str) -> State:
        """Return the live state of one plugin in one session."""
        return self._states.setdefault(session_id, {}).setdefault(group, State())

    def end(self, session_id: str) -> None:
        """Forget a session."""
        self._states.pop(session_id, None)


class Surroundings:
    """What a mount gives to all handlers: its store, its sessions, its worker threads."""

    def __init__(self, store: Store, sessions: Sessions, gives: frozenset[str]) -> None:
        self.store = store
        self.sessions = sessions
        self.gives = gives
        self.threads = Threads()


class Threads:
    """Worker threads of blocking handlers, the abandoned ones counted and bounded."""

    def __init__(self, limit: int = MAX_ABANDONED_THREADS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.abandoned = 0

    def exhausted(self) -> bool:
        """Whether so many threads were abandoned that no further one may start."""
        return self.abandoned >= self._limit

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run a function in a worker thread; when cancelled, leave it to itself and count it until it returns."""
        started = finished = left = False

        def work() -> Any:
            nonlocal started, finished
            with self._lock:
                if left:
                    return None
                started = True
            try:
                return call()
            finally:
                with self._lock:
                    finished = True
                    if left:
                        self.abandoned -= 1

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except asyncio.CancelledError:
            with self._lock:
                left = True
                if started and not finished:
                    self.abandoned += 1
            raise


class Frame:
    """One execution, as its steps see it.

    Attributes:
        error: whether the payload is a JSON-RPC error.
        budget: seconds the whole execution may take.
        started: when it started, by the event loop's clock.
    """

    __slots__ = ("budget", "config", "context", "direction", "error", "event", "exchange", "phase", "started")

    def __init__(
        self,
        event: str,
        phase: Phase,
        direction: Direction,
        context: InvocationContext | None,
        exchange: Exchange | None,
        config: dict[str, Any] | None,
        started: float,
        budget: float,
        error: bool = False,
    ) -> None:
        self.event = event
        self.phase: Phase = phase
        self.direction: Direction = direction
        self.context = context if context is not None else EMPTY_CONTEXT
        self.exchange = exchange
        self.config = config
        self.started = started
        self.budget = budget
        self.error = error

    def for_sinks(self) -> Frame:
        """Return the frame of work that goes on after the execution: only an entry's own deadline bounds it."""
        return Frame(
            self.event,
            self.phase,
            self.direction,
            self.context,
            self.exchange,
            self.config,
            self.started,
            math.inf,
            self.error,
        )

    def exchange_or_new(self) -> Exchange:
        """Return the exchange; one of its own when the caller passed none."""
        if self.exchange is None:
            self.exchange = Exchange()
        return self.exchange


class StateChange:
    """What a handler made of its copy of the exchange's state; committed in entry order."""

    __slots__ = ("after", "before", "exchange", "group")

    def __init__(self, exchange: Exchange, group: str) -> None:
        self.exchange = exchange
        self.group = group
        self.before = exchange.state_of(group)
        self.after = exchange.state_of(group)

    def commit(self) -> None:
        """Apply it.

        Raises:
            NotPlainError: it is not JSON.
        """
        self.exchange.commit_state(self.group, self.before, self.after)


class Step(Protocol):
    """One entry, ready to be called."""

    entry: ChainEntry
    inline: bool
    """Whether `*_now` can be used: the handler cannot suspend."""
    direct: Callable[[dict[str, Any]], Any] | None
    """For handlers that take the payload only and cannot suspend: the shortest way to their return value."""

    def validate_now(self, frame: Frame, snapshot: Snapshot) -> ValidationResult: ...
    def mutate_now(self, frame: Frame, snapshot: Snapshot) -> Mutation: ...
    async def validate(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]: ...
    async def mutate(self, frame: Frame, snapshot: Snapshot) -> Mutation: ...
    async def record(self, frame: Frame, snapshot: Snapshot) -> SinkResult: ...


class _Resumed:
    """Awaits the rest of a coroutine that was stepped once and yielded.

    Stepping first and awaiting afterwards lets a handler that does not suspend pay neither a task nor a timer. The
    coroutine stays in the task that stepped it, so that what it entered there still holds.
    """

    __slots__ = ("_coroutine", "_yielded")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], yielded: Any) -> None:
        self._coroutine = coroutine
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        coroutine = self._coroutine
        yielded = self._yielded
        while True:
            try:
                sent = yield yielded
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - handed on to the coroutine
                try:
                    yielded = coroutine.throw(error)
                except StopIteration as stop:
                    return stop.value
            else:
                try:
                    yielded = coroutine.send(sent)
                except StopIteration as stop:
                    return stop.value


class DeadlinePassedError(Exception):
    """The deadline of an entry, or of its chain, passed."""

    def __init__(self, *, chain: bool) -> None:
        self.chain = chain
        super().__init__("deadline passed")


def stepped_value(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine that cannot suspend comes to."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RuntimeError("a handler without `await` suspended")


def _stepping(handler: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    def step(payload: dict[str, Any]) -> Any:
        coroutine = handler(payload)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        coroutine.close()
        raise RuntimeError("a handler without `await` suspended")

    return step


class LocalStep:
    """Calls a handler in this process: same isolation, checks, deadline and errors as over the wire."""

    __slots__ = (
        "_arguments",
        "_handler",
        "_keyword_only",
        "_stepped",
        "_surroundings",
        "_takes_state",
        "_typed",
        "direct",
        "entry",
        "inline",
        "interceptor",
    )

    def __init__(self, interceptor: Interceptor[..., Any], entry: ChainEntry, surroundings: Surroundings) -> None:
        self.entry = entry
        self.interceptor = interceptor
        self._handler = interceptor.handler
        self._surroundings = surroundings
        self.inline = interceptor.kind in ("plain", "stepped")
        self._stepped = interceptor.kind == "stepped"
        names = interceptor.signature.names
        self._takes_state = "state" in names
        self._typed = interceptor.signature.typed
        simple = self.inline and names == ("payload",) and not interceptor.signature.keyword_only
        self.direct: Callable[[dict[str, Any]], Any] | None = None
        if simple:
            self.direct = _stepping(interceptor.handler) if self._stepped else interceptor.handler
        self._arguments = [(name, self._getter(name)) for name in names]
        self._keyword_only = interceptor.signature.keyword_only

    def validate_now(self, frame: Frame, snapshot: Snapshot) -> ValidationResult:
        """Run a validator that cannot suspend."""
        call = _Call(self, frame, snapshot)
        result = validation_of(call.run_now())
        call.commit()
        return result

    def mutate_now(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Run a mutator that cannot suspend."""
        call = _Call(self, frame, snapshot)
        mutation = call.mutation(call.run_now())
        call.commit()
        return mutation

    async def validate(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]:
        """Run a validator; its state is committed by the engine, in entry order."""
        call = _Call(self, frame, snapshot)
        return validation_of(await call.run()), call.state

    async def mutate(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Run a mutator."""
        call = _Call(self, frame, snapshot)
        mutation = call.mutation(await call.run())
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

    __slots__ = ("frame", "given", "invocation", "original", "state", "step", "typed")

    def __init__(self, step: LocalStep, frame: Frame, snapshot: Snapshot) -> None:
        self.step = step
        self.frame = frame
        self.original = snapshot.value
        self.given = snapshot.copy()
        self.typed: BaseModel | None = None
        self.state: StateChange | None = None
        self.invocation: Invocation | None = None

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
        return await self._within(_Resumed(coroutine, yielded), started)

    async def _within(self, awaitable: Any, started: float) -> Any:
        return await within(self.frame, self.step.entry.timeout, awaitable, started=started)

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


async def within(frame: Frame, timeout: float, awaitable: Any, *, started: float | None = None) -> Any:
    """Await with the nearer of an entry's and its chain's deadline.

    Args:
        frame: the execution.
        timeout: the entry's deadline in seconds.
        awaitable: what to await.
        started: when the entry started, by the event loop's clock; None is now.

    Raises:
        DeadlinePassedError: it passed.
    """
    chain_deadline = frame.started + frame.budget
    entry_deadline = (asyncio.get_running_loop().time() if started is None else started) + timeout
    limit = asyncio.timeout_at(min(entry_deadline, chain_deadline))
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise DeadlinePassedError(chain=chain_deadline <= entry_deadline) from None
        raise


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


def read_config(interceptor: Interceptor[..., Any], name: str, given: object) -> BaseModel:
    """Read a config that came with an invocation.

    Raises:
        InvalidInvocationError: the interceptor has no config, or this one does not fit.
    """
    model = interceptor.config_model
    if model is None:
        raise InvalidInvocationError(name, "takes no config")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        fields = ", ".join(".".join(str(part) for part in item["loc"]) or "config" for item in error.errors())
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


def _nothing(call: _Call) -> Any:
    return None


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
    "tools": _nothing,
    "ask": _nothing,
}


def timeout_error(step: Step, frame: Frame) -> InterceptorTimeoutError:
    """Build the error of an entry whose deadline passed."""
    return InterceptorTimeoutError(step.entry.name, timeout_ms=round(step.entry.timeout * 1000), phase=frame.phase)
