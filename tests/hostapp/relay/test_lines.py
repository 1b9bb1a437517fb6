"""Framing: lines out of chunks, limits, and writers that hold their senders back."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midspan.relay import OversizedLine, open_reader, open_writer
from midspan.relay._lines import FileWriter, LineReader, PipeWriter  # pyright: ignore[reportPrivateUsage] - units

pytestmark = pytest.mark.anyio


async def read_chunks(chunks: Sequence[bytes], limit: int = 1000) -> list[bytes | OversizedLine]:
    reader = LineReader(limit)
    for chunk in chunks:
        reader.data_received(chunk)
    reader.eof_received()
    return [line async for line in reader]


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({min(place, len(data)) for place in cuts})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@settings(max_examples=50)
@given(
    lines=st.lists(st.binary(max_size=50).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    cuts=st.lists(st.integers(0, 1000), max_size=20),
)
async def test_however_the_bytes_are_cut_the_lines_are_the_same(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    assert await read_chunks(cut(data, cuts)) == [line for line in lines if line.strip(b" \t\r\n\x0b\x0c")]


async def test_lines_survive_one_byte_chunks_and_a_last_one_needs_no_newline() -> None:
    data = b'{"a":1}\r\n\n{"b":2}'
    assert await read_chunks([bytes([byte]) for byte in data]) == [b'{"a":1}\r', b'{"b":2}']


@settings(max_examples=50)
@given(length=st.integers(0, 60), cuts=st.lists(st.integers(0, 80), max_size=8))
async def test_a_line_may_be_as_long_as_the_limit_and_no_longer(length: int, cuts: list[int]) -> None:
    found = await read_chunks(cut(b"x" * length + b"\nnext\n", cuts), limit=40)
    assert found[-1] == b"next"
    if length > 40:
        assert [type(line) for line in found] == [OversizedLine, bytes]
    else:
        assert found[:-1] == ([b"x" * length] if length else [])


@settings(max_examples=50)
@given(cuts=st.lists(st.integers(0, 5000), max_size=8))
async def test_both_ends_of_an_oversized_line_are_kept(cuts: list[int]) -> None:
    line = b"<head>" + b"." * 4000 + b"<tail>"
    for rest in (b"\n", b""):
        (found,) = await read_chunks(cut(line + rest, cuts), limit=100)
        assert isinstance(found, OversizedLine)
        assert found.head.startswith(b"<head>..")
        assert found.tail.endswith(b"..<tail>")
        assert len(found.head) + len(found.tail) <= 2048


async def test_an_oversized_line_takes_no_memory() -> None:
    reader = LineReader(limit=1_000_000)
    chunk = b"x" * 200_000
    tracemalloc.start()
    try:
        for _ in range(500):  # 100 MB
            reader.data_received(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    reader.data_received(b"\n")
    assert isinstance(await anext(reader), OversizedLine)
    assert peak < 5_000_000


async def test_a_reader_stops_reading_while_its_lines_are_not_taken() -> None:
    out, into = os.pipe()
    os.set_blocking(into, False)
    reader = await open_reader(out)
    line = b"y" * 1023 + b"\n"
    with anyio.fail_after(5):
        written = 0
        while written < 64 * 1024 * 1024:
            try:
                written += os.write(into, line * 64)
            except BlockingIOError:
                await asyncio.sleep(0)
                if not reader._room.is_set():  # pyright: ignore[reportPrivateUsage] - whether it has paused
                    break
        else:
            pytest.fail("the reader took 64 MiB that nobody wanted")
        os.set_blocking(into, True)
        os.close(into)
        assert written < 4 * 1024 * 1024
        # Nothing of it is lost.
        assert sum([len(each) + 1 async for each in reader if isinstance(each, bytes)]) == written


async def open_pipe_writer(descriptor: int) -> PipeWriter:
    writer = await open_writer(descriptor)
    assert isinstance(writer, PipeWriter)
    return writer


async def test_senders_wait_in_turn_and_only_one_line_lies_above_the_mark() -> None:
    out, into = os.pipe()
    writer = await open_pipe_writer(into)
    assert writer._transport is not None  # pyright: ignore[reportPrivateUsage] - how much is buffered
    size = 1024 * 1024
    lines = [bytes([65 + number]) * size for number in range(16)]
    sending = [asyncio.create_task(writer.send(line)) for line in lines]
    for _ in range(10):
        await asyncio.sleep(0)
    assert writer._transport.get_write_buffer_size() <= size + 65536  # pyright: ignore[reportPrivateUsage] - as above
    with anyio.fail_after(5):
        reader = await open_reader(out)
        for line in lines:
            assert await anext(reader) == line
        await asyncio.gather(*sending)
        await writer.aclose()
        assert [line async for line in reader] == []


async def test_a_sender_learns_that_the_reader_is_gone() -> None:
    out, into = os.pipe()
    writer = await open_pipe_writer(into)
    sending = [asyncio.create_task(writer.send(b"x" * 1_000_000)) for _ in range(3)]
    await asyncio.sleep(0)
    os.close(out)
    with anyio.fail_after(5):
        await writer.lost.wait()
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [BrokenPipeError] * 3
    with pytest.raises(BrokenPipeError):
        await writer.send(b"more")


async def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "in"
    lines = [b"%d" % number * 100 for number in range(20_000)]
    file.write_bytes(b"\n".join(lines))
    with anyio.fail_after(5):
        reader = await open_reader(os.open(file, os.O_RDONLY))
        assert [line async for line in reader] == lines


async def test_a_regular_file_and_the_null_device_are_written(tmp_path: Path) -> None:
    file = tmp_path / "out"
    for path in (str(file), os.devnull):
        writer = await open_writer(os.open(path, os.O_WRONLY | os.O_CREAT))
        assert isinstance(writer, FileWriter)
        await writer.send(b"one")
        await writer.send(b"two")
        await writer.aclose()
        assert writer.lost.is_set()
    assert file.read_bytes() == b"one\ntwo\n"


async def test_the_null_device_ends_at_once() -> None:
    with anyio.fail_after(5):
        reader = await open_reader(os.open(os.devnull, os.O_RDONLY))
        assert [line async for line in reader] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
async def test_a_full_disk_counts_as_a_reader_that_is_gone() -> None:
    writer = await open_writer(os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(BrokenPipeError):
        await writer.send(b"x")
    assert writer.lost.is_set()
    await writer.aclose()


async def test_an_input_that_cannot_be_read_ends(tmp_path: Path) -> None:
    with anyio.fail_after(5):
        reader = await open_reader(os.open(tmp_path, os.O_RDONLY))
        assert [line async for line in reader] == []
