"""What a stream keeps."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from midspan.bridge._stream import Stream

pytestmark = pytest.mark.anyio

PIECE = b"x" * 100_000


async def numbers(stream: Stream, after: int) -> list[int]:
    stream.attach(stream, after)
    return [number async for number, _ in stream.messages(stream)]


async def test_while_nobody_reads_the_oldest_go() -> None:
    stream = Stream()
    for _ in range(100):
        await stream.send(PIECE)
    assert stream.size <= 4 * 1024 * 1024
    for _ in range(5000):
        await stream.send(b"x")
    stream.finish()
    kept = await numbers(stream, 0)
    assert kept[-1] == 5100
    assert len(kept) == 1024


async def test_the_newest_is_kept_however_long() -> None:
    stream = Stream()
    await stream.send(PIECE)
    stream.put(b"x" * 5_000_000, last=True)
    assert await numbers(stream, 0) == [2]
    assert stream.only_answer() is None


async def test_a_slow_reader_holds_the_sender_and_loses_nothing() -> None:
    stream = Stream()
    stream.attach(stream, 0)
    sent = 0

    async def send() -> None:
        nonlocal sent
        for _ in range(100):
            await stream.send(PIECE)
            sent += 1
        stream.finish()

    with anyio.fail_after(5):
        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            await asyncio.sleep(0)
            assert sent < 15
            assert [number async for number, _ in stream.messages(stream)] == list(range(1, 101))
    assert stream.size <= 4 * 1024 * 1024 + len(PIECE)


async def test_a_reader_that_leaves_lets_the_sender_go_on() -> None:
    stream = Stream()
    stream.attach(stream, 0)
    with anyio.fail_after(5):
        sending = asyncio.create_task(stream.send(b"x" * 2_000_000))
        await asyncio.sleep(0)
        assert not sending.done()
        stream.detach(stream)
        await sending


async def test_a_second_reader_takes_over() -> None:
    stream = Stream()
    for _ in range(3):
        await stream.send(PIECE)
    stream.attach("first", 0)
    first = stream.messages("first")
    assert (await anext(first))[0] == 1
    stream.attach("second", 0)
    with pytest.raises(StopAsyncIteration):
        await anext(first)
    stream.detach("first")
    stream.finish()
    assert [number async for number, _ in stream.messages("second")] == [1, 2, 3]


async def test_an_answer_is_never_there_without_the_end() -> None:
    stream = Stream()
    stream.attach(stream, 0)
    stream.put(b"x" * 2_000_000, last=True)
    await stream.wait_for_change()
    assert stream.only_answer() is not None
    await stream.send(b"late")
    assert stream.last == 1
