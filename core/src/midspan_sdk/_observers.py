"""Decision records and who takes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

from midspan_sdk._asking import AskOutcome
from midspan_sdk._invocation import InvocationContext
from midspan_sdk._plain import changed_paths, plain_object
from midspan_sdk.wire import Direction, InterceptorType, Mode, Phase, Status

Verdict = Literal["allowed", "denied", "warned", "modified", "unchanged", "answered", "failed", "timeout", "asked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryDecision:
    """What one entry of the chain said.

    Attributes:
        interceptor: its name.
        type: `validation` or `mutation`; sinks run later and are not in the record.
        mode: as it counted, overrides included.
        verdict: `allowed`, `warned` (objected without blocking severity) or `denied` for validators; `modified`,
            `unchanged` or `answered` for mutators; `failed`, `timeout` or `asked` for both; `asked` when it waits for
            the user, so that this execution came to nothing and another one decides.
        duration_ms: how long it took.
        blocked: whether this verdict blocked the message.
        reasons: a validator's messages, or a failure's generic reason; never a payload value.
        asked: what became of its questions to the user, in order: `accepted`, `declined`, `cancelled` (put away without
            a choice), `open` (the answer comes with another execution) or `failed`; never question or answer.
    """

    interceptor: str
    type: InterceptorType
    mode: Mode
    verdict: Verdict
    duration_ms: float
    blocked: bool = False
    reasons: tuple[str, ...] = ()
    asked: tuple[AskOutcome, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DecisionRecord:
    """One execution of a chain, blocked or not.

    Attributes:
        decision_id: unique; also in the denial that the client gets.
        timestamp: ISO 8601 with offset, when the decision was made.
        event: the JSON-RPC method.
        phase: `request` or `response`.
        direction: `sending` or `receiving`.
        error: whether the message was a JSON-RPC error.
        exchange_id: the same in the records of a request and of its response; None when the mount keeps no exchanges.
        target: what the request is about: its payload's `name` or `uri`; None when it has neither.
        status: the chain's status.
        context: where the message came from: principal, session, server.
        entries: what each entry said, in the order in which they ran.
        blocked_by: the entry that blocked, or None; `chain` when the chain's own deadline did, `midspan/output-schema`
            when a mutator had changed a tool's result so that it no longer fitted.
        reason: why it was blocked, or None.
        answered_by: the mutator that answered in place of the other side, or None.
        duration_ms: of the whole run.
    """

    decision_id: str
    timestamp: str
    event: str
    phase: Phase
    direction: Direction
    error: bool = False
    exchange_id: str | None = None
    target: str | None = None
    status: Status
    context: InvocationContext
    entries: tuple[EntryDecision, ...]
    blocked_by: str | None
    reason: str | None
    answered_by: str | None
    duration_ms: float
    _arrived: Mapping[str, Any] = field(repr=False)
    _leaves: Mapping[str, Any] | None = field(repr=False)

    @property
    def blocked(self) -> bool:
        """Whether the message was blocked."""
        return self.status != "success"

    def detached(self) -> DecisionRecord:
        """Return the same record with payloads of its own, for whoever reads it after the message went on."""
        arrived = self.arrived()
        return replace(self, _arrived=arrived, _leaves=arrived if self._leaves is self._arrived else self.leaves())

    def arrived(self) -> dict[str, Any]:
        """Return a copy of the payload as it came. It may hold what a mutator redacts: keep it out of logs."""
        return plain_object(self._arrived)

    def leaves(self) -> dict[str, Any] | None:
        """Return a copy of the payload as it leaves, or None when it was blocked."""
        return None if self._leaves is None else plain_object(self._leaves)

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """JSON paths of what the chain changed; never a value, and no key that was added or taken out."""
        if self._leaves is None or self._leaves is self._arrived:
            return ()
        return tuple(changed_paths(self._arrived, self._leaves))

    @cached_property
    def arrived_digest(self) -> str:
        """`sha256:<hex>` of the payload as it came (JSON with sorted keys, no spaces)."""
        return digest(self._arrived)

    @cached_property
    def leaves_digest(self) -> str | None:
        """`sha256:<hex>` of the payload as it leaves, or None when it was blocked."""
        if self._leaves is None:
            return None
        return self.arrived_digest if self._leaves is self._arrived else digest(self._leaves)


def digest(payload: Mapping[str, Any]) -> str:
    """Return `sha256:<hex>` of a payload's canonical text: keys sorted, no spaces, ASCII only."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode("ascii")).hexdigest()


@runtime_checkable
class Observer(Protocol):
    """Takes decision records. Contributed by the hook `midspan_observers`.

    Attributes:
        name: for logs and errors.
        durable: a durable observer is awaited before the message or its denial leaves, and when it fails the message
            is blocked; any other gets its records from a bounded queue in the background.
    """

    name: str
    durable: bool

    async def observe(self, record: DecisionRecord) -> None:
        """Take one record. Raise when it could not be kept."""
        ...
