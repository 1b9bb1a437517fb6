"""One client's side of a judge."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from midspan.relay import Action, Deferred, JSONFaultError, MessageId, OversizedLine, Say, Side, read

if TYPE_CHECKING:
    from midspan.exposing import InnerJudge


class CancelledRequestError(Exception):
    """A request was cancelled by its sender while it was judged, so it never went on.

    Attributes:
        id: the request's id.
    """

    def __init__(self, message_id: MessageId) -> None:
        self.id = message_id
        super().__init__(message_id)


class Conversation:
    """A judge, and what is with it at the moment.

    Args:
        judge: hears both sides of one client's session, or of one request.
        session: names the state that interceptors keep for it alone, or None.

    Attributes:
        session: as above.
        under_way: how many HTTP requests are part of it right now.
        kept: whether a session of the server's keeps it beyond those.
    """

    def __init__(self, judge: InnerJudge, session: str | None) -> None:
        self.session = session
        self.under_way = 0
        self.kept = False
        self._judge = judge
        self._judging: dict[tuple[Side, MessageId], asyncio.Future[Action]] = {}

    async def decide(self, side: Side, message: bytes, say: Say | None = None) -> Action:
        """Decide on a message.

        One that nothing acted on comes back as the very object that was passed in.

        Args:
            side: who sent it.
            message: the message.
            say: says something to the client meanwhile; None where that cannot be.

        Raises:
            CancelledRequestError: its sender cancelled it.
        """
        line = _without_returns(message) if b"\r" in message else message
        verdict = self._judge.judge(side, line)
        if isinstance(verdict, Deferred):
            if verdict.voice is not None and say is not None:
                verdict.voice.connect(say)
            verdict = await self._wait_for(side, verdict)
        if verdict.cancels is not None and (judging := self._judging.get((side, verdict.cancels))) is not None:
            judging.cancel()
        return Action(forward=message, ordered=verdict.ordered) if verdict.forward is line else verdict

    async def _wait_for(self, side: Side, deferred: Deferred) -> Action:
        try:
            return await self._awaited(side, deferred)
        finally:
            if deferred.over is not None:
                deferred.over()

    async def _awaited(self, side: Side, deferred: Deferred) -> Action:
        if deferred.request_id is None:
            return await deferred.action
        key = (side, deferred.request_id)
        task = self._judging[key] = asyncio.ensure_future(deferred.action)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise CancelledRequestError(deferred.request_id) from None
        finally:
            if self._judging.get(key) is task:
                del self._judging[key]

    def oversized(self, side: Side, head: bytes, tail: bytes) -> Action:
        """Decide on a message that is lost, since it was longer than the limit.

        Args:
            side: who sent it.
            head: its first bytes.
            tail: its last bytes.
        """
        return self._judge.oversized(side, OversizedLine(head, tail))

    def settle(self, message_id: MessageId) -> None:
        """Note that the stream on which the client's request was sent has ended; an answer can only be a repetition."""
        self._judge.settle(Side.CLIENT, message_id)

    def close(self) -> None:
        """Note that nothing more comes, from either side."""
        self._judge.close()


def _without_returns(message: bytes) -> bytes:
    """Return a message without carriage returns, which a judge of lines refuses; here they are white space.

    That they are, only a message that is JSON as it stands can tell: inside of a string they are a fault, for the judge
    to find.
    """
    try:
        read(message)
    except JSONFaultError:
        return message
    return message.replace(b"\r", b" ")
