"""From a chain's result to the decision record that observers take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from midspan_sdk._exchange import target_of
from midspan_sdk._frame import Frame
from midspan_sdk._invocation import EMPTY_CONTEXT
from midspan_sdk._observers import DecisionRecord, EntryDecision
from midspan_sdk._outcome import ChainExecutionResult, Outcome


def _target(frame: Frame, arrived: dict[str, Any]) -> str | None:
    if frame.phase == "request":
        return target_of(arrived)
    return frame.exchange.target if frame.exchange is not None else None


def record_of(result: ChainExecutionResult, frame: Frame, arrived: dict[str, Any]) -> DecisionRecord:
    """Build the decision record of one execution."""
    blocked_by = result.aborted_at.interceptor if result.aborted_at else None
    return DecisionRecord(
        decision_id=result.decision_id,
        timestamp=datetime.now(UTC).isoformat(),
        event=frame.event,
        phase=frame.phase,
        direction=frame.direction,
        error=frame.error,
        exchange_id=frame.exchange.id if frame.exchange is not None else None,
        target=_target(frame, arrived),
        status=result.status,
        context=frame.context or EMPTY_CONTEXT,
        entries=tuple(_decision(outcome, blocked_by, frame) for outcome in result.outcomes),
        blocked_by=blocked_by,
        reason=result.aborted_at.reason if result.aborted_at else None,
        answered_by=result.answered_by,
        duration_ms=result.total_duration_ms,
        _arrived=arrived,
        _leaves=result.final_payload,
    )


def _decision(outcome: Outcome, blocked_by: str | None, frame: Frame) -> EntryDecision:
    entry = outcome.entry
    kind = entry.type
    assert kind != "sink"
    return EntryDecision(
        interceptor=entry.name,
        type=kind,
        mode=entry.mode,
        verdict=outcome.verdict(),
        duration_ms=outcome.duration * 1000,
        blocked=entry.name == blocked_by,
        reasons=outcome.reasons(),
        asked=tuple(frame.asking.asked.get(entry.name, ())) if frame.asking is not None else (),
    )
