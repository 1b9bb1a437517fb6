"""One execution, as its steps see it."""

from __future__ import annotations

import math
from typing import Any

from midspan_sdk._asking import Asking
from midspan_sdk._exchange import Exchange
from midspan_sdk._invocation import EMPTY_CONTEXT, InvocationContext, ToolCatalog
from midspan_sdk.wire import Direction, Phase


class Frame:
    """One execution, as its steps see it.

    Attributes:
        error: whether the payload is a JSON-RPC error.
        budget: seconds the whole execution may take.
        started: when it started, by the event loop's clock.
        tools: the catalogue of tools, or None where the mount has none.
        asking: the questions to the user, or None where the mount puts none.
    """

    __slots__ = (
        "asking",
        "budget",
        "config",
        "context",
        "direction",
        "error",
        "event",
        "exchange",
        "phase",
        "started",
        "tools",
    )

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
        tools: ToolCatalog | None = None,
        asking: Asking | None = None,
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
        self.tools = tools
        self.asking = asking

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
            self.tools,
        )

    def waited_for_user(self, interceptor: str) -> float:
        """Return for how many seconds an entry waited for the user."""
        return self.asking.waited.get(interceptor, 0.0) if self.asking is not None else 0.0

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
