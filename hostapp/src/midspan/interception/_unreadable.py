"""What becomes of a message that cannot be judged."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from midspan.interception._context import ConnectionContext
from midspan.interception._questions import Questions
from midspan.interception._regime import Regimes
from midspan.interception._requests import Pending, Requests
from midspan.relay import (
    INTERNAL_ERROR,
    Action,
    JSONFaultError,
    MessageId,
    Outline,
    OversizedLine,
    PassAll,
    Side,
    error_message,
    write,
)

logger = logging.getLogger("midspan.gateway")


class Unreadable:
    """Refuses what cannot be judged; passes it where nothing acts on it.

    Args:
        regimes: the chain that decides, now and later.
        requests: the open requests of each side.
        questions: that the client is asked.
        context: where the messages come from.
    """

    def __init__(
        self,
        regimes: Regimes,
        requests: Mapping[Side, Requests],
        questions: Questions,
        context: ConnectionContext,
    ) -> None:
        self._regimes = regimes
        self._requests = requests
        self._questions = questions
        self._context = context

    def take(
        self, side: Side, outlines: Sequence[Outline], fault: JSONFaultError, line: bytes | OversizedLine
    ) -> Action:
        """Decide on a message.

        Args:
            side: who sent it.
            outlines: what is certain of it; several for a batch.
            fault: why it cannot be judged.
            line: the message.
        """
        if self._regimes.swappable and self._relays(side, outlines):
            return self._relayed(side, outlines, line)
        logger.warning("refused a message from the %s: %s", side.value, fault.reason)
        requests = self._requests[side.other]
        onward: list[dict[str, Any]] = []
        back: list[dict[str, Any]] = []
        for message in outlines:
            if message.is_answer and side is Side.CLIENT:
                self._questions.refuse(message.id)
            if message.is_answer and requests.settle(message.id):
                text = f"midspan refused the answer: {fault.reason}"
                onward.append(error_message(message.id, INTERNAL_ERROR, text))
            elif message.is_answer and not message.is_call:
                continue
            elif side is Side.CLIENT or message.id is not None:
                # A stray line on a server's stdout is no message, and a server expects no answer to it.
                back.append(error_message(message.id, fault.code, f"midspan refused the message: {fault.reason}"))
        return Action(forward=_lines(onward), reply=_lines(back), ordered=bool(onward))

    def _relays(self, side: Side, outlines: Sequence[Outline]) -> bool:
        """Tell whether nothing acts on a message that cannot be judged.

        Whoever reads it may take it for an answer to any request. So nothing passes while one is open that something
        acts on.
        """
        relays = self._regimes.current.relays
        if self._requests[side.other].are_acted_on() or (side is Side.CLIENT and self._questions.waiting):
            return False
        for message in outlines:
            if message.is_answer:
                owner = self._requests[side.other].sent(message.id)
                if not (relays if owner is None or owner.regime.over else owner.regime.relays):
                    return False
            elif not relays or self._is_acted_on(side, message.id):
                return False
        return True

    def _is_acted_on(self, side: Side, message_id: MessageId | None) -> bool:
        opened = self._requests[side].opened(message_id) if message_id is not None else None
        return opened is not None and not opened.regime.relays

    def _relayed(self, side: Side, outlines: Sequence[Outline], line: bytes | OversizedLine) -> Action:
        """Pass what nothing acts on, and follow it as far as it can be read."""
        ordered = False
        for message in outlines:
            if message.is_answer:
                ordered = True
                self._requests[side.other].settle(message.id)
            elif message.id is not None and isinstance(line, bytes):
                pending = Pending("", {}, self._context.of({}), len(line), self._regimes.current)
                pending.sent = True
                self._requests[side].open(message.id, pending, line)
        if isinstance(line, bytes):
            return Action(forward=line, ordered=ordered)
        return PassAll().oversized(side, line)


def _lines(messages: list[dict[str, Any]]) -> bytes | None:
    return b"\n".join(write(message) for message in messages) if messages else None
