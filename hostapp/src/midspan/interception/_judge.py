"""Judges every message of a connection by a chain: both directions, all kinds.

A message that no interceptor could match passes as the bytes that came. Any other is read strictly, and what leaves is
written anew from the value that was judged.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from midspan.errors import one_line
from midspan.interception._asking import can_ask, refusing
from midspan.interception._context import ConnectionContext
from midspan.interception._deciding import Finish
from midspan.interception._denials import payload_of_answer
from midspan.interception._listings import with_input_schemas
from midspan.interception._own_rounds import ROUND_METHODS, Round
from midspan.interception._questions import Questions
from midspan.interception._regime import Hold, Regime, Regimes
from midspan.interception._requests import Pending, Requests
from midspan.interception._rounds import Parts
from midspan.interception._tools import LearntTools, learns_tools
from midspan.interception._unreadable import Unreadable
from midspan.relay import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Action,
    Deferred,
    JSONFaultError,
    Message,
    MessageId,
    OversizedLine,
    Side,
    Voice,
    classify,
    error_message,
    object_or_empty,
    outline_of,
    outline_of_text,
    outlines_of_value,
    read,
    write,
)
from midspan_sdk import Asker, ChainExecutionResult, NotPlainError
from midspan_sdk.events import INITIALIZE, TOOLS_CALL, TOOLS_LIST
from midspan_sdk.wire import Direction, Phase

logger = logging.getLogger("midspan.gateway")

ANSWER_KEY: Final = "midspan/answer"
"""`_meta` key of a result that an interceptor gave in place of the server."""


class ChainJudge:
    """The judge of one client's connection.

    Args:
        regimes: the chain that decides, now and later, and what goes with it; shared by all judges of a gateway.
        context: where the messages come from.
        repeats: whether the transport may deliver a message twice, as a resumed HTTP stream does.
        tools: what the client was shown of the server's tools, where that outlives this judge.

    The gateway takes the client's posture: what the client says is `sending`, what the server says `receiving`.

    An exchange stays to its end under the regime that was in force at its beginning. Its end is its last answer's: what
    is answered already, or cancelled, keeps no regime from being over. What still comes of it then (a stream that is
    resumed repeats it, a server answers what was cancelled) is judged as if it had begun under the regime in force.
    """

    def __init__(
        self,
        regimes: Regimes,
        context: ConnectionContext,
        *,
        repeats: bool = False,
        tools: LearntTools | None = None,
    ) -> None:
        self._regimes = regimes
        self._questions = Questions()
        self._context = context
        self._tools = tools if tools is not None else LearntTools()
        self._requests = {Side.CLIENT: Requests(repeats=repeats), Side.SERVER: Requests(repeats=repeats)}
        self._unreadable = Unreadable(regimes, self._requests, self._questions, context)

    def judge(self, side: Side, line: bytes) -> Action | Deferred:
        """Decide on one line."""
        try:
            document = read(line)
        except JSONFaultError as fault:
            return self._unreadable.take(side, [outline_of(line)], fault, line)
        try:
            if document.duplicates:
                raise JSONFaultError(document.fault or "ambiguous", INVALID_REQUEST)
            if line.find(b"\r", 0, -1) >= 0:
                # Many readers of lines end one at a carriage return too, and would find another message behind it.
                raise JSONFaultError("a carriage return inside of a line", INVALID_REQUEST)
            message = classify(document.value)
            if message.kind == "request":
                return self._request(side, message, line, document.fault)
            if message.kind == "notification":
                return self._notification(side, message, line, document.fault)
            return self._answer(side, message, line, document.fault)
        except JSONFaultError as error:
            fault = error
        except NotPlainError as error:
            fault = JSONFaultError(error.problem, INVALID_REQUEST)
        except Exception:
            logger.exception("a message from the %s could not be judged; it is blocked", side.value)
            fault = JSONFaultError("it could not be judged", INTERNAL_ERROR)
        return self._unreadable.take(side, outlines_of_value(document.value, document.duplicates), fault, line)

    def oversized(self, side: Side, line: OversizedLine) -> Action:
        """Refuse a message that was longer than the limit."""
        fault = JSONFaultError("longer than the limit", INVALID_REQUEST)
        return self._unreadable.take(side, [outline_of_text(line.head, line.tail)], fault, line)

    def settle(self, side: Side, message_id: MessageId) -> None:
        """Note that a request's answer will not come the way it was expected; if at all, as a repetition."""
        self._requests[side].settle(message_id)

    def close(self) -> None:
        """Note that nothing more comes, from either side."""
        for requests in self._requests.values():
            requests.release()

    # Requests

    def _request(self, side: Side, message: Message, line: bytes, fault: str | None) -> Action | Deferred:
        assert message.id is not None
        requests, regime = self._requests[side], self._regimes.current
        if (opened := requests.opened(message.id)) is not None:
            if opened.is_repeated_by(line):
                # It is the same request once more, and nothing tells the answers to the two apart.
                regime = regime if opened.regime.over else opened.regime
            elif not (regime.relays and opened.regime.relays):
                raise JSONFaultError("the id is already in use", INVALID_REQUEST)
        params = message.params_or_empty()
        pending = Pending(message.method, params, self._context.of(params), len(line), regime)
        try:
            return self._opened(side, message, params, line, fault, pending)
        except BaseException:
            pending.sent = False
            requests.close(message.id, pending)
            pending.release()
            raise

    def _opened(
        self,
        side: Side,
        message: Message,
        params: dict[str, Any],
        line: bytes,
        fault: str | None,
        pending: Pending,
    ) -> Action | Deferred:
        requests, regime = self._requests[side], pending.regime
        chain, swappable = regime.chain, self._regimes.swappable
        if side is Side.CLIENT and pending.stateless and message.method in ROUND_METHODS and (swappable or regime.asks):
            message, line = self._open_round(message, line, fault, params, pending)
            params = message.params_or_empty()
        assert message.id is not None
        direction, back = _direction(side), _opposite(_direction(side))
        parts = regime.rounds.answers(params, direction) if pending.stateless else None
        if parts is None and not chain.concerns(message.method, "request", direction):
            if chain.concerns(message.method, "response", back):
                _require(fault)
                pending.exchange.keep_request(message.payload())
            elif swappable:
                pending.exchange.keep_request(params)  # for a later regime, see `Pending.move`
                if not regime.rounds.takes_questions(back):
                    pending.free = True  # it may stay open for days, as a subscription does
                    pending.release()
            pending.sent = True
            requests.open(message.id, pending, line)
            return Action(forward=line)
        _require(fault)
        payload = message.payload()
        requests.open(message.id, pending, line)
        work = self._judge_request(side, message, payload, pending, parts)
        # The request phase may end in an answer, which then passes the response phase at once.
        if (
            chain.may_suspend(message.method, "request", direction)
            or chain.may_suspend(message.method, "response", back)
            or (parts is not None and regime.rounds.may_suspend(parts))
        ):
            voice = self._voice(pending, message.id if side is Side.CLIENT else None)
            over = partial(self._judged, side, message.id, pending)
            return Deferred(work, request_id=message.id, size=len(line), voice=voice, over=over)
        return _now(work)

    def _judged(self, side: Side, message_id: MessageId, pending: Pending) -> None:
        """Note that a request is judged, or never will be. Only one that went on stays open."""
        requests = self._requests[side]
        if not pending.sent:
            requests.close(message_id, pending)
            pending.release()
        elif not requests.has(message_id, pending):  # another one like it has its place by now
            pending.release()

    async def _judge_request(
        self, side: Side, message: Message, payload: dict[str, Any], pending: Pending, parts: Parts | None
    ) -> Action:
        assert message.id is not None
        try:
            if parts is not None:
                judged = await pending.regime.rounds.judge(parts, payload, pending.context)
                if isinstance(judged, ChainExecutionResult):
                    return Action(reply=write(self._denial(message.id, judged, pending, ran=False)))
                payload = judged
            result = await self._execute(message.method, "request", side, payload, pending)
            if result.questions:
                return Action(reply=write(self._put(message.id, result, pending)))
            if result.answer is not None:
                return Action(reply=write(await self._answered(side, message, result, pending)))
            if result.final_payload is not None:
                forward = write(message.with_payload(result.final_payload))
                pending.sent = True
                return Action(forward=forward)
            return Action(reply=write(self._denial(message.id, result, pending, ran=False)))
        except Exception as error:  # noqa: BLE001 - logged by `_unjudged`; the message is blocked
            return Action(reply=write(_unjudged(message.id, message.method, error)))
        finally:
            self._judged(side, message.id, pending)

    def _denial(
        self,
        message_id: MessageId,
        result: ChainExecutionResult,
        pending: Pending,
        *,
        ran: bool,
        error: bool = False,
    ) -> dict[str, Any]:
        return pending.regime.denials.answer(
            pending.method, message_id, result, ran=ran, stateless=pending.stateless, error=error
        )

    async def _answered(
        self, side: Side, message: Message, request: ChainExecutionResult, pending: Pending
    ) -> dict[str, Any]:
        """Send an interceptor's answer through the response phase and back; the other side never hears of it."""
        assert message.id is not None
        assert request.answer is not None
        answer = payload_of_answer(request.answer, message.method, stateless=pending.stateless)
        provenance = {"by": request.answered_by, "decisionId": request.decision_id}
        answer = {**answer, "_meta": {**object_or_empty(answer.get("_meta")), ANSWER_KEY: provenance}}
        assert request.final_payload is not None
        pending.exchange.keep_request(request.final_payload)
        finish = self._last_step(side.other, pending, answered=True)
        result = await self._execute(message.method, "response", side.other, answer, pending, finish=finish)
        if result.questions:
            return self._put(message.id, result, pending)
        if result.final_payload is None:
            return self._denial(message.id, result, pending, ran=False)
        self._learn(side.other, pending, answer, result.final_payload)
        return {"jsonrpc": "2.0", "id": message.id, "result": result.final_payload}

    # Questions to the user

    def _open_round(
        self, message: Message, line: bytes, fault: str | None, params: dict[str, Any], pending: Pending
    ) -> tuple[Message, bytes]:
        """Take what the client carried for the gateway out of a request; return it as it goes on."""
        regime = pending.regime
        pending.round = Round(regime.asking, message.method, params, pending.context, strict=regime.asks)
        if pending.round.params is params:
            return message, line
        _require(fault)
        envelope = message.with_payload(pending.round.params)
        return Message(envelope, message.kind, message.id, message.method), write(envelope)

    def _voice(self, pending: Pending, about: MessageId | None) -> Voice | None:
        pending.voice = Voice(about) if pending.regime.asks and not pending.stateless else None
        return pending.voice

    def _put(self, message_id: MessageId, result: ChainExecutionResult, pending: Pending) -> dict[str, Any]:
        assert pending.round is not None, "nothing else leaves a question open"
        return pending.round.put(message_id, result.questions)

    def _wrapped(self, pending: Pending, message: Message, line: bytes, fault: str | None) -> bytes:
        """Return an answer that no interceptor takes as it goes on: with what the gateway is to remember."""
        if pending.round is None or message.kind != "result":
            return line
        wrapped = pending.round.wrapped(object_or_empty(message.envelope.get("result")))
        if wrapped is None:
            return line
        _require(fault)
        return write(message.with_payload(wrapped))

    def _asker(self, regime: Regime, pending: Pending | None) -> Asker | None:
        if not regime.asks:
            return None
        if pending is None:
            return refusing("nobody can be asked about a notification: its sender does not wait")
        if pending.stateless:
            if pending.sent:
                return refusing(
                    "the server has answered; in this revision of the protocol nobody can be asked any more"
                )
            if pending.round is None:
                return refusing(f"in this revision nobody can be asked about {one_line(pending.method)}")
            return pending.round.ask
        if pending.method == INITIALIZE:
            return refusing("nobody can be asked before the session has begun")
        return partial(self._questions.ask, voice=pending.voice, timeout=regime.asking.timeout)

    # Answers

    def _answer(self, side: Side, message: Message, line: bytes, fault: str | None) -> Action | Deferred:
        if side is Side.CLIENT and self._questions.take(message, fault):
            return Action()
        asker = side.other
        pending = self._requests[asker].sent(message.id)
        is_error = message.kind == "error"
        direction = _direction(side)
        if pending is not None and pending.regime.over and not pending.free:
            if pending.method:
                pending.move(self._regimes.current)
            else:  # it could not be read, and so not be judged
                pending = None
        if pending is None:
            current = self._regimes.current
            if current.relays or (
                is_error and message.id is None and not current.chain.concerns("", "response", direction, error=True)
            ):
                return Action(forward=line, ordered=True)
            logger.warning("dropped an answer from the %s to a request it never got", side.value)
            return Action()
        assert message.id is not None
        regime = pending.regime
        chain = regime.chain
        parts = regime.rounds.questions(message.envelope.get("result"), direction)
        if parts is None and not chain.concerns(pending.method, "response", direction, error=is_error):
            if side is Side.SERVER and pending.method == TOOLS_LIST and message.kind == "result":
                line = self._unjudged_listing(message, line, fault, pending)
            line = self._wrapped(pending, message, line, fault)
            self._requests[asker].close(message.id, pending)
            self._note_handshake(pending, message)
            pending.release()
            return Action(forward=line, ordered=True)
        _require(fault)
        payload = message.payload()
        self._note_handshake(pending, message)
        # Of its own: the request is over now, and an answer may come once more while this one is judged.
        hold = Hold(regime)
        self._requests[asker].close(message.id, pending)
        pending.release()
        work = self._judge_answer(side, message, payload, pending, parts, hold)
        if chain.may_suspend(pending.method, "response", direction, error=is_error) or (
            parts is not None and regime.rounds.may_suspend(parts)
        ):
            voice = self._voice(pending, message.id if side is Side.SERVER else None)
            return Deferred(work, ordered=True, size=len(line), voice=voice, over=hold.release)
        return _now(work)

    async def _judge_answer(
        self, side: Side, message: Message, payload: dict[str, Any], pending: Pending, parts: Parts | None, hold: Hold
    ) -> Action:
        assert message.id is not None
        is_error = message.kind == "error"
        try:
            if parts is not None:
                judged = await pending.regime.rounds.judge(parts, payload, pending.context)
                if isinstance(judged, ChainExecutionResult):
                    return Action(forward=write(self._denial(message.id, judged, pending, ran=True)), ordered=True)
                payload = judged
            finish = None if is_error else self._last_step(side, pending)
            result = await self._execute(
                pending.method, "response", side, payload, pending, error=is_error, finish=finish
            )
            if result.final_payload is not None:
                leaves = result.final_payload
                if pending.round is not None and not is_error:
                    leaves = pending.round.wrapped(leaves) or leaves
                forward = write(message.with_payload(leaves))
                if not is_error:
                    self._learn(side, pending, payload, result.final_payload)
                return Action(forward=forward, ordered=True)
            denial = self._denial(message.id, result, pending, ran=True, error=is_error)
            return Action(forward=write(denial), ordered=True)
        except Exception as error:  # noqa: BLE001 - logged by `_unjudged`; the answer is blocked
            return Action(forward=write(_unjudged(message.id, pending.method, error, what="answer")), ordered=True)
        finally:
            hold.release()

    # Tools

    def _last_step(self, side: Side, pending: Pending, *, answered: bool = False) -> Finish | None:
        """Return what the gateway itself does with an answer that interceptors may have changed, or gave."""
        method, regime = pending.method, pending.regime
        if side is not Side.SERVER or method not in (TOOLS_CALL, TOOLS_LIST):
            return None
        if not answered and not regime.chain.may_change(method, "response", _direction(side)):
            return partial(with_input_schemas, all_tools=True) if regime.coerce and method == TOOLS_LIST else None
        if method == TOOLS_LIST:
            return partial(with_input_schemas, all_tools=regime.coerce or answered)
        check = self._tools.check(pending.about)
        if check is None:
            return None
        return check.answered if answered else check.changed

    def _unjudged_listing(self, message: Message, line: bytes, fault: str | None, pending: Pending) -> bytes:
        """Learn from a listing that no interceptor takes; return it as it goes on."""
        listing = object_or_empty(message.envelope.get("result"))
        leaves = with_input_schemas(listing, listing, all_tools=True) if pending.regime.coerce else None
        if leaves is not None:
            _require(fault)
            line = write(message.with_payload(leaves))
        if fault is None:  # else it may mean something else to the client
            self._learn(Side.SERVER, pending, listing, leaves or listing)
        return line

    def _learn(self, side: Side, pending: Pending, arrived: dict[str, Any], leaves: dict[str, Any]) -> None:
        if side is not Side.SERVER or pending.method != TOOLS_LIST:
            return
        if self._regimes.swappable or learns_tools(pending.regime.chain):
            self._tools.learn(pending.about, arrived, leaves)

    def _note_handshake(self, pending: Pending, message: Message) -> None:
        if pending.method == INITIALIZE and message.kind == "result":
            self._context.negotiated(object_or_empty(message.envelope.get("result")).get("protocolVersion"))
            self._questions.possible = can_ask(pending.about)

    # Notifications

    def _notification(self, side: Side, message: Message, line: bytes, fault: str | None) -> Action | Deferred:
        if message.method == CANCELLED:
            return self._cancelled(side, message, line)
        direction, regime = _direction(side), self._regimes.current
        chain = regime.chain
        if not chain.concerns(message.method, "request", direction):
            return Action(forward=line, ordered=True)
        _require(fault)
        payload = message.payload()
        hold = Hold(regime)
        work = self._judge_notification(side, message, payload, hold)
        if chain.may_suspend(message.method, "request", direction):
            return Deferred(work, ordered=True, notification=True, size=len(line), over=hold.release)
        return _now(work)

    def _cancelled(self, side: Side, message: Message, line: bytes) -> Action:
        cancelled = message.cancels()
        if cancelled is not None and self._requests[side].cancelled(cancelled):
            return Action(cancels=cancelled)  # the other side never saw the request, so it need not hear of its end
        if cancelled is not None and side is Side.CLIENT:
            self._questions.cancel(cancelled)
        return Action(forward=line)

    async def _judge_notification(self, side: Side, message: Message, payload: dict[str, Any], hold: Hold) -> Action:
        try:
            result = await self._execute(message.method, "request", side, payload, None, regime=hold.regime)
            if result.final_payload is None:
                return Action(ordered=True)
            return Action(forward=write(message.with_payload(result.final_payload)), ordered=True)
        except Exception as error:  # noqa: BLE001 - logged by `_unjudged`; the notification is blocked
            _unjudged(None, message.method, error)
            return Action(ordered=True)
        finally:
            hold.release()

    # The chain

    async def _execute(
        self,
        event: str,
        phase: Phase,
        side: Side,
        payload: dict[str, Any],
        pending: Pending | None,
        *,
        error: bool = False,
        finish: Finish | None = None,
        regime: Regime | None = None,
    ) -> ChainExecutionResult:
        if pending is not None:
            regime = pending.regime
        assert regime is not None
        return await regime.chain.execute(
            event=event,
            phase=phase,
            payload=payload,
            direction=_direction(side),
            context=pending.context if pending is not None else self._context.of(payload),
            exchange=pending.exchange if pending is not None else None,
            error=error,
            tools=self._tools.listed,
            finish=finish,
            ask=self._asker(regime, pending),
        )


def _now(work: Coroutine[Any, Any, Action]) -> Action | Deferred:
    """Run a judgement that cannot suspend."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    work.close()
    raise RuntimeError("a judgement that should not suspend did")


def _unjudged(message_id: MessageId | None, event: str, error: Exception, *, what: str = "message") -> dict[str, Any]:
    """Log why a message could not be judged, and return what is sent in the place of its answer."""
    event = one_line(event)  # a peer's words, and the log is read in terminals
    if isinstance(error, NotPlainError):
        logger.warning("refused the %s of %s: %s", what, event, error.problem)
        code = INVALID_REQUEST if what == "message" else INTERNAL_ERROR
        return error_message(message_id, code, f"midspan refused the {what}: {error.problem}")
    logger.error("the %s of %s could not be judged; it is blocked", what, event, exc_info=error)
    return error_message(message_id, INTERNAL_ERROR, f"midspan could not judge the {what}; it was blocked")


def _require(fault: str | None) -> None:
    if fault is not None:
        raise JSONFaultError(fault, INVALID_REQUEST)


def _direction(side: Side) -> Direction:
    return "sending" if side is Side.CLIENT else "receiving"


def _opposite(direction: Direction) -> Direction:
    return "receiving" if direction == "sending" else "sending"
