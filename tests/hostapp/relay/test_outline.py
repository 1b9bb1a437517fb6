"""What is certain of a message that cannot be read: enough that nobody waits for its answer for ever."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan.relay import EDGE, Outline, outline_of, outline_of_text, outlines_of_value
from midspan.relay._outline import quick_id

BIG = {"content": [{"type": "text", "text": 'x,"id":99} ' * 1000}]}
IDS = st.integers() | st.text(max_size=50) | st.floats(allow_nan=False, allow_infinity=False)


def ends(message: object) -> Outline:
    return outline_of(message if isinstance(message, bytes) else json.dumps(message).encode())


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 7, "result": BIG},
        {"result": BIG, "jsonrpc": "2.0", "id": 7},
        {"id": 7, "error": {"code": 1, "message": "x" * 5000}, "jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "result": BIG, "id": 7},
    ],
)
def test_the_id_of_an_answer_is_found_wherever_it_stands(message: dict[str, Any]) -> None:
    assert ends(message) == Outline(id=7, is_call=False, is_answer=True)


@pytest.mark.parametrize(
    "message",
    [
        {"method": "tools/call", "params": BIG, "jsonrpc": "2.0", "id": "seven"},
        {"jsonrpc": "2.0", "id": "seven", "method": "tools/call", "params": BIG},
        {"params": BIG, "id": "seven", "method": "tools/call"},
    ],
)
def test_the_id_of_a_request_is_found_wherever_it_stands(message: dict[str, Any]) -> None:
    assert ends(message) == Outline(id="seven", is_call=True, is_answer=False)


@given(message_id=IDS, before=st.booleans())
def test_any_usable_id_is_found(message_id: float | str, before: bool) -> None:
    message = {"id": message_id, "result": BIG} if before else {"result": BIG, "id": message_id}
    assert ends(message).id == message_id


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1,"params":{},"id":2}',  # two ids
        b'{"id":null,"result":{}}',
        b'{"id":true,"result":{}}',
        b'{"params":{"id":7}}',  # not the message's own
        b'{"result":{"a":{"id":7}}}',
        b'["id",7]',
        b'"id":7}',
        b'log: {"id":7}',
        b'{"a":"\\"id\\":7}',
        b'{"id":1,"method":"a"}{"id":2,"method":"b"}',
        b"",
    ],
)
def test_an_id_that_is_not_certain_is_none(text: bytes) -> None:
    assert ends(text).id is None


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_any_bytes_have_an_outline(head: bytes, tail: bytes) -> None:
    outline_of_text(b"{" + head, tail + b"}")


def test_hostile_ends_are_looked_at_quickly() -> None:
    started = time.perf_counter()
    for piece in (b',"a":', b'{"a":1,', b'"\\', b',"id":7', b"{", b"}", b' ,"' + b"\\" * 9):
        text = (b"{" + piece * EDGE)[: EDGE - 1]
        outline_of_text(text, text[1:] + b"}")
    assert time.perf_counter() - started < 0.5


def test_of_a_message_that_was_read_two_ids_are_certain_only_for_an_answer() -> None:
    assert [one.id for one in outlines_of_value({"id": 2, "method": "a"}, {"id"})] == [None]
    assert [one.id for one in outlines_of_value({"id": 2, "method": "a"}, {"method"})] == [2]
    assert [one.id for one in outlines_of_value({"id": 2, "result": {}}, {"id"})] == [2]


def test_a_batch_has_the_outlines_of_what_can_be_answered() -> None:
    batch: list[Any] = [{"id": 1, "method": "a"}, {"method": "b"}, 5, {"id": 2, "result": {}}]
    assert outlines_of_value(batch) == [
        Outline(id=1, is_call=True, is_answer=False),
        Outline(id=2, is_call=False, is_answer=True),
    ]
    assert outlines_of_value([5]) == [Outline(id=None, is_call=False, is_answer=False)]


@given(
    st.integers() | st.text(max_size=200), st.sampled_from(["method", "result", "error"]), st.booleans(), st.booleans()
)
def test_the_quick_look_sees_the_same_in_messages_of_the_usual_writers(
    message_id: int | str | float, kind: str, id_first: bool, spaced: bool
) -> None:
    body: dict[str, Any] = (
        {kind: "tools/call", "params": {"id": 5, "x": ['"id":9}']}} if kind == "method" else {kind: BIG}
    )
    envelope: dict[str, Any] = {"jsonrpc": "2.0", "id": message_id}
    message = {**envelope, **body} if id_first else {**body, **envelope}
    text = json.dumps(message, separators=None if spaced else (",", ":")).encode()
    quick = quick_id(text)
    if quick is not None:
        assert Outline(json.loads(quick[0]), quick[1], not quick[1]) == outlines_of_value(message)[0]
    elif isinstance(message_id, int):
        assert abs(message_id) >= 10**18


@pytest.mark.parametrize("line", [b"", b"no JSON", b"[]", b"{}", b'{"jsonrpc":"2.0","id":1', b'{"method":"x"}'])
def test_the_quick_look_takes_nothing_for_what_it_is_not(line: bytes) -> None:
    assert quick_id(line) is None
