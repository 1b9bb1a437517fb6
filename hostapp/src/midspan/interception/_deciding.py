"""What a judge needs of a chain, and a chain that decides on some events only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast

from midspan.errors import OperatorError
from midspan_sdk import (
    AbortedAt,
    Asker,
    Chain,
    ChainEntry,
    ChainExecutionResult,
    Exchange,
    InvocationContext,
    ToolCatalog,
)
from midspan_sdk.events import TOOLS_CALL, matches_any
from midspan_sdk.wire import Direction, Phase

Finish = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | AbortedAt | None]
"""The gateway's own last step over a message, as `Chain.execute` takes it."""


class Deciding(Protocol):
    """A chain, as far as a gateway uses it."""

    @property
    def entries(self) -> Sequence[ChainEntry]: ...

    def concerns(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        """Tell whether it takes such messages."""
        ...

    def may_suspend(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        """Tell whether `execute` may have to wait on such messages."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """What its handlers need of the mount."""
        ...

    def may_change(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        """Tell whether a mutator may change such messages, or answer them."""
        ...

    async def execute(
        self,
        *,
        event: str,
        phase: Phase,
        payload: dict[str, Any],
        direction: Direction | None = None,
        context: InvocationContext | None = None,
        exchange: Exchange | None = None,
        error: bool = False,
        tools: ToolCatalog | None = None,
        finish: Finish | None = None,
        ask: Asker | None = None,
    ) -> ChainExecutionResult:
        """Run it over one message."""
        ...

    def end_session(self, session_id: str) -> None:
        """Forget a session's state."""
        ...


class _Narrowed:
    """A chain that takes some events only."""

    def __init__(self, chain: Chain, events: Sequence[str]) -> None:
        self.whole = chain
        self._events = events
        self.execute = chain.execute
        self.may_suspend = chain.may_suspend
        self.end_session = chain.end_session

    @property
    def entries(self) -> Sequence[ChainEntry]:
        return self.whole.entries

    @property
    def needs(self) -> frozenset[str]:
        return self.whole.needs

    def may_change(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        return matches_any(self._events, event) and self.whole.may_change(event, phase, direction, error=error)

    def concerns(self, event: str, phase: Phase, direction: Direction | None = None, *, error: bool = False) -> bool:
        return matches_any(self._events, event) and self.whole.concerns(event, phase, direction, error=error)


def narrowed(chain: Chain, events: Sequence[str]) -> Deciding:
    """Return the chain for some events only.

    Args:
        chain: decides.
        events: from `checked_events`.
    """
    return _Narrowed(chain, events)


def checked_events(events: Iterable[str]) -> Sequence[str]:
    """Return what a chain is to decide on, as `narrowed` takes it.

    Args:
        events: JSON-RPC methods, or globs whose `*` crosses `/`.

    Raises:
        OperatorError: it is a single string, empty, or has something else than texts in it.
    """
    if isinstance(events, str):
        raise OperatorError(f"events is a list of methods or globs, such as [{events!r}]")
    patterns = tuple(events)
    if not patterns or not all(pattern and isinstance(cast("object", pattern), str) for pattern in patterns):
        raise OperatorError("events is a list of methods or globs, such as ['tools/call']; leave it out for all")
    return patterns


def acts(chain: Deciding) -> bool:
    """Tell whether there is anything that could act on a message, or observe it."""
    if isinstance(chain, _Narrowed):
        return acts(chain.whole)
    return bool(chain.entries) or chain.concerns(TOOLS_CALL, "request")
