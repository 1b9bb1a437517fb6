"""One lane by itself, with the loop's turns in the test's hands: races that whole links hit one time in thousands."""

from __future__ import annotations

import asyncio
import gc
from typing import cast

import pytest

from midspan.relay import Action, Deferred, OversizedLine, Side
from midspan.relay._lines import LineReader, PipeWriter  # pyright: ignore[reportPrivateUsage] - the unit's parts
from midspan.relay._relay import Lane  # pyright: ignore[reportPrivateUsage] - the unit

pytestmark = pytest.mark.anyio


class Out:
    """Takes lines as a writer does."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    async def send(self, line: bytes) -> None:
        self.lines.append(line)


class Rig:
    """A lane whose judge does as the line says: `slow` waits for its gate, `cancel` cancels request 1, all else passes.

    A line that starts with `?` is a request and need not keep its place.
    """

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.source = LineReader()
        self.onward = Out()
        self.judged: list[bytes] = []
        writer = cast("PipeWriter", self.onward)
        self.lane = Lane(Side.SERVER, self.source, writer, cast("PipeWriter", Out()), self)
        self.running = asyncio.create_task(self.lane.run())

    def judge(self, side: Side, line: bytes) -> Action | Deferred:
        if line == b"cancel":
            return Action(cancels=1)
        if line == b"?slow":
            return Deferred(self._wait(line), request_id=1)
        if line.startswith(b"slow"):
            return Deferred(self._wait(line), ordered=True, notification=True)
        return Action(forward=line, ordered=not line.startswith(b"?"))

    async def _wait(self, line: bytes) -> Action:
        self.judged.append(line)
        await self.gate.wait()
        return Action(forward=line, ordered=True)

    def oversized(self, side: Side, line: OversizedLine) -> Action:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def feed(self, *lines: bytes) -> None:
        self.source.data_received(b"".join(line + b"\n" for line in lines))

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def end(self) -> list[bytes]:
        self.source.eof_received()
        await asyncio.wait_for(self.running, 5)
        return self.onward.lines


async def test_what_comes_as_the_way_gets_free_does_not_overtake_what_waited_for_it() -> None:
    rig = Rig()
    rig.feed(b"slow 1", b"2", b"3")
    await rig.settle()
    # In the same turn of the loop the way gets free and more arrives.
    rig.gate.set()
    rig.feed(b"4")
    assert await rig.end() == [b"slow 1", b"2", b"3", b"4"]


async def test_a_request_need_not_wait_for_notifications() -> None:
    rig = Rig()
    rig.feed(b"slow 1", b"?request", b"2")
    await rig.settle()
    assert rig.onward.lines == [b"?request"]
    rig.gate.set()
    assert await rig.end() == [b"?request", b"slow 1", b"2"]


async def test_a_request_cancelled_before_its_judgement_began_is_never_judged_and_leaves_no_warning() -> None:
    rig = Rig()
    rig.feed(b"?slow", b"cancel", b"next")
    assert await rig.end() == [b"next"]
    assert rig.judged == []
    gc.collect()  # a coroutine that nobody closed would warn now


async def test_a_lane_that_is_stopped_leaves_no_task() -> None:
    rig = Rig()
    rig.feed(b"slow 1", b"?slow", b"2")
    await rig.settle()
    before = asyncio.all_tasks()
    rig.running.cancel()
    await asyncio.wait({rig.running})
    assert asyncio.all_tasks() <= before - {rig.running}
    assert len(asyncio.all_tasks()) == len(before) - 4
    assert rig.onward.lines == []
