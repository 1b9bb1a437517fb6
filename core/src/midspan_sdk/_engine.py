"""The execution model: mutators one after the other, validators side by side, failures by policy.

A handler that cannot suspend is called directly; one that can is stepped once in the caller's task and gets a deadline
only when it really suspends. Only validators that can suspend, and only when there are several, get a task each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

import anyio

from midspan_sdk._asking import UnansweredError
from midspan_sdk._deadlines import DeadlinePassedError
from midspan_sdk._entries import ChainEntry
from midspan_sdk._frame import Frame, StateChange
from midspan_sdk._handler import UNCHANGED, Mutation, mutation_of, reason_of, validation_of
from midspan_sdk._interruption import interrupts
from midspan_sdk._outcome import AbortedAt, ChainExecutionResult, Outcome
from midspan_sdk._plain import NotPlainError, Snapshot, approximate_size
from midspan_sdk._protected import ProtectedPartError, keep_protected
from midspan_sdk._results import ALLOWED, SinkResult, ValidationResult
from midspan_sdk._steps import Step, timeout_error
from midspan_sdk.errors import AskError, InterceptorFailedError, InterceptorTimeoutError, InvocationError
from midspan_sdk.wire import Status

logger = logging.getLogger("midspan.chain")

CHAIN = "chain"
MOUNT = "mount"
Finish = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | AbortedAt | None]
"""A mount's own last step: gets the payload that arrived and the one that leaves. See `Chain.execute`."""

_CHAIN_DEADLINE = "the chain did not finish within {} ms"


class Plan:
    """What runs for one event, phase and direction, in order.

    Attributes:
        empty: whether nothing matches.
        changes: whether any mutator may change or answer the message.
        suspends: whether any mutator or validator may have to wait for something.
    """

    __slots__ = ("changes", "empty", "mutate_first", "mutators", "sinks", "suspends", "validators")

    def __init__(
        self,
        mutate_first: bool,
        mutators: tuple[Step, ...] = (),
        validators: tuple[Step, ...] = (),
        sinks: tuple[Step, ...] = (),
    ) -> None:
        self.mutate_first = mutate_first
        self.mutators = mutators
        self.validators = validators
        self.sinks = sinks
        self.empty = not (mutators or validators or sinks)
        self.changes = any(step.entry.mode == "active" for step in mutators)
        self.suspends = not all(step.inline for step in (*mutators, *validators))

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in the order of the stages."""
        stages = (self.mutators, self.validators) if self.mutate_first else (self.validators, self.mutators)
        return (*stages[0], *stages[1], *self.sinks)

    def only(self, names: frozenset[str]) -> Plan:
        """Return the plan with the named entries only."""

        def keep(steps: tuple[Step, ...]) -> tuple[Step, ...]:
            return tuple(step for step in steps if step.entry.name in names)

        return Plan(self.mutate_first, keep(self.mutators), keep(self.validators), keep(self.sinks))


class IncompatibleStep:
    """Stands for an entry that does not work with the negotiated protocol version: it fails, and policy decides."""

    def __init__(self, step: Step, version: str) -> None:
        self.entry = step.entry
        self.inline = True
        self.direct: Callable[[dict[str, Any]], Any] | None = None
        self._version = version

    def _fail(self) -> InterceptorFailedError:
        return InterceptorFailedError(self.entry.name, f"does not work with protocol version {self._version}")

    def validate_now(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]:
        """Fail."""
        raise self._fail()

    def mutate_now(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Fail."""
        raise self._fail()

    async def validate(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]:
        """Fail."""
        raise self._fail()

    async def mutate(self, frame: Frame, snapshot: Snapshot) -> Mutation:
        """Fail."""
        raise self._fail()

    async def record(self, frame: Frame, snapshot: Snapshot) -> SinkResult:
        """Fail."""
        raise self._fail()


class Run:
    """One execution of a plan: the payload so far, what each entry came to, and who blocked."""

    __slots__ = (
        "aborted",
        "answer",
        "answered_by",
        "frame",
        "max_bytes",
        "outcomes",
        "plan",
        "snapshot",
        "status",
        "validated",
    )

    def __init__(self, plan: Plan, frame: Frame, snapshot: Snapshot, max_bytes: int) -> None:
        self.plan = plan
        self.frame = frame
        self.snapshot = snapshot
        self.max_bytes = max_bytes
        self.outcomes: list[Outcome] = []
        self.status: Status = "success"
        self.aborted: AbortedAt | None = None
        self.answer: dict[str, Any] | None = None
        self.answered_by: str | None = None
        self.validated = False
        """Whether the validators let the message pass."""

    async def stages(self) -> None:
        """Run mutators and validators in the order of the direction; stop at the first stage that blocks."""
        plan = self.plan
        if plan.mutate_first:
            if plan.mutators:
                await self._mutate()
            if plan.validators and self.aborted is None:
                await self._validate()
            self.validated = self.aborted is None
        else:
            if plan.validators:
                await self._validate()
            self.validated = self.aborted is None
            if plan.mutators and self.validated:
                await self._mutate()

    async def _mutate(self) -> None:
        frame = self.frame
        original = self.snapshot
        before = perf_counter()
        for step in self.plan.mutators:
            current = self.snapshot
            mutation: Mutation | None = None
            try:
                direct = step.direct
                if direct is not None and frame.config is None:
                    given = current.copy()
                    value = direct(given)
                    if value is None and given == current.value:
                        mutation = UNCHANGED
                    else:
                        mutation = mutation_of(value, given=given, original=current.value)
                elif step.inline:
                    mutation = step.mutate_now(frame, current)
                else:
                    mutation = await step.mutate(frame, current)
                after = perf_counter()
                if after - before - frame.waited_for_user(step.entry.name) > step.entry.timeout:
                    raise timeout_error(step, frame)
                if mutation.payload is not None or mutation.answer is not None:
                    self._check_output(step, mutation, current)
            except BaseException as error:  # noqa: BLE001 - sorted out by `failure_of`
                failure = failure_of(step, frame, error)
                after = perf_counter()
                self.outcomes.append(Outcome(step.entry, after - before, None, failure))
                if self._chain_deadline_passed(error) or self._failed(step, failure):
                    self.snapshot = original
                    return
                before = after
                continue
            self.outcomes.append(Outcome(step.entry, after - before, mutation, None, current.value))
            before = after
            if step.entry.mode == "audit":
                continue
            if mutation.modified:
                assert mutation.payload is not None
                self.snapshot = Snapshot(mutation.payload)
            if mutation.answer is not None and self._honour_answer(step, mutation.answer):
                return

    def _check_output(self, step: Step, mutation: Mutation, current: Snapshot) -> None:
        frame = self.frame
        if mutation.payload is not None:
            keep_protected(
                current.value,
                mutation.payload,
                event=frame.event,
                phase=frame.phase,
                direction=frame.direction,
                error=frame.error,
            )
            if approximate_size(mutation.payload) > self.max_bytes:
                raise OutputTooLargeError
        if mutation.answer is not None:
            if frame.phase != "request":
                raise InterceptorFailedError(step.entry.name, "the mutator answered in the response phase")
            if approximate_size(mutation.answer) > self.max_bytes:
                raise OutputTooLargeError

    def _honour_answer(self, step: Step, answer: dict[str, Any]) -> bool:
        if step.entry.server is not None and not step.entry.overrides.may_answer:
            name = step.entry.name
            logger.warning("%s is remote and not allowed to answer; ignored", name, extra={"interceptor": name})
            return False
        self.answer = answer
        self.answered_by = step.entry.name
        return True

    async def _validate(self) -> None:
        frame, snapshot = self.frame, self.snapshot
        steps = self.plan.validators
        outcomes: list[Outcome | None] = [None] * len(steps)
        changes: dict[int, StateChange] = {}
        waiting: list[int] = []
        before = perf_counter()
        for index, step in enumerate(steps):
            if not step.inline:
                waiting.append(index)
                continue
            try:
                change = None
                direct = step.direct
                if direct is not None and frame.config is None:
                    value = direct(snapshot.copy())
                    result = ALLOWED if value is None else validation_of(value)
                else:
                    result, change = step.validate_now(frame, snapshot)
                after = perf_counter()
                if after - before > step.entry.timeout:
                    raise timeout_error(step, frame)
                if change is not None:
                    changes[index] = change
                outcomes[index] = Outcome(step.entry, after - before, result)
            except BaseException as error:  # noqa: BLE001 - sorted out by `failure_of`
                failure = failure_of(step, frame, error)
                after = perf_counter()
                outcomes[index] = Outcome(step.entry, after - before, None, failure)
            before = after
        chain_late = False
        if waiting:
            chain_late = await self._validate_waiting(steps, waiting, outcomes, changes)
        if changes:
            self._commit(steps, outcomes, changes)
        open_questions: list[tuple[Step, InvocationError]] = []
        for step, outcome in zip(steps, outcomes, strict=True):
            assert outcome is not None
            self.outcomes.append(outcome)
            if isinstance(outcome.error, UnansweredError):
                open_questions.append((step, outcome.error))
            elif outcome.value is not ALLOWED:
                self._judge(step, outcome)
        for step, error in open_questions:  # nobody is asked about what another denies anyway
            self._failed(step, error)
        if chain_late:
            self._chain_deadline_passed(DeadlinePassedError(chain=True))

    async def _validate_waiting(
        self,
        steps: tuple[Step, ...],
        waiting: list[int],
        outcomes: list[Outcome | None],
        changes: dict[int, StateChange],
    ) -> bool:
        judged: list[tuple[Outcome, StateChange | None, bool]]
        if len(waiting) == 1:
            judged = [await self._judge_one(steps[waiting[0]])]
        else:
            judged = [
                one or (Outcome(steps[index].entry, 0.0, None, _cancelled_itself(steps[index])), None, False)
                for index, one in zip(
                    waiting, await _side_by_side([self._judge_one(steps[index]) for index in waiting]), strict=True
                )
            ]
        chain_late = False
        for index, (outcome, change, late) in zip(waiting, judged, strict=True):
            if change is not None:
                changes[index] = change
            outcomes[index] = outcome
            chain_late = chain_late or late
        return chain_late

    def _commit(self, steps: tuple[Step, ...], outcomes: list[Outcome | None], changes: dict[int, StateChange]) -> None:
        """Apply what validators made of their state: all saw the same, and the last in entry order wins."""
        for index in sorted(changes):
            try:
                changes[index].commit()
            except NotPlainError as error:
                outcome = outcomes[index]
                assert outcome is not None
                failure = failure_of(steps[index], self.frame, error)
                outcomes[index] = Outcome(outcome.entry, outcome.duration, None, failure)

    async def _judge_one(self, step: Step) -> tuple[Outcome, StateChange | None, bool]:
        before = perf_counter()
        try:
            result, change = await step.validate(self.frame, self.snapshot)
        except BaseException as error:  # noqa: BLE001 - sorted out by `failure_of`
            failure = failure_of(step, self.frame, error)
            late = isinstance(error, DeadlinePassedError) and error.chain
            return Outcome(step.entry, perf_counter() - before, None, failure), None, late
        duration = perf_counter() - before
        if (
            duration - self.frame.waited_for_user(step.entry.name) > step.entry.timeout
        ):  # it held the loop, or swallowed its cancellation
            return Outcome(step.entry, duration, None, timeout_error(step, self.frame)), None, False
        return Outcome(step.entry, duration, result), change, False

    def _judge(self, step: Step, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._failed(step, outcome.error)
        elif step.entry.mode == "active" and isinstance(outcome.value, ValidationResult) and outcome.value.blocks:
            self._abort(
                "validation_failed", AbortedAt(interceptor=step.entry.name, reason=outcome.reason(), type="validation")
            )

    def _failed(self, step: Step, failure: InvocationError) -> bool:
        """Log a failure and tell whether it blocks."""
        entry = step.entry
        if isinstance(failure, UnansweredError):
            self._abort(_failed_status(entry), AbortedAt(interceptor=entry.name, reason=failure.reason, type="ask"))
            return True
        blocks = entry.mode == "active" and not entry.fail_open
        level = logging.WARNING if entry.fail_open or isinstance(failure, AskError) else logging.ERROR
        logger.log(
            level,
            "%s failed: %s",
            entry.name,
            failure,
            exc_info=failure.__cause__,
            extra={"interceptor": entry.name},
        )
        if not blocks:
            return False
        if isinstance(failure, InterceptorTimeoutError):
            status: Status = "timeout"
        else:
            status = _failed_status(entry)
        outcome_reason = Outcome(entry, 0.0, None, failure).reason()
        self._abort(status, AbortedAt(interceptor=entry.name, reason=outcome_reason, type=entry.type))
        return True

    def _chain_deadline_passed(self, error: BaseException) -> bool:
        if not (isinstance(error, DeadlinePassedError) and error.chain):
            return False
        reason = _CHAIN_DEADLINE.format(round(self.frame.budget * 1000))
        self.status = "timeout"
        self.aborted = AbortedAt(interceptor=CHAIN, reason=reason, type=CHAIN)
        return True

    def finish(self, last: Finish, arrived: dict[str, Any]) -> None:
        """Let the mount have the last word on what leaves."""
        if self.aborted is not None:
            return
        try:
            verdict = last(arrived, self.snapshot.value)
            if isinstance(verdict, AbortedAt):
                self._abort("mutation_failed", verdict)
            elif verdict is not None:
                self.snapshot = Snapshot(verdict)
        except Exception:
            logger.exception("the mount's own last step failed; the message is blocked")
            reason = "the gateway's own last check failed"
            self._abort("mutation_failed", AbortedAt(interceptor=MOUNT, reason=reason, type=MOUNT))

    def check_deadline(self, now: float) -> None:
        """Block when handlers that never suspended took longer than the chain may."""
        asking = self.frame.asking
        paused = asking.paused if asking is not None else 0.0
        if self.aborted is None and now - self.frame.started - paused > self.frame.budget:
            self._chain_deadline_passed(DeadlinePassedError(chain=True))

    def _abort(self, status: Status, at: AbortedAt) -> None:
        if self.aborted is None:  # named is the first entry that blocks
            self.status = status
            self.aborted = at

    def result(self, started: float) -> ChainExecutionResult:
        """Build the execution's result."""
        passed = self.aborted is None
        result = ChainExecutionResult(self.frame.event, self.frame.phase, self.snapshot.value if passed else None)
        result.status = self.status
        result.outcomes = self.outcomes
        result.aborted_at = self.aborted
        if self.aborted is not None and self.aborted.type == "ask" and self.frame.asking is not None:
            result.questions = tuple(self.frame.asking.open)
        if passed and self.answered_by is not None:
            result.answered_by = self.answered_by
            result.answer = self.answer
        result.total_duration_ms = (perf_counter() - started) * 1000
        return result


def _failed_status(entry: ChainEntry) -> Status:
    return "validation_failed" if entry.type == "validation" else "mutation_failed"


class OutputTooLargeError(Exception):
    """A mutator's output is larger than the chain allows."""


async def _side_by_side(
    judgements: list[Any],
) -> list[tuple[Outcome, StateChange | None, bool] | None]:
    # None for a handler that cancelled the very task it ran in.
    tasks = [asyncio.ensure_future(judgement) for judgement in judgements]
    try:
        await asyncio.wait(tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait(tasks)
        raise
    return [None if task.cancelled() else task.result() for task in tasks]


def _cancelled_itself(step: Step) -> InterceptorFailedError:
    return InterceptorFailedError(step.entry.name, "the handler cancelled itself")


def failure_of(step: Step, frame: Frame, error: BaseException) -> InvocationError:
    """Turn what a step raised into the failure of its entry; let go on what is none."""
    if isinstance(error, DeadlinePassedError):
        return timeout_error(step, frame)
    if isinstance(error, InvocationError):
        return error
    if interrupts(error):
        raise error
    if isinstance(error, asyncio.CancelledError):
        failure = _cancelled_itself(step)
    elif isinstance(error, OutputTooLargeError):
        failure = InterceptorFailedError(step.entry.name, "the result is too large")
    elif isinstance(error, ProtectedPartError):
        failure = InterceptorFailedError(step.entry.name, str(error))
    else:
        failure = InterceptorFailedError(step.entry.name, reason_of(error, step.entry.type))
    failure.__cause__ = error
    return failure
