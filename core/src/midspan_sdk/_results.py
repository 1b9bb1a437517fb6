"""The results of interceptors, as they stand on the wire and as handlers may return them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from midspan_sdk._model import WireModel
from midspan_sdk._plain import plain_object
from midspan_sdk.wire import Phase, Severity

SEVERITY_RANK: dict[Severity, int] = {"info": 0, "warn": 1, "error": 2}


def _own_json(value: Any) -> Any:
    # A copy, so that nobody edits it afterwards; refused where it is made, not when it is to be sent.
    return plain_object({"value": value}, path="$")["value"]


Json = Annotated[Any, AfterValidator(_own_json)]
JsonObject = Annotated[dict[str, Any], AfterValidator(_own_json)]


class ValidationMessage(WireModel):
    """One finding of a validator.

    Attributes:
        message: what is wrong, for a person; never the value itself.
        severity: `error` blocks (through the result's severity); `warn` and `info` do not.
        path: JSON path into the payload, or None.
    """

    message: str
    severity: Severity
    path: str | None = None


class Suggestion(WireModel):
    """A value that would make the payload acceptable at a path."""

    path: str
    value: Json


class Signature(WireModel):
    """A signature over a validation result; carried, not verified."""

    algorithm: Literal["ed25519"]
    public_key: str
    value: str


class _Result(WireModel):
    interceptor: str = ""
    phase: Phase = "request"
    duration_ms: float | None = None
    info: JsonObject | None = None

    def to_wire(self) -> dict[str, Any]:
        wire = super().to_wire()
        # Required on the wire, and set by the runner: a handler need not name itself.
        return {"interceptor": self.interceptor, "type": getattr(self, "type"), "phase": self.phase, **wire}  # noqa: B009


class ValidationResult(_Result):
    """What a validator found.

    `valid=False` blocks when its severity is `error`; without a severity it takes the worst of its messages, else
    `error` (a result that says no blocks). `valid=True` never blocks. A handler leaves `interceptor`, `phase` and
    `duration_ms` alone; the chain sets them.
    """

    type: Literal["validation"] = "validation"
    valid: bool
    severity: Severity | None = None
    messages: tuple[ValidationMessage, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    signature: Signature | None = None

    @property
    def effective_severity(self) -> Severity | None:
        """The severity that counts: None when valid; else its own, the worst message's, or `error`."""
        if self.valid:
            return None
        if self.severity is not None:
            return self.severity
        if self.messages:
            return max((message.severity for message in self.messages), key=SEVERITY_RANK.__getitem__)
        return "error"

    @property
    def blocks(self) -> bool:
        """Whether the result blocks the message when its entry is active."""
        return self.effective_severity == "error"


class MutationResult(_Result):
    """What a mutator made of the payload.

    Attributes:
        modified: whether `payload` is to be applied.
        payload: the payload, present always; the original when not modified.
        answer: the result to answer the request with in place of the other side, or None.
    """

    type: Literal["mutation"] = "mutation"
    modified: bool
    payload: dict[str, Any]
    answer: dict[str, Any] | None = None


class SinkResult(_Result):
    """What a sink did.

    Attributes:
        recorded: whether the message was recorded.
        metrics: numbers worth knowing, by name.
    """

    type: Literal["sink"] = "sink"
    recorded: bool
    metrics: dict[str, float] | None = None


InterceptorResult = ValidationResult | MutationResult | SinkResult


class Answer:
    """Returned by a request-phase mutator: answer the request with this result instead of asking the other side.

    Args:
        result: the JSON-RPC `result` object.
    """

    __slots__ = ("result",)

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.result = result

    def __repr__(self) -> str:
        return "Answer(...)"


def allow(*, message: str | None = None, severity: Literal["info", "warn"] = "info") -> ValidationResult:
    """Build the result of a validator that lets the message pass, with an optional remark."""
    messages = (ValidationMessage(message=message, severity=severity),) if message else ()
    return ValidationResult(valid=True, messages=messages)


def deny(
    reason: str,
    *,
    path: str | None = None,
    severity: Severity = "error",
    suggestions: tuple[Suggestion, ...] = (),
    info: dict[str, Any] | None = None,
) -> ValidationResult:
    """Build the result of a validator that objects.

    Args:
        reason: why, for a person; names the rule and the kind, never the value.
        path: JSON path of what is wrong.
        severity: only `error` blocks.
        suggestions: values that would be acceptable.
        info: anything else a machine may want, for example `{"rule": "deny[0]"}`.
    """
    message = ValidationMessage(message=reason, severity=severity, path=path)
    return ValidationResult(valid=False, severity=severity, messages=(message,), suggestions=suggestions, info=info)


ALLOWED = ValidationResult(valid=True)
