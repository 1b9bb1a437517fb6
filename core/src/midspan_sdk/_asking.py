"""Questions to the user: what a mount gets to ask, and clocks that stand still while a person thinks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, cast

from midspan_sdk._plain import plain_object
from midspan_sdk.errors import AskError, InterceptorFailedError
from midspan_sdk.wire import Phase

AskOutcome = Literal["accepted", "declined", "cancelled", "open", "failed"]
"""What became of a question: `open` when its answer comes with another execution, `failed` when there is none."""

CONFIRMED: Final = {"confirmed": True}
"""What `ask` returns when the user agreed to a plain question."""

_PRIMITIVES: Final = frozenset({"string", "number", "integer", "boolean", "array"})
_LONGEST_MESSAGE: Final = 16 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a handler asks the user.

    Attributes:
        interceptor: who asks.
        event: about which message.
        phase: of that message.
        message: the question, for a person.
        schema: JSON Schema of the answer, a flat object; None for a plain yes or no.
        repetition: how many times the handler has asked just this before, in this execution.
    """

    interceptor: str
    event: str
    phase: Phase
    message: str
    schema: Mapping[str, Any] | None = None
    repetition: int = 0

    @property
    def key(self) -> str:
        """Tells it from every other question: 32 hexadecimal digits, the same when a handler runs again."""
        parts = [self.interceptor, self.event, self.phase, self.message, self.schema, self.repetition]
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What the user did with a question.

    Attributes:
        action: `accept`, `decline`, or `cancel` when the question was put away without a choice.
        content: what was filled in, when accepted.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


class Asker(Protocol):
    """A mount's way to the user. An `async def` that takes a question is one."""

    async def __call__(self, question: Question, /) -> Reply | None:
        """Put a question, and wait for as long as the mount allows: no deadline of the chain runs meanwhile.

        Returns:
            The reply; None when the answer can only come with another execution. That one stops then: its result is
            blocked, with the open questions in `questions`, and what the handlers did is without effect.

        Raises:
            AskError: the user cannot be asked, or does not answer.
        """
        ...


class UnansweredError(InterceptorFailedError):
    """A handler stopped at a question whose answer comes with another execution."""

    def __init__(self, interceptor: str) -> None:
        super().__init__(interceptor, "waits for the user's answer")


class _Stop(BaseException):
    """Ends a handler at a question that is open, past any `except Exception`."""


class Bound:
    """A deadline that moves while somebody waits for the user.

    Args:
        limit: what it moves.
        entry: the entry's deadline, by the event loop's clock.
        chain: the chain's.
        ask: what the entry asks with, or None when it does not.
    """

    __slots__ = ("_ask", "_chain", "_entry", "_limit", "is_chains")

    def __init__(self, limit: asyncio.Timeout, entry: float, chain: float, ask: HandlerAsk | None) -> None:
        self._limit = limit
        self._entry = entry
        self._chain = chain
        self._ask = ask
        self.is_chains = chain <= entry

    def move(self, asking: Asking) -> None:
        """Set it anew."""
        if self._limit.expired():
            return
        ask = self._ask
        entry = math.inf if ask is not None and ask.waiting else self._entry + (ask.waited if ask is not None else 0.0)
        chain = math.inf if asking.waiting else self._chain + asking.paused
        self.is_chains = chain <= entry
        when = min(entry, chain)
        self._limit.reschedule(when if when < math.inf else None)


class Asking:
    """The questions of one execution, and how long they took.

    Attributes:
        asker: the mount's.
        waiting: how many questions are with the user.
        paused: seconds in which any question was with the user.
        waited: the same by entry.
        asked: what became of the questions, by entry.
        open: the questions that stopped the execution.
        bounds: deadlines that are running.
    """

    __slots__ = ("_since", "asked", "asker", "bounds", "open", "paused", "waited", "waiting")

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.waiting = 0
        self.paused = 0.0
        self.waited: dict[str, float] = {}
        self.asked: dict[str, list[AskOutcome]] = {}
        self.open: list[Question] = []
        self.bounds: list[Bound] = []
        self._since = 0.0

    def wait(self, now: float) -> None:
        """Note that a question is put."""
        self.waiting += 1
        if self.waiting == 1:
            self._since = now
        self._move()

    def resume(self, now: float, ask: HandlerAsk) -> None:
        """Note that a question is over."""
        self.waiting -= 1
        if not self.waiting:
            self.paused += now - self._since
        self.waited[ask.interceptor] = ask.waited
        self._move()

    def _move(self) -> None:
        for bound in self.bounds:
            bound.move(self)


class HandlerAsk:
    """What one call of a handler gets as `ask`."""

    __slots__ = (
        "_asking",
        "_audit",
        "_counts",
        "_ended",
        "_event",
        "_phase",
        "_since",
        "interceptor",
        "waited",
        "waiting",
    )

    def __init__(self, asking: Asking, *, interceptor: str, event: str, phase: Phase, audit: bool) -> None:
        self.interceptor = interceptor
        self.waiting = 0
        self.waited = 0.0
        self._asking = asking
        self._event = event
        self._phase: Phase = phase
        self._audit = audit
        self._counts: dict[str, int] = {}
        self._since = 0.0
        self._ended = False

    async def __call__(self, message: str, *, schema: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Ask. See `Ask`."""
        if self._ended:
            raise RuntimeError("`ask` works only while the handler runs")
        question = self._question(message, schema)
        outcomes = self._asking.asked.setdefault(self.interceptor, [])
        outcomes.append("failed")
        place = len(outcomes) - 1
        if self._audit:
            raise AskError(self.interceptor, "would have asked the user; in audit mode nobody is asked")
        reply = await self._put(question)
        if reply is None:
            outcomes[place] = "open"
            self._asking.open.append(question)
            raise _Stop
        if reply.action != "accept":
            outcomes[place] = "declined" if reply.action == "decline" else "cancelled"
            return None
        outcomes[place] = "accepted"
        return dict(CONFIRMED) if schema is None else plain_object(reply.content or {})

    def _question(self, message: str, schema: Mapping[str, Any] | None) -> Question:
        if not isinstance(cast("object", message), str) or not message.strip():
            raise TypeError("a question is a text")
        if len(message) > _LONGEST_MESSAGE:
            raise ValueError(f"a question has at most {_LONGEST_MESSAGE} letters")
        checked = None if schema is None else _checked(schema)
        question = Question(
            interceptor=self.interceptor, event=self._event, phase=self._phase, message=message, schema=checked
        )
        repetition = self._counts.get(question.key, 0)
        self._counts[question.key] = repetition + 1
        if not repetition:
            return question
        return Question(
            interceptor=self.interceptor,
            event=self._event,
            phase=self._phase,
            message=message,
            schema=checked,
            repetition=repetition,
        )

    async def _put(self, question: Question) -> Reply | None:
        clock = asyncio.get_running_loop().time
        self.waiting += 1
        if self.waiting == 1:
            self._since = clock()
        self._asking.wait(clock())
        try:
            return await self._asking.asker(question)
        except AskError:
            raise
        except Exception as error:
            raise AskError(self.interceptor, "the question could not be put") from error
        finally:
            now = clock()
            self.waiting -= 1
            if not self.waiting:
                self.waited += now - self._since
            self._asking.resume(now, self)

    def end(self) -> None:
        """Note that the handler has ended.

        Raises:
            UnansweredError: it was stopped at a question, whatever it made of that.
        """
        self._ended = True
        if any(question.interceptor == self.interceptor for question in self._asking.open):
            raise UnansweredError(self.interceptor) from None


def _checked(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a schema that elicitation allows: an object whose properties are plain values."""
    copied = plain_object(schema, path="schema")
    properties: object = copied.get("properties")
    if copied.get("type") != "object" or not isinstance(properties, dict):
        raise ValueError('the schema of an answer is {"type": "object", "properties": {...}}')
    for name, value in cast("dict[str, object]", properties).items():
        kind = cast("dict[str, object]", value).get("type") if isinstance(value, dict) else None
        if kind not in _PRIMITIVES:
            raise ValueError(f"property {name!r} of the answer must be a plain value: {', '.join(sorted(_PRIMITIVES))}")
    return copied
