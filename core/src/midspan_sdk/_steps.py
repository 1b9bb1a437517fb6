"""Steps: how the engine calls one entry.

A step is made once, when an entry is added. Making it finds out all that is the same for every message: which
arguments the handler takes, whether it can suspend, whether it needs state. The engine then only calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from midspan_sdk._entries import ChainEntry
from midspan_sdk._frame import Frame, StateChange
from midspan_sdk._handler import Mutation
from midspan_sdk._plain import Snapshot
from midspan_sdk._results import SinkResult, ValidationResult
from midspan_sdk.errors import InterceptorTimeoutError


class Step(Protocol):
    """One entry, ready to be called."""

    entry: ChainEntry
    inline: bool
    """Whether `*_now` can be used: the handler cannot suspend."""
    direct: Callable[[dict[str, Any]], Any] | None
    """For handlers that take the payload only and cannot suspend: the shortest way to their return value."""

    def validate_now(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]: ...
    def mutate_now(self, frame: Frame, snapshot: Snapshot) -> Mutation: ...
    async def validate(self, frame: Frame, snapshot: Snapshot) -> tuple[ValidationResult, StateChange | None]: ...
    async def mutate(self, frame: Frame, snapshot: Snapshot) -> Mutation: ...
    async def record(self, frame: Frame, snapshot: Snapshot) -> SinkResult: ...


def timeout_error(step: Step, frame: Frame) -> InterceptorTimeoutError:
    """Build the error of an entry whose deadline passed."""
    return InterceptorTimeoutError(step.entry.name, timeout_ms=round(step.entry.timeout * 1000), phase=frame.phase)
