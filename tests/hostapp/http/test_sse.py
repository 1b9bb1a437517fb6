"""Taking streams of events apart."""

from __future__ import annotations

import time
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan.http._sse import Event, EventSplitter, OversizedEvent

LIMIT = 1_000_000


def split(*chunks: bytes, limit: int = LIMIT) -> list[Event]:
    splitter = EventSplitter(limit)
    return [event for chunk in chunks for event in splitter.feed(chunk)]


def cut(text: bytes, places: list[int]) -> list[bytes]:
    """Cut a text into chunks at these places."""
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def reference(text: bytes) -> list[bytes]:
    """The data of every event, by the words of the standard, over a text that is there as a whole."""
    text = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found: list[bytes] = []
    data: list[bytes] = []
    for line in text.split(b"\n")[:-1]:
        if not line:
            if data:
                found.append(b"\n".join(data))
            data = []
            continue
        field, colon, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" ") if colon else b"")
    return found


LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"data:",
        b"data:  c",
        b"datax: d",
        b"id: 1",
        b"id",
        b":c",
        b"event: e",
        b"",
        b"",
        b" data: f",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


def joined(mark: bytes, lines: list[tuple[bytes, bytes]]) -> bytes:
    """Return a stream of these lines with their ends."""
    return mark + b"".join(line + end for line, end in lines)


STREAMS = st.builds(joined, st.sampled_from([b"", b"\xef\xbb\xbf"]), st.lists(st.tuples(LINES, ENDS)))
PLACES = st.lists(st.integers(0, 400))


@given(STREAMS, PLACES)
def test_any_stream_in_any_chunks_is_put_together_again_byte_for_byte(stream: bytes, places: list[int]) -> None:
    whole = stream + b"\n\n"  # what is incomplete at the end is held back, as the standard has it
    assert b"".join(event.raw for event in split(*cut(whole, places))) == whole


@given(STREAMS, PLACES)
def test_any_stream_in_any_chunks_has_the_data_that_the_standard_says(stream: bytes, places: list[int]) -> None:
    whole = stream + b"\n\n"
    assert [event.data for event in split(*cut(whole, places)) if event.data is not None] == reference(whole)


@given(STREAMS, PLACES)
def test_events_with_other_data_say_that_and_all_else(stream: bytes, places: list[int]) -> None:
    whole = stream + b"\n\n"
    written = b"".join(
        event.raw if event.data is None else event.with_data(b"new") for event in split(*cut(whole, places))
    )
    assert reference(written) == [b"new"] * len(reference(whole))

    def others(text: bytes) -> list[bytes]:
        lines = text.removeprefix(b"\xef\xbb\xbf").splitlines()
        return [line for line in lines if line and not (line + b":").startswith(b"data:")]

    assert others(written) == others(whole)


@given(STREAMS)
def test_events_without_data_are_ids_and_comments_in_whole_lines(stream: bytes) -> None:
    written = b"".join(event.without_data() for event in split(stream + b"\n\n"))
    assert reference(written) == []
    kept = {line for line in written.removeprefix(b"\xef\xbb\xbf").splitlines() if line}
    assert kept <= {b"id: 1", b"id", b":c", b"datax: d", b" data: f"}


def test_what_is_complete_comes_at_once() -> None:
    splitter = EventSplitter(LIMIT)
    assert [event.raw for event in splitter.feed(b": ping\n")] == [b": ping\n"]
    assert [event.raw for event in splitter.feed(b"\n")] == [b"\n"]
    assert list(splitter.feed(b"data: x\r")) == []
    assert [event.data for event in splitter.feed(b"\r")] == [b"x"]
    assert [event.raw for event in splitter.feed(b"\n")] == [b"\n"]


def test_an_event_at_the_end_without_a_blank_line_is_none() -> None:
    assert split(b"data: x\n") == []


def test_several_data_make_several_events_and_the_rest_stays_with_the_last() -> None:
    (event,) = split(b"id: 1\ndata: a\nretry: 2\n\n")
    assert event.with_data(b"x", b"y") == b"data: x\n\nid: 1\ndata: y\nretry: 2\n\n"


def test_without_data_an_event_is_its_id_and_retry_or_nothing() -> None:
    first, second = split(b"event: message\nid: 1\ndata: a\nretry: 2\n\ndata: b\n\n")
    assert first.without_data() == b"id: 1\nretry: 2\n\n"
    assert second.without_data() == b""


@pytest.mark.parametrize("size", [1, 7, 4096, 10**9])
def test_an_event_beyond_the_limit_is_skipped_and_the_next_one_comes(size: int) -> None:
    body = b'{"id":7,' + b"x" * 9000 + b',"last":1}'
    text = b"id: 3\ndata: " + body + b"\nevent: message\n\ndata: next\n\n"
    events = split(*(text[start : start + size] for start in range(0, len(text), size)), limit=5000)
    long, following = events
    assert isinstance(long, OversizedEvent)
    assert long.head == body[:1024]
    assert long.tail.rstrip(b"\n").endswith(b'x,"last":1}')
    assert long.with_data(b"instead") == b"id: 3\nevent: message\ndata: instead\n\n"
    assert following.data == b"next"


def test_an_event_of_many_short_lines_is_bounded_in_memory_too() -> None:
    splitter = EventSplitter(100_000)
    tracemalloc.start()
    try:
        for _ in range(100):
            assert list(splitter.feed(b"data:\n" * 500)) == []
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert [type(event) for event in splitter.feed(b"\n")] == [OversizedEvent]


@pytest.mark.parametrize("unit", [b"x", b"data: y\n", b":\n", b"\r"])
def test_the_work_is_linear(unit: bytes) -> None:
    def cost(count: int) -> float:
        splitter = EventSplitter(10**9)
        chunks = [b"data: ", *([unit * 50] * count)]
        started = time.process_time()
        for chunk in chunks:
            list(splitter.feed(chunk))
        return time.process_time() - started

    cost(10)
    small = min(cost(100) for _ in range(3))
    large = min(cost(1000) for _ in range(3))
    assert large < 40 * small + 0.02
