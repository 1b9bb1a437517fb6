"""The judge around the judge of a conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from midspan.exposing._following import Following
from midspan.interception import PROTOCOL_VERSION_KEY, Hold, Regimes
from midspan.relay import (
    CANCELLED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Action,
    Deferred,
    JSONFaultError,
    Judge,
    Message,
    MessageId,
    OversizedLine,
    Side,
    classify,
    error_message,
    object_or_empty,
    read,
    write,
)
from midspan_sdk.events import INITIALIZE, SERVER_DISCOVER
from midspan_sdk.wire import INVOKE_METHOD, LIST_METHOD

if TYPE_CHECKING:
    from midspan.exposing._exposure import Exposure

logger = logging.getLogger("midspan.gateway")

SERVED: Final = frozenset({LIST_METHOD, INVOKE_METHOD})
_INTRODUCTIONS: Final = frozenset({INITIALIZE, SERVER_DISCOVER})
_WORDS: Final = (b"interceptor", b"initialize", b"discover", b"cancelled", b"\\u")
"""One of these is in every line of a client that is of interest here; behind `\\u` a letter may hide."""
_ANSWER_WORDS: Final = (b"capabilities", b"\\u")
_KEPT: Final = 64
"""Introductions without an answer, or with one that may come again."""


class InnerJudge(Judge, Protocol):
    """The judge of a conversation: refuses what could be read in two ways."""

    def settle(self, side: Side, message_id: MessageId) -> None:
        """Note that a request's answer will not come the way it was expected."""
        ...


class ExposingJudge:
    """Answers the interceptor methods, and adds the capability to what the server says of itself.

    Everything else is the inner judge's. The two methods are not intercepted, and never go on to the server.

    Args:
        judge: decides on everything else.
        regimes: whose exposures answer, each what begins under it; under one that has none, everything is the inner
            judge's.
        repeats: whether the transport may deliver a message twice, as a resumed HTTP stream does.
    """

    def __init__(self, judge: InnerJudge, regimes: Regimes, *, repeats: bool = False) -> None:
        self._judge = judge
        self._regimes = regimes
        self._repeats = repeats
        self._invoked: set[MessageId] = set()
        self._introductions: dict[MessageId, tuple[str, Exposure]] = {}

    def judge(self, side: Side, line: bytes) -> Action | Deferred:
        """Decide on one line."""
        if side is Side.SERVER:
            return self._from_server(line)
        exposure = self._regimes.current.exposure
        if exposure is None and not self._invoked:
            return self._judge.judge(side, line)
        message, fault = _of_interest(line)
        if message is None:
            return self._judge.judge(side, line)
        if exposure is not None and message.method in SERVED:
            return self._serve(message, fault, len(line), exposure)
        if message.method == CANCELLED:
            cancelled = message.cancels()
            if cancelled in self._invoked:
                self._invoked.discard(cancelled)
                return Action(cancels=cancelled)  # the server never saw the request, so it need not hear of its end
        elif exposure is not None and message.id is not None and message.method in _INTRODUCTIONS:
            return _then(self._judge.judge(side, line), partial(self._introduce, message.id, message.method, exposure))
        return self._judge.judge(side, line)

    def oversized(self, side: Side, line: OversizedLine) -> Action:
        """Decide on a message that was longer than the limit and is lost."""
        return self._judge.oversized(side, line)

    def settle(self, side: Side, message_id: MessageId) -> None:
        """Note that a request's answer will not come the way it was expected."""
        self._judge.settle(side, message_id)

    def close(self) -> None:
        """Note that nothing more comes, from either side."""
        self._judge.close()

    # The two methods

    def _serve(self, message: Message, fault: str | None, size: int, exposure: Exposure) -> Action | Deferred:
        if message.id is None:
            logger.warning("dropped a notification of the client: %s is a request", message.method)
            return Action()
        if fault is None and message.id in self._invoked:
            fault = "the id is already in use"
        if fault is not None:
            return _reply(error_message(message.id, INVALID_REQUEST, f"midspan refused the message: {fault}"))
        params = message.params_or_empty()
        if not isinstance(message.envelope.get("params", params), dict):
            reason = {"reason": "params must be an object"}
            return _reply(error_message(message.id, INVALID_PARAMS, "Invalid params", reason))
        stateless = PROTOCOL_VERSION_KEY in object_or_empty(params.get("_meta"))
        if message.method == LIST_METHOD:
            return _reply(exposure.listing(message.id, params, stateless=stateless))
        self._invoked.add(message.id)
        over = partial(self._invocation_over, message.id, Hold(self._regimes.current))
        work = Following(_invoke(exposure, message.id, params, stateless=stateless), over=over)
        return Deferred(work, request_id=message.id, size=size)

    def _invocation_over(self, message_id: MessageId, hold: Hold) -> None:
        if hold.release():  # else another may have the id by now
            self._invoked.discard(message_id)

    # The capability

    def _introduce(self, message_id: MessageId, method: str, exposure: Exposure, action: Action) -> Action:
        """Remember a request that went on; of one that an interceptor answered, complete the answer."""
        if action.forward is not None:
            self._introductions.pop(message_id, None)
            self._introductions[message_id] = (method, exposure)
            if len(self._introductions) > _KEPT:
                del self._introductions[next(iter(self._introductions))]
        if action.reply is None:
            return action
        return replace(action, reply=_completed(action.reply, method, exposure))

    def _from_server(self, line: bytes) -> Action | Deferred:
        verdict = self._judge.judge(Side.SERVER, line)
        if not self._introductions or not any(word in line for word in _ANSWER_WORDS):
            return verdict
        return _then(verdict, self._answered)

    def _answered(self, action: Action) -> Action:
        message, _ = _read(action.forward) if action.forward is not None else (None, None)
        if message is None or message.id is None or message.kind not in ("result", "error"):
            return action
        introduction = self._introductions.get(message.id)
        if introduction is None:
            return action
        if not self._repeats:
            del self._introductions[message.id]
        return replace(action, forward=_completed(cast("bytes", action.forward), *introduction))


async def _invoke(exposure: Exposure, message_id: MessageId, params: dict[str, Any], *, stateless: bool) -> Action:
    return _reply(await exposure.invocation(message_id, params, stateless=stateless))


def _completed(answer: bytes, method: str, exposure: Exposure) -> bytes:
    message, fault = _read(answer)
    if message is None or message.kind != "result":
        return answer
    result: object = message.envelope["result"]
    if fault is not None or not isinstance(result, dict) or "capabilities" not in result:
        logger.warning("the answer to %s cannot be changed, so it does not tell of the interceptors", method)
        return answer
    said = cast("dict[str, Any]", result)
    return write(message.with_payload(exposure.advertised(said, handshake=method == INITIALIZE)))


def _of_interest(line: bytes) -> tuple[Message | None, str | None]:
    """Return a client's request or notification if it may be of interest here, and why it must not be judged."""
    # What has a carriage return in it, the inner judge refuses.
    if not any(word in line for word in _WORDS) or line.find(b"\r", 0, -1) >= 0:
        return None, None
    message, fault = _read(line)
    return (message, fault) if message is not None and message.method else (None, None)


def _read(line: bytes) -> tuple[Message | None, str | None]:
    """Return a message, and why it must not be judged; None when it is none, or more than one."""
    try:
        document = read(line)
        return (None, None) if document.duplicates else (classify(document.value), document.fault)
    except JSONFaultError:
        return None, None


def _reply(answer: dict[str, Any]) -> Action:
    return Action(reply=write(answer))


def _then(verdict: Action | Deferred, then: Callable[[Action], Action]) -> Action | Deferred:
    if isinstance(verdict, Deferred):
        return replace(verdict, action=Following(verdict.action, then=then))
    return then(verdict)
