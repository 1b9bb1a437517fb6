"""Judges every message of a connection by a chain: both directions, all kinds.

A message that no interceptor could match passes as the bytes that came. Any other is read strictly, and what leaves is
written anew from the value that was judged.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from midspan.interception._context import ConnectionContext, is_stateless
from midspan.interception._denials import Denials, payload_of_answer
from midspan.relay import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Action,
    Deferred,
    JSONFaultError,
    Message,
    MessageId,
    OversizedLine,
    Side,
    classify,
    error_message,
    id_of,
    object_or_empty,
    read,
    write,
)
from midspan_sdk import Chain, ChainExecutionResult, Exchange
from midspan_sdk.wire import Direction, Phase

logger = logging.getLogger("midspan.gateway")

ANSWER_KEY: Final = "midspan/answer"
"""`_meta` key of a result that an interceptor gave in place of the server."""

_KEPT_CANCELLED: Final = 1024
_INITIALIZE: Final = "initialize"
_CANCELLED: Final = "notifications/cancelled"


class _Pending:
    """A request that has no answer yet.

    Attributes:
        sent: whether it went on; before that nobody can answer it.
    """

    __slots__ = ("exchange", "method", "params", "sent", "stateless")

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        self.method = method
        self.exchange = Exchange()
        self.params = params
        self.sent = False
        self.stateless = is_stateless(params)


class _Requests:
    """The open requests of one side.

    A cancelled request is usually never answered; of those only the latest are kept, so that they do not pile up.
    """

    def __init__(self) -> None:
        self._open: dict[MessageId, _Pending] = {}
        self._cancelled: deque[tuple[MessageId, _Pending]] = deque()

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._open

    def open(self, message_id: MessageId, pending: _Pending) -> None:
        """Remember a request."""
        self._open[message_id] = pending

    def sent(self, message_id: MessageId | None) -> _Pending | None:
        """Return the request that an answer with this id answers, or None."""
        pending = self._open.get(message_id) if message_id is not None else None
        return pending if pending is not None and pending.sent else None

    def close(self, message_id: MessageId) -> None:
        """Forget a request."""
        self._open.pop(message_id, None)

    def cancelled(self, message_id: MessageId) -> None:
        """Note that a request was cancelled."""
        if (pending := self._open.get(message_id)) is None:
            return
        self._cancelled.append((message_id, pending))
        if len(self._cancelled) > _KEPT_CANCELLED:
            oldest, gone = self._cancelled.popleft()
            if self._open.get(oldest) is gone:
                del self._open[oldest]


class ChainJudge:
    """The judge of one client's connection.

    Args:
        chain: decides.
        context: where the messages come from.
        denials: what the sender of a blocked message is told.

    The gateway takes the client's posture: what the client says is `sending`, what the server says `receiving`.
    """

    def __init__(self, chain: Chain, context: ConnectionContext, denials: Denials | None = None) -> None:
        self._chain = chain
        self._context = context
        self._denials = denials or Denials()
        self._requests = {Side.CLIENT: _Requests(), Side.SERVER: _Requests()}

    def judge(self, side: Side, line: bytes) -> Action | Deferred:
        """Decide on one line."""
        try:
            document = read(line)
        except JSONFaultError as fault:
            return self._refuse(side, None, fault)
        try:
            if document.top_is_ambiguous:
                raise JSONFaultError(document.fault or "ambiguous", INVALID_REQUEST)
            message = classify(document.value)
            if message.kind == "request":
                return self._request(side, message, line, document.fault)
            if message.kind == "notification":
                return self._notification(side, message, line, document.fault)
            return self._answer(side, message, line, document.fault)
        except JSONFaultError as fault:
            return self._refuse(side, document.value, fault)

    def oversized(self, side: Side, line: OversizedLine) -> Action:
        """Refuse a message that was longer than the limit."""
        fault = JSONFaultError("longer than the limit", INVALID_REQUEST)
        return self._refuse(side, None, fault)

    def _refuse(self, side: Side, value: Any, fault: JSONFaultError) -> Action:
        """Answer what cannot be judged; it goes no further."""
        logger.warning("refused a message from the %s: %s", side.value, fault.reason)
        message_id = id_of(value)
        is_answer = isinstance(value, dict) and "method" not in value
        if is_answer:
            requests = self._requests[_other(side)]
            if message_id is not None and requests.sent(message_id) is not None:
                requests.close(message_id)
                text = f"midspan refused the answer: {fault.reason}"
                return Action(forward=write(error_message(message_id, INTERNAL_ERROR, text)), ordered=True)
            return Action()
        if side is Side.SERVER and message_id is None:
            return Action()  # a stray line on a server's stdout is no message; a server expects no answer to it
        return Action(
            reply=write(error_message(message_id, fault.code, f"midspan refused the message: {fault.reason}"))
        )

    # Requests

    def _request(self, side: Side, message: Message, line: bytes, fault: str | None) -> Action | Deferred:
        assert message.id is not None
        requests = self._requests[side]
        if message.id in requests:
            raise JSONFaultError("the id is already in use", INVALID_REQUEST)
        direction = _direction(side)
        if not self._chain.concerns(message.method, "request", direction):
            pending = _Pending(message.method, message.params_or_empty())
            if self._chain.concerns(message.method, "response", _opposite(direction)):
                _require(fault)
                pending.exchange.keep_request(message.payload())
            pending.sent = True
            requests.open(message.id, pending)
            return Action(forward=line)
        _require(fault)
        payload = message.payload()
        pending = _Pending(message.method, payload)
        requests.open(message.id, pending)
        work = self._judge_request(side, message, payload, pending)
        if self._chain.may_suspend(message.method, "request", direction):
            return Deferred(work, request_id=message.id)
        return _now(work)

    async def _judge_request(self, side: Side, message: Message, payload: dict[str, Any], pending: _Pending) -> Action:
        assert message.id is not None
        try:
            result = await self._execute(message.method, "request", side, payload, pending)
            if result is not None and result.answer is not None:
                return await self._answered(side, message, result, pending)
            if result is not None and result.final_payload is not None:
                pending.sent = True
                return Action(forward=write(message.with_payload(result.final_payload)))
        finally:
            if not pending.sent:
                self._requests[side].close(message.id)
        if result is None:
            return Action(reply=write(_bug(message.id)))
        denial = self._denials.answer(message.method, message.id, result, ran=False, stateless=pending.stateless)
        return Action(reply=write(denial))

    async def _answered(self, side: Side, message: Message, request: ChainExecutionResult, pending: _Pending) -> Action:
        """Send an interceptor's answer through the response phase and back; the other side never hears of it."""
        assert request.answer is not None
        answer = payload_of_answer(request.answer, message.method, stateless=pending.stateless)
        provenance = {"by": request.answered_by, "decisionId": request.decision_id}
        answer = {**answer, "_meta": {**object_or_empty(answer.get("_meta")), ANSWER_KEY: provenance}}
        assert request.final_payload is not None
        pending.exchange.keep_request(request.final_payload)
        result = await self._execute(message.method, "response", _other(side), answer, pending)
        if result is None:
            return Action(reply=write(_bug(message.id)))
        if result.aborted_at is not None:
            denial = self._denials.answer(message.method, message.id, result, ran=False, stateless=pending.stateless)
            return Action(reply=write(denial))
        return Action(reply=write({"jsonrpc": "2.0", "id": message.id, "result": result.final_payload}))

    # Answers

    def _answer(self, side: Side, message: Message, line: bytes, fault: str | None) -> Action | Deferred:
        asker = _other(side)
        pending = self._requests[asker].sent(message.id)
        is_error = message.kind == "error"
        direction = _direction(side)
        if pending is None:
            if is_error and message.id is None and not self._chain.concerns("", "response", direction, error=True):
                return Action(forward=line, ordered=True)
            logger.warning("dropped an answer from the %s to a request it never got", side.value)
            return Action()
        assert message.id is not None
        if not self._chain.concerns(pending.method, "response", direction, error=is_error):
            self._requests[asker].close(message.id)
            self._note_handshake(pending, message)
            return Action(forward=line, ordered=True)
        _require(fault)
        payload = message.payload()
        self._requests[asker].close(message.id)
        self._note_handshake(pending, message)
        work = self._judge_answer(side, message, payload, pending)
        if self._chain.may_suspend(pending.method, "response", direction, error=is_error):
            return Deferred(work, ordered=True)
        return _now(work)

    async def _judge_answer(self, side: Side, message: Message, payload: dict[str, Any], pending: _Pending) -> Action:
        is_error = message.kind == "error"
        result = await self._execute(pending.method, "response", side, payload, pending, error=is_error)
        if result is None:
            return Action(forward=write(_bug(message.id)), ordered=True)
        if result.aborted_at is not None:
            denial = self._denials.answer(pending.method, message.id, result, ran=True, stateless=pending.stateless)
            return Action(forward=write(denial), ordered=True)
        assert result.final_payload is not None
        return Action(forward=write(message.with_payload(result.final_payload)), ordered=True)

    def _note_handshake(self, pending: _Pending, message: Message) -> None:
        if pending.method == _INITIALIZE and message.kind == "result":
            self._context.negotiated(object_or_empty(message.envelope.get("result")).get("protocolVersion"))

    # Notifications

    def _notification(self, side: Side, message: Message, line: bytes, fault: str | None) -> Action | Deferred:
        if message.method == _CANCELLED:
            return self._cancelled(side, message, line)
        direction = _direction(side)
        if not self._chain.concerns(message.method, "request", direction):
            return Action(forward=line, ordered=True)
        _require(fault)
        work = self._judge_notification(side, message, message.payload())
        if self._chain.may_suspend(message.method, "request", direction):
            return Deferred(work, ordered=True, notification=True)
        return _now(work)

    def _cancelled(self, side: Side, message: Message, line: bytes) -> Action:
        cancelled = id_of({"id": message.params_or_empty().get("requestId")})
        if cancelled is None:
            return Action(forward=line)
        self._requests[side].cancelled(cancelled)
        return Action(forward=line, cancels=cancelled)

    async def _judge_notification(self, side: Side, message: Message, payload: dict[str, Any]) -> Action:
        result = await self._execute(message.method, "request", side, payload, None)
        if result is None or result.aborted_at is not None:
            return Action(ordered=True)
        assert result.final_payload is not None
        return Action(forward=write(message.with_payload(result.final_payload)), ordered=True)

    # The chain

    async def _execute(
        self,
        event: str,
        phase: Phase,
        side: Side,
        payload: dict[str, Any],
        pending: _Pending | None,
        *,
        error: bool = False,
    ) -> ChainExecutionResult | None:
        """Run the chain; None when it failed in a way that is a bug, so that nothing passes."""
        try:
            return await self._chain.execute(
                event=event,
                phase=phase,
                payload=payload,
                direction=_direction(side),
                context=self._context.of(pending.params if pending is not None else payload),
                exchange=pending.exchange if pending is not None else None,
                error=error,
            )
        except Exception:
            logger.exception("the chain failed on %s; the message is blocked", event)
            return None


def _now(work: Coroutine[Any, Any, Action]) -> Action | Deferred:
    """Run a judgement that cannot suspend."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    work.close()
    raise RuntimeError("a judgement that should not suspend did")


def _bug(message_id: MessageId | None) -> dict[str, Any]:
    return error_message(message_id, INTERNAL_ERROR, "midspan could not judge the message; it was blocked")


def _require(fault: str | None) -> None:
    if fault is not None:
        raise JSONFaultError(fault, INVALID_REQUEST)


def _direction(side: Side) -> Direction:
    return "sending" if side is Side.CLIENT else "receiving"


def _opposite(direction: Direction) -> Direction:
    return "receiving" if direction == "sending" else "sending"


def _other(side: Side) -> Side:
    return Side.SERVER if side is Side.CLIENT else Side.CLIENT
