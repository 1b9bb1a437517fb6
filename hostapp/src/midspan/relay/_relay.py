"""Two lanes between a client and a server, with a judge beside them.

The relay knows lines and their order; what a message means, and whether it may pass, the judge knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from midspan.relay._channel import LineSource, LineWriter
from midspan.relay._json import INTERNAL_ERROR, INVALID_REQUEST, write
from midspan.relay._lines import OversizedLine
from midspan.relay._messages import MessageId, error_message
from midspan.relay._outline import outline_of_text
from midspan.relay._voice import HangUp, Voice

logger = logging.getLogger("midspan.relay")

MAX_JUDGED_AT_ONCE: Final = 256
"""How many messages of one lane may be with the judge; then the lane stops reading."""

MAX_JUDGED_BYTES: Final = 64 * 1024 * 1024
"""How many bytes they may have together; a single one may have more."""


class Side(enum.Enum):
    """Who sent a message."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Side:
        """The one who gets it."""
        return Side.SERVER if self is Side.CLIENT else Side.CLIENT


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be done with a message.

    Attributes:
        forward: goes on to the other side, or None.
        reply: goes back to the sender, or None.
        ordered: whether it must not overtake what came before it (notifications, answers).
        cancels: the id of a request of the same sender that is still being judged and is to be dropped, or None.
    """

    forward: bytes | None = None
    reply: bytes | None = None
    ordered: bool = False
    cancels: MessageId | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """A message whose judgement needs time.

    Attributes:
        action: comes to what is to be done.
        ordered: as in `Action`.
        request_id: the id when it is a request, so that it can be cancelled while it is judged.
        notification: whether later ordered messages have to wait for it.
        size: how many bytes it keeps in memory.
        voice: with which the judge speaks to the client meanwhile, or None.
        over: to be called when the judgement has ended in whatever way, or never begins; more than once does no harm.
    """

    action: Coroutine[Any, Any, Action]
    ordered: bool = False
    request_id: MessageId | None = None
    notification: bool = False
    size: int = 0
    voice: Voice | None = None
    over: Callable[[], object] | None = None


class Judge(Protocol):
    """Decides on each message."""

    def judge(self, side: Side, line: bytes) -> Action | Deferred:
        """Decide, or say that it takes time. Must not raise."""
        ...

    def oversized(self, side: Side, line: OversizedLine) -> Action:
        """Decide on a message that was longer than the limit and is lost."""
        ...

    def close(self) -> None:
        """Note that nothing more comes, from either side."""
        ...


class PassAll:
    """The judge of a relay without interceptors: every line passes as the bytes that came."""

    def judge(self, side: Side, line: bytes) -> Action | Deferred:
        """Pass."""
        return Action(forward=line)

    def oversized(self, side: Side, line: OversizedLine) -> Action:
        """Answer in its place, where it is certain what it was."""
        logger.error("dropped a message from the %s: longer than the limit", side.value)
        outline = outline_of_text(line.head, line.tail)
        if outline.id is None:
            return Action()
        if outline.is_call:
            return Action(reply=write(error_message(outline.id, INVALID_REQUEST, "midspan: longer than the limit")))
        if outline.is_answer:
            text = "midspan dropped the answer: longer than the limit"
            return Action(forward=write(error_message(outline.id, INTERNAL_ERROR, text)), ordered=True)
        return Action()

    def close(self) -> None:
        """Do nothing."""


class Lane:
    """Messages in one direction.

    Requests are judged side by side. Notifications keep their order, and an answer does not overtake a notification
    that came before it.
    """

    def __init__(
        self,
        side: Side,
        source: LineSource,
        onward: LineWriter,
        back: LineWriter,
        judge: Judge,
        hang_up: HangUp | None = None,
    ) -> None:
        self._hang_up = hang_up or HangUp()
        self._side = side
        self._source = source
        self._onward = onward
        self._back = back
        self._judge = judge
        self._client = back if side is Side.CLIENT else onward
        self._tasks: set[asyncio.Task[None]] = set()
        self._talking: set[asyncio.Task[None]] = set()
        self._requests: dict[MessageId, asyncio.Task[None]] = {}
        self._tail: asyncio.Event | None = None
        self._held = 0
        self._freed = asyncio.Event()

    async def run(self) -> None:
        """Relay until the source ends and all that came is done.

        Raises:
            BrokenPipeError: the receiver is gone.
        """
        try:
            async for line in self._source:
                if isinstance(line, OversizedLine):
                    await self._take(self._judge.oversized(self._side, line))
                else:
                    await self._take(self._judge.judge(self._side, line))
            if self._side is Side.CLIENT:
                self._hang_up.end()
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, verdict: Action | Deferred) -> None:
        if isinstance(verdict, Deferred):
            await self._spawn(verdict)
            return
        if verdict.cancels is not None and (task := self._requests.pop(verdict.cancels, None)) is not None:
            task.cancel()
        if verdict.ordered and self._tail is not None:
            size = len(verdict.forward or b"")
            await self._spawn(Deferred(_already(verdict), ordered=True, notification=True, size=size))
            return
        await self._perform(verdict)

    async def _spawn(self, deferred: Deferred) -> None:
        try:
            while len(self._tasks) > len(self._talking) and not self._has_room(deferred.size):
                self._freed.clear()
                await self._freed.wait()
        except asyncio.CancelledError:
            _drop(deferred)
            raise
        before = self._tail if deferred.ordered else None
        done: asyncio.Event | None = None
        if deferred.notification:
            done = self._tail = asyncio.Event()
        task = asyncio.create_task(self._finish(deferred, before, done))
        self._tasks.add(task)
        self._held += deferred.size
        if deferred.voice is not None:
            deferred.voice.connect(partial(self._say, task, deferred.size), self._hang_up)
        if deferred.request_id is not None:
            self._requests[deferred.request_id] = task
        task.add_done_callback(partial(self._done, deferred))

    def _has_room(self, size: int) -> bool:
        return len(self._tasks) - len(self._talking) < MAX_JUDGED_AT_ONCE and self._held + size <= MAX_JUDGED_BYTES

    async def _say(self, task: asyncio.Task[None], size: int, line: bytes) -> None:
        """Say something to the client while a message is judged.

        The client may answer, on this lane: a message that waits for that must keep none from being read.
        """
        if task in self._tasks and task not in self._talking:
            self._talking.add(task)
            self._held -= size
            self._freed.set()
        await self._client.send(line)

    def _done(self, deferred: Deferred, task: asyncio.Task[None]) -> None:
        _drop(deferred)  # a task that was cancelled before it began never came to it
        self._tasks.discard(task)
        if task in self._talking:
            self._talking.discard(task)
        else:
            self._held -= deferred.size
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, BrokenPipeError):
            logger.error("a message could not be relayed", exc_info=error)

    async def _finish(self, deferred: Deferred, before: asyncio.Event | None, done: asyncio.Event | None) -> None:
        try:
            action = await deferred.action
            if before is not None:
                await before.wait()
            if deferred.request_id is not None:
                # From here on the other side may know the request: a cancellation has to reach it.
                self._requests.pop(deferred.request_id, None)
            await self._perform(action)
        finally:
            if done is not None:
                done.set()
                if self._tail is done:
                    self._tail = None

    async def _perform(self, action: Action) -> None:
        if action.forward is not None:
            await self._onward.send(action.forward)
        if action.reply is not None:
            # The sender may have closed its input and still talk; that it is gone is noticed elsewhere.
            with contextlib.suppress(BrokenPipeError):
                await self._back.send(action.reply)


def _drop(deferred: Deferred) -> None:
    deferred.action.close()
    if deferred.over is not None:
        deferred.over()


async def _already(action: Action) -> Action:
    return action


async def relay(
    client_in: LineSource,
    client_out: LineWriter,
    server_in: LineWriter,
    server_out: LineSource,
    judge: Judge,
) -> None:
    """Relay both ways until the server's output ends; the end of the client's input closes the server's.

    The judge is closed in the end.

    Raises:
        BrokenPipeError: the client is gone.
    """
    hang_up = HangUp()
    upstream = Lane(Side.CLIENT, client_in, server_in, client_out, judge, hang_up)
    downstream = Lane(Side.SERVER, server_out, client_out, server_in, judge, hang_up)

    async def up() -> None:
        try:
            await upstream.run()
        except BrokenPipeError:  # the server takes no more; its output says when that is all
            client_in.close()
        await server_in.aclose()

    feeding = asyncio.create_task(up())
    answering = asyncio.create_task(downstream.run())
    try:
        done, _ = await asyncio.wait({feeding, answering}, return_when=asyncio.FIRST_COMPLETED)
        if feeding in done:
            feeding.result()
        await answering
    finally:
        feeding.cancel()
        answering.cancel()
        try:
            await asyncio.gather(feeding, answering, return_exceptions=True)
        finally:
            judge.close()
