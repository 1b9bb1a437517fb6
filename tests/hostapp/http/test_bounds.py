"""What is bounded: the bytes of all bodies, the sessions that are kept."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from midspan.http._budget import Budget, Reservation
from midspan.http._conversations import Conversations
from midspan.http._idle import IdleMap
from midspan.interception import Regime, Regimes
from midspan_sdk import Chain

pytestmark = pytest.mark.anyio
KIB = 1024


@pytest.fixture(autouse=True)
def patience() -> None:
    """Nothing here takes long."""


async def test_small_bodies_take_nothing() -> None:
    budget = Budget(1)
    for _ in range(10):
        with anyio.fail_after(5):
            await budget.reserve(Reservation(), 64 * KIB)


async def test_who_finds_no_room_waits_its_turn() -> None:
    budget = Budget(200 * KIB)
    order: list[str] = []
    done = asyncio.Event()

    async def take(name: str, size: int, *, stays: bool = False) -> None:
        with Reservation() as room:
            await budget.reserve(room, size)
            order.append(name)
            if stays:
                await done.wait()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: take("first", 150 * KIB, stays=True))
            await anyio.wait_all_tasks_blocked()
            group.start_soon(take, "large", 150 * KIB)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(take, "behind", 65 * KIB)
            await anyio.wait_all_tasks_blocked()
            assert order == ["first"]
            done.set()
        assert order == ["first", "large", "behind"]


async def test_one_that_wants_more_than_all_gets_it_alone() -> None:
    with anyio.fail_after(5), Reservation() as room:
        await Budget(100 * KIB).reserve(room, 1000 * KIB)
        assert room.held


async def test_who_is_cancelled_while_waiting_leaves_its_place() -> None:
    budget = Budget(100 * KIB)
    with anyio.fail_after(5):
        with Reservation() as held:
            await budget.reserve(held, 100 * KIB)
            waiting = asyncio.create_task(budget.reserve(Reservation(), 90 * KIB))
            await anyio.wait_all_tasks_blocked()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        with Reservation() as room:
            await budget.reserve(room, 100 * KIB)


async def test_who_is_cancelled_the_moment_it_got_room_gives_it_back() -> None:
    budget = Budget(100 * KIB)
    with anyio.fail_after(5):
        with Reservation() as held:
            await budget.reserve(held, 100 * KIB)
            waiting = asyncio.create_task(budget.reserve(Reservation(), 90 * KIB))
            await anyio.wait_all_tasks_blocked()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with Reservation() as room:
            await budget.reserve(room, 100 * KIB)


async def test_what_is_not_used_is_forgotten_and_what_is_busy_is_not() -> None:
    forgotten: list[str] = []
    gone = asyncio.Event()

    def forget(value: str) -> None:
        forgotten.append(value)
        gone.set()

    kept = IdleMap[str](idle=0.05, most=10, forget=forget, is_busy=lambda value: value == "busy")
    kept.put(1, "busy")
    kept.put(2, "quiet")
    with anyio.fail_after(5):
        await gone.wait()
    assert forgotten == ["quiet"]
    assert kept.get(1) == "busy"
    kept.clear()
    assert forgotten == ["quiet", "busy"]


async def test_a_full_map_forgets_the_longest_unused_that_is_not_busy() -> None:
    forgotten: list[int] = []
    kept = IdleMap[int](idle=60, most=3, forget=forgotten.append, is_busy=lambda value: value == 0)
    for number in range(3):
        kept.put(number, number)
    kept.get(1)
    kept.put(3, 3)
    assert forgotten == [2]
    kept.put(1, 11)
    assert forgotten == [2, 1]
    assert len(kept) == 3
    kept.clear()


async def test_a_session_keeps_the_conversation_that_was_there_first() -> None:
    conversations = Conversations(Regimes(Regime(Chain())), "s")
    headers = [(b"mcp-session-id", b"1")]
    one, other = conversations.join(headers, "tools/call"), conversations.join(headers, "tools/call")
    conversations.note(b"1", one)
    conversations.note(b"1", other)
    assert conversations.join(headers, "tools/call") is one
    conversations.note(b"1", other, new=True)
    assert conversations.join(headers, "tools/call") is other
    conversations.clear()


async def test_sessions_that_clients_make_up_are_not_kept() -> None:
    chain = Chain()
    conversations = Conversations(Regimes(Regime(chain)), "s")
    for number in range(100):
        headers = [(b"mcp-session-id", b"%d" % number)]
        conversations.leave(conversations.join(headers, "tools/call"))
    assert len(conversations._sessions) == 0  # pyright: ignore[reportPrivateUsage] # what is bounded
