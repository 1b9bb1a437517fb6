"""The chain: which interceptors run, in which order, under which policy."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import count
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from pydantic import ValidationError

from midspan_sdk._asking import Asker, Asking
from midspan_sdk._authoring import Interceptor, definition_error, interceptors_of
from midspan_sdk._background import Worker
from midspan_sdk._configured import as_configured
from midspan_sdk._engine import Finish, IncompatibleStep, Plan, Run
from midspan_sdk._entries import CHAIN_TIMEOUT, ChainEntry, InterceptorOverrides, overrides_from
from midspan_sdk._exchange import Exchange
from midspan_sdk._frame import Frame
from midspan_sdk._interruption import interrupts
from midspan_sdk._invocation import InvocationContext, ToolCatalog
from midspan_sdk._local_step import LocalStep
from midspan_sdk._observers import Observer
from midspan_sdk._outcome import AbortedAt, ChainExecutionResult
from midspan_sdk._plain import Snapshot, approximate_size
from midspan_sdk._records import record_of
from midspan_sdk._steps import Step
from midspan_sdk._store import MemoryStore, Store
from midspan_sdk._surroundings import Sessions, Surroundings
from midspan_sdk.errors import (
    ChainError,
    DuplicateInterceptorError,
    MidspanError,
    UnknownNameError,
    UnmetNeedError,
)
from midspan_sdk.wire import UNINTERCEPTED_METHODS, Direction, Phase

if TYPE_CHECKING:
    from mcp import Client, ClientSession

    from midspan_sdk.mcp._connection import Listing
    from midspan_sdk.mcp._servers import ServerEntries

logger = logging.getLogger("midspan.chain")

MAX_PLANS = 4096
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
DRAIN_TIMEOUT = 5.0
CLOSE_TIMEOUT = 10.0
OBSERVER_TIMEOUT = 5.0

NEED_SENTENCES = {
    "ask": "asks the user, which this mount cannot do",
    "tools": "needs the catalogue of tools, which this mount does not keep",
    "session": "needs sessions, which this mount does not have",
    "store": "needs a store, which this mount does not have",
}


class Chain:
    """Runs interceptors over messages at a trust boundary.

    Local validators and mutators run at once. Sinks, queued observers and interceptor servers live as long as the
    block `async with chain:`.

    Args:
        observers: take a decision record of every execution.
        gives: what handlers may need of this mount, of `session`, `store`, `tools`, `ask`. A chain keeps session state
            and a store by itself; a `session` also needs a `session_id` in the context of each message, `tools` a
            catalogue with each, `ask` a way to the user.
        ask: puts the questions of handlers to the user, where `execute` is given nothing else; gives `ask`.
        store: where `store` keeps its values; in memory by default.
        timeout: the chain's own deadline in seconds.
        max_payload_bytes: the largest payload or answer a mutator may return, in bytes as JSON.
        observer_timeout: how long a durable observer may take to keep a record, in seconds; else the message is
            blocked.
        late_sinks: hand sinks what leaves, after all mutators, in both directions. By default they come where the
            protocol has them: before the mutators when receiving, so that they see what arrived.
        succeeding: the chain whose place this one takes: it goes on with its sessions, `session_state`, and unless
            `store` is given with its store. Both may run at once, and see what the other keeps; a session that ends in
            one has ended in both.
        fresh: the plugins (the `state_group` of their interceptors) that have no `session_state` yet in this chain,
            although the one before has: their version or config is another. There they keep what they have.

    Raises:
        ChainError: two observers have the same name.
        ValueError: a timeout is not positive.
    """

    def __init__(
        self,
        *,
        observers: Iterable[Observer] = (),
        gives: Iterable[str] = ("session", "store"),
        ask: Asker | None = None,
        store: Store | None = None,
        timeout: float = CHAIN_TIMEOUT,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        observer_timeout: float = OBSERVER_TIMEOUT,
        late_sinks: bool = False,
        succeeding: Chain | None = None,
        fresh: Iterable[str] = (),
    ) -> None:
        self._steps: dict[str, Step] = {}
        self._servers: list[ServerEntries] = []
        self._places = count()
        self._plans: dict[tuple[str, str, str, str | None, bool], Plan] = {}
        self._needs: frozenset[str] = frozenset()
        for name, seconds in (("timeout", timeout), ("observer_timeout", observer_timeout)):
            if not 0 < seconds < math.inf:
                raise ValueError(f"{name} must be a positive number of seconds, not {seconds!r}")
        self._timeout = timeout
        self._observer_timeout = observer_timeout
        self._max_bytes = max_payload_bytes
        self._late_sinks = late_sinks
        self._ask = ask
        given_needs = frozenset(gives) if ask is None else frozenset((*gives, "ask"))
        before = succeeding._surroundings if succeeding is not None else None
        self._sessions = Sessions() if before is None else before.sessions.successor(fresh)
        self._surroundings = Surroundings(
            store or (before.store if before is not None else MemoryStore()),
            self._sessions,
            given_needs,
            before.threads if before is not None else None,  # those that hang there still hang
        )
        given = tuple(observers)
        names = [observer.name for observer in given]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ChainError(f"two observers are named {twice!r}; counts and logs could not tell them apart")
        self._durable = tuple(observer for observer in given if observer.durable)
        self._queued = tuple(observer for observer in given if not observer.durable)
        self._observed = bool(self._durable or self._queued)
        self._workers: dict[str, Worker[Any]] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._connections: anyio.abc.TaskGroup | None = None

    # Entries

    @property
    def entries(self) -> tuple[ChainEntry, ...]:
        """All entries, in order of registration."""
        return tuple(step.entry for step in self._steps.values())

    @property
    def local_interceptors(self) -> tuple[Interceptor[..., Any], ...]:
        """The interceptors that run in this process, in order of registration.

        They are copies: what an entry's policy says of mode, failing open, hooks, priority and deadline stands in them,
        as if their authors had written it. So they can be served to others as they run here.
        """
        local = (step for step in self._steps.values() if isinstance(step, LocalStep))
        return tuple(as_configured(step.interceptor, step.entry) for step in local)

    @property
    def needs(self) -> frozenset[str]:
        """What its handlers need of the mount, of `session`, `store`, `tools`, `ask`."""
        return self._needs

    def add(
        self,
        *contributions: object,
        overrides: Mapping[str, InterceptorOverrides | dict[str, Any]] | None = None,
    ) -> None:
        """Add interceptors, or objects with decorated methods.

        Args:
            contributions: what `@validator`, `@mutator` and `@sink` made, or objects with such methods.
            overrides: policy by interceptor name.

        Raises:
            DefinitionError: an interceptor, or its override, is not acceptable; nothing was added.
            UnknownNameError: an override names no interceptor of this call.
        """
        interceptors = [one for contribution in contributions for one in interceptors_of(contribution)]
        policies = dict(overrides or {})
        names = {interceptor.name for interceptor in interceptors}
        if unknown := sorted(policies.keys() - names):
            problem = f"overrides name {unknown[0]!r}, which is not among {', '.join(sorted(names)) or 'none'}"
            raise UnknownNameError(unknown[0], sorted(names), problem)
        added: dict[str, Step] = {}
        for interceptor in interceptors:
            if interceptor.name in self._steps or interceptor.name in added:
                raise DuplicateInterceptorError(interceptor.name, "is already in the chain", field="name")
            self._check_needs(interceptor)
            entry = self._entry(interceptor, policies.get(interceptor.name))
            added[interceptor.name] = LocalStep(interceptor, entry, self._surroundings)
        self._steps.update(added)
        self._plans.clear()
        self._needs = self._needs.union(*(interceptor.needs for interceptor in interceptors))
        self._start_workers()

    def _entry(
        self, interceptor: Interceptor[..., Any], policy: InterceptorOverrides | dict[str, Any] | None
    ) -> ChainEntry:
        try:
            overrides = overrides_from(policy)
        except ValidationError as error:
            raise definition_error(interceptor.name, error) from error
        return ChainEntry(interceptor.descriptor, overrides=overrides, timeout=interceptor.timeout)

    async def add_server(
        self,
        client_or_factory: Client | ClientSession | Callable[[], AbstractAsyncContextManager[Client | ClientSession]],
        *,
        policy: InterceptorOverrides | dict[str, Any] | None = None,
        overrides: Mapping[str, InterceptorOverrides | dict[str, Any]] | None = None,
        alias: str | Mapping[str, str] | None = None,
        label: str | None = None,
        skip_bad_descriptors: bool = False,
    ) -> None:
        """Add all interceptors of a server, found through an MCP client session.

        Several calls may run side by side: their entries stand in the order in which the calls began.

        Args:
            client_or_factory: an open `mcp.Client` or `ClientSession`, which stays the caller's; or a function that
                makes one, called again when the connection is lost, which needs `async with chain:`.
            policy: for all interceptors of the server; each takes what its kind takes. It has no `hooks`.
            overrides: policy by name in the chain; wins over `policy`, field by field.
            alias: a prefix for all names (`central` makes `central.<name>`), or new names by the server's names.
            label: how entries, errors and logs call the server; by default a prefix, else its own name.
            skip_bad_descriptors: leave a bad descriptor out, with an error in the log, instead of refusing the server.
                Its guard is then missing; by default discovery fails closed.

        Raises:
            PeerError: the server cannot be reached, or a descriptor is bad; nothing was added.
            DuplicateInterceptorError: a name is in the chain already; names both servers.
            DefinitionError: an override is not acceptable.
            UnknownNameError: an override or an alias names no interceptor of the server.
            ChainError: the policy or the alias is none; or a factory outside of the block.
        """
        from midspan_sdk.mcp._servers import ServerEntries

        entries = ServerEntries(
            client_or_factory,
            place=next(self._places),
            alias=alias,
            label=label,
            policy=policy,
            overrides=overrides,
            take=self._take_listing,
            skip_bad=skip_bad_descriptors,
        )
        await self._open_server(entries)
        self._servers.append(entries)
        self._servers.sort(key=lambda one: one.place)
        for name in [name for one in self._servers if one.place > entries.place for name in one.names]:
            self._steps[name] = self._steps.pop(name)

    async def _open_server(self, entries: ServerEntries) -> None:
        await entries.open(self._connections)
        try:
            self._take_listing(entries, entries.connection.listing)
        except BaseException:
            await entries.connection.aclose()
            raise

    async def refresh(self) -> None:
        """List the interceptors of all servers again.

        An entry that its server no longer offers stays and fails, so that its policy decides; new ones join.

        Raises:
            PeerError: a server cannot be reached, or its listing cannot be used; the chain stays as it was.
            DuplicateInterceptorError: a new name is in the chain already; the chain stays as it was.
            DefinitionError: an override does not fit a changed descriptor; the chain stays as it was.
        """
        listings = [(entries, await entries.connection.ask()) for entries in self._servers]
        # A server that was connected anew in the meantime is up to date already.
        self._take_listings(
            [(entries, listing) for entries, listing in listings if listing.client is entries.connection.current]
        )

    def _take_listing(self, entries: ServerEntries, listing: Listing) -> None:
        self._take_listings([(entries, listing)])

    def _take_listings(self, listings: Sequence[tuple[ServerEntries, Listing]]) -> None:
        present = dict(self._steps)
        found: list[dict[str, Step]] = []
        for entries, listing in listings:
            steps = entries.steps(listing, present)
            present.update(steps)
            found.append(steps)
        for (entries, listing), steps in zip(listings, found, strict=True):
            entries.keep(listing, steps)
        self._steps = present
        self._plans.clear()
        self._start_workers()

    def _check_needs(self, interceptor: Interceptor[..., Any]) -> None:
        for need in sorted(interceptor.needs - self._surroundings.gives):
            raise UnmetNeedError(interceptor.name, NEED_SENTENCES[need], field="needs")

    def end_session(self, session_id: str) -> None:
        """Forget a session's state. A mount calls this when the session is over."""
        self._sessions.end(session_id)

    # Plans

    def plan(
        self,
        event: str,
        phase: Phase,
        direction: Direction | None = None,
        *,
        protocol_version: str | None = None,
        error: bool = False,
    ) -> tuple[ChainEntry, ...]:
        """Return the entries that run for such a message, in the order in which their stages run."""
        plan = self._plan(event, phase, direction or default_direction(phase), protocol_version, error)
        return tuple(step.entry for step in plan.steps)

    def concerns(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        """Tell whether any entry or observer takes such messages. When not, they may pass as the bytes they are."""
        if event in UNINTERCEPTED_METHODS:
            return False
        if self._observed:
            return True
        return not self._plan(event, phase, direction or default_direction(phase), None, error).empty

    def may_suspend(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        """Tell whether `execute` may have to wait for anything on such messages.

        When not, its coroutine finishes at the first step, and a mount may run it without a task.
        """
        if self._durable:
            return True
        return self._plan(event, phase, direction or default_direction(phase), None, error).suspends

    def may_change(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        """Tell whether any mutator may change such messages, or answer them; one in audit mode may not."""
        if event in UNINTERCEPTED_METHODS:
            return False
        return self._plan(event, phase, direction or default_direction(phase), None, error).changes

    def _plan(self, event: str, phase: Phase, direction: Direction, version: str | None, error: bool) -> Plan:
        key = (event, phase, direction, version, error)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._build(event, phase, direction, version, error)
        return plan

    def _build(self, event: str, phase: Phase, direction: Direction, version: str | None, error: bool) -> Plan:
        if event in UNINTERCEPTED_METHODS:
            return Plan(direction == "sending")
        steps = [
            self._at_version(step, version)
            for step in self._steps.values()
            if step.entry.matches(event, phase) and (not error or _wants_errors(step))
        ]
        mutators = sorted(
            (step for step in steps if step.entry.type == "mutation"),
            key=lambda step: (step.entry.priority(phase), step.entry.name),
        )
        return Plan(
            mutate_first=direction == "sending",
            mutators=tuple(mutators),
            validators=tuple(step for step in steps if step.entry.type == "validation"),
            sinks=tuple(step for step in steps if step.entry.type == "sink"),
        )

    def _at_version(self, step: Step, version: str | None) -> Step:
        compat = step.entry.descriptor.compat
        if version is None or compat is None or compat.admits(version):
            return step
        return IncompatibleStep(step, version)

    # Execution

    async def execute(
        self,
        *,
        event: str,
        phase: Phase,
        payload: dict[str, Any],
        direction: Direction | None = None,
        interceptors: Sequence[str] | None = None,
        config: Mapping[str, Any] | None = None,
        timeout_ms: int | None = None,
        context: InvocationContext | None = None,
        exchange: Exchange | None = None,
        error: bool = False,
        tools: ToolCatalog | None = None,
        finish: Finish | None = None,
        ask: Asker | None = None,
    ) -> ChainExecutionResult:
        """Run all matching interceptors over one message.

        Args:
            event: the JSON-RPC method.
            phase: `request` or `response`; notifications have a request phase only.
            payload: the `params` object (`{}` if absent) or the `result` object; with `error`, `{"error": {...}}`. It
                must not change until this returns, nor later when an `exchange` keeps it for the response.
            direction: `sending` or `receiving`; by default the client's, which sends requests.
            interceptors: run only the entries of these names; None runs all, an empty list none.
            config: by entry name, in the place of the configured one.
            timeout_ms: the chain's own deadline in milliseconds, for this execution.
            context: where the message comes from.
            exchange: pass the same one for the request and its response.
            error: the response is a JSON-RPC error; only entries that ask for errors see it.
            tools: what handlers get as `tools`; copies of it. Entries that take it fail where it is None.
            finish: the mount's own last step over what leaves, called when nothing has blocked, before the decision is
                recorded. It gets the payload that arrived and the one that leaves, the same object when nothing changed
                it, and must edit neither. It returns None, or another payload, or an `AbortedAt` of type `mount`, which
                blocks.
            ask: puts the questions of handlers to the user; the chain's own by default. Handlers that take `ask` fail
                where there is neither.

        Returns:
            The result; a blocked message is a result, not an exception.

        Raises:
            ChainError: an unknown name, or sinks and queued observers outside of `async with chain:`.
            NotPlainError: the payload is not JSON.
            ValueError: the deadline is not positive.
        """
        version = context.protocol_version if context is not None else None
        towards = direction if direction is not None else ("sending" if phase == "request" else "receiving")
        plan = self._plans.get((event, phase, towards, version, error))
        if plan is None:
            plan = self._plan(event, phase, towards, version, error)
        if interceptors is not None:
            plan = self._filtered(plan, interceptors)
        observed = self._observed
        if plan.empty and config is None and finish is None and (not observed or event in UNINTERCEPTED_METHODS):
            if exchange is not None and phase == "request":
                exchange.keep_request(payload)
            return ChainExecutionResult(event, phase, payload)
        started = perf_counter()
        if self._group is None and (plan.sinks or self._queued):
            raise ChainError("sinks and queued observers work in the background: use `async with chain:`")
        if config is not None:
            self._check_config(config)
        if timeout_ms is not None and timeout_ms <= 0:
            raise ValueError(f"timeout_ms must be a positive number of milliseconds, not {timeout_ms!r}")
        now = anyio.current_time()
        frame = Frame(
            event,
            phase,
            towards,
            context,
            exchange,
            dict(config) if config else None,
            now,
            self._timeout if timeout_ms is None else timeout_ms / 1000,
            error,
            tools,
            Asking(asker) if (asker := ask or self._ask) is not None else None,
        )
        arrived = Snapshot(payload)
        run = Run(plan, frame, arrived, self._max_bytes)
        await run.stages()
        run.check_deadline(anyio.current_time())
        if finish is not None:
            run.finish(finish, payload)
        result = run.result(started)
        result.modified = run.snapshot is not arrived and run.aborted is None
        if observed:
            await self._observe(result, frame, arrived)
        if result.aborted_at is None and frame.exchange is not None and phase == "request":
            frame.exchange._keep(run.snapshot)  # pyright: ignore[reportPrivateUsage] - read already
        if plan.sinks:
            if self._late_sinks or plan.mutate_first:
                if result.aborted_at is None:
                    self._hand_to_sinks(plan, frame, run.snapshot, arrived)
            elif run.validated:
                self._hand_to_sinks(plan, frame, arrived, arrived)
        return result

    def _filtered(self, plan: Plan, names: Sequence[str]) -> Plan:
        wanted = frozenset(names)
        if unknown := sorted(wanted - self._steps.keys()):
            raise ChainError(f"no interceptor named {unknown[0]!r} in this chain")
        return plan.only(wanted)

    def _check_config(self, config: Mapping[str, Any]) -> None:
        if unknown := sorted(config.keys() - self._steps.keys()):
            raise ChainError(f"config names {unknown[0]!r}, which is not in this chain")

    # Sinks and observers

    def _hand_to_sinks(self, plan: Plan, frame: Frame, leaves: Snapshot, arrived: Snapshot) -> None:
        size = approximate_size(leaves.value)
        later = frame.for_sinks()
        # Copies, because a sink runs when the caller has its payload back and may edit it.
        left = Snapshot(leaves.copy())
        came = left if leaves is arrived else None
        for step in plan.sinks:
            seen = left
            if step.entry.descriptor.sees == "arrived":
                came = seen = came or Snapshot(arrived.copy())
            self._workers[step.entry.name].put((step, later, seen), size)

    async def _observe(self, result: ChainExecutionResult, frame: Frame, arrived: Snapshot) -> None:
        record = record_of(result, frame, arrived.value)
        for observer in self._durable:
            try:
                with anyio.fail_after(self._observer_timeout):
                    await observer.observe(record)
            except BaseException as failure:
                if interrupts(failure):
                    raise
                logger.error(
                    "observer %s could not keep the decision record: %s",
                    observer.name,
                    failure,
                    exc_info=None if isinstance(failure, MidspanError | TimeoutError) else failure,
                    extra={"observer": observer.name},
                )
                if result.aborted_at is None:
                    _block_unrecorded(result, observer)
                    record = record_of(result, frame, arrived.value)  # what is true for the observers after it
        if self._queued:
            record = record.detached()
            for observer in self._queued:
                self._workers[_observer_key(observer)].put(record, approximate_size(arrived.value))

    @property
    def dropped(self) -> dict[str, int]:
        """How many messages each sink, and how many records each queued observer, lost.

        The queue was full, or did not drain in time at the end. Still there after the block has ended.
        """
        return {worker.name: worker.dropped for worker in self._workers.values()}

    @property
    def failed(self) -> dict[str, int]:
        """How many times each sink and each queued observer failed."""
        return {worker.name: worker.failed for worker in self._workers.values()}

    def _start_workers(self) -> None:
        if self._group is None:
            return
        for name, step in self._steps.items():
            if step.entry.type == "sink" and name not in self._workers:
                self._start_worker(name, Worker(name, _record))
        for observer in self._queued:
            if (key := _observer_key(observer)) not in self._workers:
                self._start_worker(key, Worker(observer.name, observer.observe, role="observer"))

    def _start_worker(self, key: str, worker: Worker[Any]) -> None:
        assert self._group is not None
        self._workers[key] = worker
        self._group.start_soon(worker.run)

    async def __aenter__(self) -> Self:
        """Start the background workers."""
        if self._group is not None:
            raise ChainError("this chain is already entered")
        self._workers.clear()
        self._connections = await anyio.create_task_group().__aenter__()
        self._group = await anyio.create_task_group().__aenter__()
        self._start_workers()
        try:
            for entries in self._servers:
                if entries.closed:  # by the end of an earlier block
                    await self._open_server(entries)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Drain sinks and queued observers, for a bounded time, and stop; at once when the block was cancelled."""
        group, self._group = self._group, None
        assert group is not None
        for worker in self._workers.values():
            worker.close()
        group.cancel_scope.deadline = anyio.current_time() + DRAIN_TIMEOUT
        try:
            if error is not None and not isinstance(error, Exception):
                group.cancel_scope.cancel()
            # Not told of the error: it would come out of the block wrapped into a group.
            await group.__aexit__(None, None, None)
        finally:
            # Only now: a sink that is drained may live on a server.
            connections, self._connections = self._connections, None
            assert connections is not None
            for entries in self._servers:
                entries.connection.close()
            connections.cancel_scope.deadline = anyio.current_time() + CLOSE_TIMEOUT
            if error is not None and not isinstance(error, Exception):
                connections.cancel_scope.cancel()
            await connections.__aexit__(None, None, None)
            for entries in self._servers:
                await entries.connection.aclose()
        for worker in self._workers.values():
            if worker.dropped or worker.failed:
                logger.warning(
                    "%s: %d dropped, %d failed",
                    worker.name,
                    worker.dropped,
                    worker.failed,
                    extra={worker.role: worker.name},
                )


def _block_unrecorded(result: ChainExecutionResult, observer: Observer) -> None:
    result.status = "mutation_failed"
    result.final_payload = result.answer = result.answered_by = None
    result.modified = False
    result.aborted_at = AbortedAt(
        interceptor=observer.name, reason="the decision record could not be written", type="observer"
    )


async def _record(item: tuple[Step, Frame, Snapshot]) -> None:
    step, frame, snapshot = item
    await step.record(frame, snapshot)


def _observer_key(observer: Observer) -> str:
    return f"observer:{observer.name}"


def _wants_errors(step: Step) -> bool:
    return step.entry.descriptor.errors


def default_direction(phase: Phase) -> Direction:
    """Return the client's direction: it sends requests and receives responses."""
    return "sending" if phase == "request" else "receiving"
