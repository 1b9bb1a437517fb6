"""Questions inside of other messages.

Since 2026-07-28 a server asks the client by an `input_required` result, and the client answers by its next request. So
what was a message of its own before, such as an elicitation, stands in `inputRequests` and `inputResponses`. Each entry
is judged as the event that it is, before the message around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from midspan.interception._deciding import Deciding
from midspan.relay import INVALID_REQUEST, JSONFaultError, check_spelling, object_or_empty
from midspan_sdk import ChainExecutionResult, Exchange, InvocationContext
from midspan_sdk.events import ELICITATION_CREATE, ROOTS_LIST, SAMPLING_CREATE_MESSAGE
from midspan_sdk.wire import Direction, Phase

_KINDS: Final = (ELICITATION_CREATE, SAMPLING_CREATE_MESSAGE, ROOTS_LIST)
_TELLTALE: Final = {
    "action": ELICITATION_CREATE,
    "role": SAMPLING_CREATE_MESSAGE,
    "model": SAMPLING_CREATE_MESSAGE,
    "roots": ROOTS_LIST,
}
"""What tells which kind of question an answer is for: it does not say so, and another gateway may have seen the
question."""
_REQUESTS: Final = "inputRequests"
_RESPONSES: Final = "inputResponses"
_QUESTION: Final = frozenset({"method", "params"})


@dataclass(frozen=True, slots=True)
class _Part:
    """A question, or an answer to one.

    Attributes:
        key: in the object around it.
        events: what it is judged as; several when it could be several things.
        payload: what interceptors see.
    """

    key: str
    events: Sequence[str]
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parts:
    """The questions or the answers in a message.

    Attributes:
        direction: the message's.
        phase: `request` for questions, `response` for answers.
        parts: each of them.
    """

    direction: Direction
    phase: Phase
    parts: Sequence[_Part]


class Rounds:
    """Judges what is in messages by the same chain as the messages.

    Args:
        chain: decides.
    """

    def __init__(self, chain: Deciding) -> None:
        self._chain = chain

    def questions(self, result: object, direction: Direction) -> Parts | None:
        """Return what a result asks that the chain takes, or None.

        Raises:
            JSONFaultError: readers may differ on what it asks.
        """
        if not isinstance(result, dict):
            return None
        interim = cast("dict[str, Any]", result)
        if interim.get("resultType") != "input_required":
            return None
        return self._parts(interim, _REQUESTS, "request", direction)

    def answers(self, params: dict[str, Any], direction: Direction) -> Parts | None:
        """Return what a request answers that the chain takes, or None.

        Raises:
            JSONFaultError: readers may differ on what it answers.
        """
        return self._parts(params, _RESPONSES, "response", direction)

    def _parts(self, around: dict[str, Any], name: str, phase: Phase, direction: Direction) -> Parts | None:
        if not any(len(key) == len(name) and key.casefold() == name.casefold() for key in around):
            return None
        strict = any(self._chain.concerns(kind, phase, direction) for kind in _KINDS)
        if strict:
            check_spelling(around, frozenset({name}))
        entries: object = around.get(name)
        if not isinstance(entries, dict):
            if strict and entries is not None:
                raise _fault(name)
            return None
        parts: list[_Part] = []
        for key, entry in cast("dict[str, object]", entries).items():
            part = _question(key, entry) if phase == "request" else _answer(key, entry)
            if part is None:
                if strict:
                    raise _fault(name)
            elif any(self._chain.concerns(event, phase, direction) for event in part.events):
                parts.append(part)
        return Parts(direction, phase, parts) if parts else None

    def takes_questions(self, direction: Direction) -> bool:
        """Tell whether the chain may take what a result asks."""
        return any(self._chain.concerns(kind, "request", direction) for kind in _KINDS)

    def may_suspend(self, parts: Parts) -> bool:
        """Tell whether `judge` may have to wait."""
        events = {event for part in parts.parts for event in part.events}
        return any(self._chain.may_suspend(event, parts.phase, parts.direction) for event in events)

    async def judge(
        self, parts: Parts, around: dict[str, Any], context: InvocationContext
    ) -> dict[str, Any] | ChainExecutionResult:
        """Judge each part by itself.

        Args:
            parts: of the message.
            around: the message's payload, which is not changed.
            context: the message's.

        Returns:
            The payload with the parts as they leave; or the result of the chain for the first part that was blocked.
        """
        left: dict[str, dict[str, Any]] = {}
        for part in parts.parts:
            payload = part.payload
            for event in part.events:
                result = await self._chain.execute(
                    event=event,
                    phase=parts.phase,
                    payload=payload,
                    direction=parts.direction,
                    context=context,
                    exchange=Exchange(),
                )
                if result.final_payload is None:
                    return result
                if result.answer is not None:
                    raise RuntimeError(f"{result.answered_by} answered a question that only the client can answer")
                payload = result.final_payload
            left[part.key] = payload
        if parts.phase == "response":
            return {**around, _RESPONSES: {**around[_RESPONSES], **left}}
        asked = cast("dict[str, dict[str, Any]]", around[_REQUESTS])
        # One without params gets none by being judged.
        changed = {key: {**asked[key], "params": left[key]} for key in left if left[key] or "params" in asked[key]}
        return {**around, _REQUESTS: {**asked, **changed}}


def _question(key: str, entry: object) -> _Part | None:
    question = object_or_empty(entry)
    method, params = question.get("method"), question.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        return None
    check_spelling(question, _QUESTION)
    return _Part(key, (method,), cast("dict[str, Any]", params))


def _answer(key: str, entry: object) -> _Part | None:
    if not isinstance(entry, dict):
        return None
    answer = cast("dict[str, Any]", entry)
    kinds = {kind: None for name, kind in _TELLTALE.items() if name in answer}
    return _Part(key, tuple(kinds) or _KINDS, answer)


def _fault(name: str) -> JSONFaultError:
    return JSONFaultError(f"{name} is not what the protocol says", INVALID_REQUEST)
