"""What a chain's execution comes to."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from midspan_sdk._asking import Question, UnansweredError
from midspan_sdk._entries import ChainEntry
from midspan_sdk._handler import Mutation
from midspan_sdk._model import WireModel
from midspan_sdk._observers import Verdict
from midspan_sdk._results import InterceptorResult, MutationResult, ValidationResult
from midspan_sdk.errors import InterceptorTimeoutError, InvocationError
from midspan_sdk.wire import InterceptorType, Phase, Severity, Status


class ValidationSummary(WireModel):
    """How many messages of each severity the validators left; one that failed counts as one error."""

    errors: int = 0
    warnings: int = 0
    infos: int = 0


class AbortedAt(WireModel):
    """The first entry that blocked, in entry order.

    Attributes:
        interceptor: its name; `chain` when the chain's own deadline passed, else the observer's that could not write,
            or the mount's own rule that held the message back.
        reason: why, in words that may go to a peer.
        type: the entry's type; `observer`, `chain` or `mount` for those three; `ask` when the entry put a question to
            the user whose answer comes with another execution.
    """

    interceptor: str
    reason: str
    type: InterceptorType | Literal["observer", "chain", "mount", "ask"]


class FailedResult(WireModel):
    """Stands in `results` for an entry that failed; let pass or not.

    Attributes:
        error: the JSON-RPC error, `{code, message, data?}`.
    """

    interceptor: str
    type: InterceptorType
    phase: Phase
    duration_ms: float | None = None
    error: dict[str, Any]


class Outcome(NamedTuple):
    """What one entry came to; a tuple, because there is one for every entry of every message.

    Attributes:
        entry: the entry.
        duration: seconds.
        value: what it returned; None when it failed.
        error: how it failed, or None.
        given: for mutators the payload it was given.
    """

    entry: ChainEntry
    duration: float
    value: ValidationResult | Mutation | None
    error: InvocationError | None = None
    given: dict[str, Any] | None = None

    def verdict(self) -> Verdict:
        """Return what it comes to, in the words of decision records."""
        if isinstance(self.error, UnansweredError):
            return "asked"
        if self.error is not None:
            return "timeout" if isinstance(self.error, InterceptorTimeoutError) else "failed"
        if isinstance(self.value, ValidationResult):
            if self.value.blocks:
                return "denied"
            return "allowed" if self.value.valid else "warned"
        if isinstance(self.value, Mutation):
            if self.value.answer is not None:
                return "answered"
            return "modified" if self.value.modified else "unchanged"
        return "unchanged"

    def reasons(self) -> tuple[str, ...]:
        """Return a validator's messages, or a failure's generic reason; never a payload value."""
        if self.error is not None:
            return (self.reason(),)
        if isinstance(self.value, ValidationResult):
            return tuple(message.message for message in self.value.messages)
        return ()

    def reason(self) -> str:
        """Return why the entry blocked, in words fit for a peer."""
        if isinstance(self.error, InterceptorTimeoutError):
            return f"no result within {self.error.timeout_ms} ms"
        if self.error is not None:
            return str(self.error.data.get("reason", self.error.message))
        if isinstance(self.value, ValidationResult):
            return next((m.message for m in self.value.messages if m.severity == "error"), None) or (
                self.value.messages[0].message if self.value.messages else "denied"
            )
        return "denied"


class ChainExecutionResult:
    """The result of `Chain.execute`.

    Attributes:
        status: `success`, `validation_failed`, `mutation_failed` or `timeout`.
        event: the JSON-RPC method.
        phase: `request` or `response`.
        final_payload: what is to be sent or processed: the very object that was passed in when nothing changed, another
            one when a mutator changed it; None when blocked. Do not edit it.
        answer: the result that a mutator answered the request with, or None.
        answered_by: that mutator, or None.
        aborted_at: the first entry that blocked, or None.
        modified: whether a mutator, or the mount's last step, changed the payload.
        outcomes: what each entry came to, in the order of the stages and of the entries within.
        questions: what handlers ask the user, when the execution stopped for that (`aborted_at.type` is `ask`). The
            mount puts them all, and runs the chain again with the answers.
        total_duration_ms: of the whole run.
    """

    # Defaults stand on the class: most messages match nothing, and pay for three assignments only.
    status: Status = "success"
    modified: bool = False
    aborted_at: AbortedAt | None = None
    answer: dict[str, Any] | None = None
    answered_by: str | None = None
    total_duration_ms: float = 0.0
    outcomes: Sequence[Outcome] = ()
    questions: tuple[Question, ...] = ()
    _decision_id: str | None = None

    def __init__(self, event: str, phase: Phase, final_payload: dict[str, Any] | None) -> None:
        self.event = event
        self.phase: Phase = phase
        self.final_payload = final_payload

    @property
    def decision_id(self) -> str:
        """Names this decision in records, logs and denials: 16 hexadecimal digits."""
        if self._decision_id is None:
            self._decision_id = secrets.token_hex(8)
        return self._decision_id

    @property
    def results(self) -> list[InterceptorResult | FailedResult]:
        """Every validator's and mutator's result, audit and failures included; sinks run later and have none here."""
        return [result_of(outcome, self.phase) for outcome in self.outcomes]

    @property
    def validation_summary(self) -> ValidationSummary:
        """How many messages of each severity the validators left."""
        counts: dict[Severity, int] = {"error": 0, "warn": 0, "info": 0}
        for outcome in self.outcomes:
            if outcome.entry.type != "validation":
                continue
            if outcome.error is not None:
                counts["error"] += 1
            elif isinstance(outcome.value, ValidationResult):
                for message in outcome.value.messages:
                    counts[message.severity] += 1
                if not outcome.value.messages and (severity := outcome.value.effective_severity):
                    counts[severity] += 1
        return ValidationSummary(errors=counts["error"], warnings=counts["warn"], infos=counts["info"])

    def to_wire(self) -> dict[str, Any]:
        """Return the proposal's `ChainExecutionResult` as a JSON object."""
        wire: dict[str, Any] = {
            "status": self.status,
            "event": self.event,
            "phase": self.phase,
            "results": [result.to_wire() for result in self.results],
            "validationSummary": self.validation_summary.model_dump(by_alias=True),
            "totalDurationMs": self.total_duration_ms,
        }
        if self.final_payload is not None:
            wire["finalPayload"] = self.final_payload
        if self.aborted_at is not None:
            wire["abortedAt"] = self.aborted_at.model_dump(by_alias=True)
        return wire

    def __repr__(self) -> str:
        return f"<ChainExecutionResult {self.status} {self.event} {self.phase}>"


def result_of(outcome: Outcome, phase: Phase) -> InterceptorResult | FailedResult:
    """Build the wire's result of one outcome."""
    name = outcome.entry.name
    duration = round(outcome.duration * 1000, 3)
    if outcome.error is not None:
        error = {"code": outcome.error.code, "message": outcome.error.message, "data": outcome.error.data}
        return FailedResult(interceptor=name, type=outcome.entry.type, phase=phase, duration_ms=duration, error=error)
    if isinstance(outcome.value, ValidationResult):
        return outcome.value.model_copy(update={"interceptor": name, "phase": phase, "duration_ms": duration})
    assert isinstance(outcome.value, Mutation)
    mutation = outcome.value
    return MutationResult(
        interceptor=name,
        phase=phase,
        duration_ms=duration,
        modified=mutation.modified,
        payload=mutation.payload if mutation.payload is not None else outcome.given or {},
        answer=mutation.answer,
        info=mutation.info,
    )
