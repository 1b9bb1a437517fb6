"""Envelopes: what a message is, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from midspan.relay import JSONFaultError, classify


@pytest.mark.parametrize(
    ("message", "kind", "message_id"),
    [
        ({"id": 1, "method": "a"}, "request", 1),
        ({"id": 1.5, "method": "a", "params": {}}, "request", 1.5),
        ({"id": "", "method": "", "future": 1}, "request", ""),
        ({"method": "a"}, "notification", None),
        ({"id": "x", "result": None}, "result", "x"),
        ({"id": 0, "error": {}}, "error", 0),
        ({"id": None, "error": {}}, "error", None),
        ({"error": {}}, "error", None),
    ],
)
def test_a_message_is_what_its_keys_say(message: dict[str, Any], kind: str, message_id: object) -> None:
    read = classify(message)
    assert (read.kind, read.id) == (kind, message_id)
    assert read.envelope is message


@pytest.mark.parametrize(
    "message",
    [
        [],
        [{"id": 1, "method": "a"}],
        "text",
        None,
        {},
        {"id": 1},
        {"id": None, "method": "a"},
        {"id": True, "method": "a"},
        {"id": {}, "method": "a"},
        {"id": [1], "result": {}},
        {"result": {}},
        {"id": 1, "method": 5},
        {"id": 1, "method": "a", "result": {}},
        {"id": 1, "method": "a", "error": None},
        {"id": 1, "result": {}, "error": {}},
        {"id": 1, "method": "ping", "Method": "tools/call"},
        {"id": 1, "method": "tools/call", "PARAMS": {}},
        {"id": 1, "method": "tools/call", "param\u017f": {}},  # a long s, which folds to s
        {"ID": 1, "method": "a"},
    ],
)
def test_what_is_none_is_refused(message: Any) -> None:
    with pytest.raises(JSONFaultError):
        classify(message)


@pytest.mark.parametrize("params", [None, [], [1], "x", 5, True])
def test_a_payload_is_an_object(params: Any) -> None:
    with pytest.raises(JSONFaultError, match="params must be an object"):
        classify({"method": "a", "params": params}).payload()
    with pytest.raises(JSONFaultError, match="result must be an object"):
        classify({"id": 1, "result": params}).payload()
    with pytest.raises(JSONFaultError, match="error must be an object"):
        classify({"id": 1, "error": params}).payload()


@pytest.mark.parametrize(
    "params", [{"Name": "x"}, {"name": "a", "NAME": "b"}, {"Arguments": {}}, {"\u212aey": 1, "URI": ""}]
)
def test_an_operand_in_other_letters_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(JSONFaultError, match="letter case"):
        classify({"id": 1, "method": "tools/call", "params": params}).payload()


def test_other_keys_may_be_spelt_as_they_like() -> None:
    params = {"name": "x", "arguments": {"Name": 1, "name": 2}, "Cursor": 1, "N": 1, "n": 2}
    assert classify({"id": 1, "method": "tools/call", "params": params}).payload() is params
    assert classify({"id": 1, "result": {"Name": 1}}).payload() == {"Name": 1}


def test_another_payload_leaves_the_rest_of_the_envelope_alone() -> None:
    message = classify({"future": 1, "id": 1, "method": "a", "params": {"old": 1}, "more": 2})
    assert list(message.with_payload({"new": 1}).items()) == [
        ("future", 1), ("id", 1), ("method", "a"), ("params", {"new": 1}), ("more", 2),
    ]  # fmt: skip
    assert classify({"id": 1, "method": "a"}).with_payload({}) == {"id": 1, "method": "a"}
    assert classify({"id": 1, "method": "a"}).with_payload({"b": 1}) == {"id": 1, "method": "a", "params": {"b": 1}}


def test_an_error_stays_an_error() -> None:
    message = classify({"id": 1, "error": {"code": 5, "message": "x"}})
    assert message.payload() == {"error": {"code": 5, "message": "x"}}
    assert message.with_payload({"error": {"code": 5}}) == {"id": 1, "error": {"code": 5}}
    payloads: list[dict[str, Any]] = [{}, {"error": None}, {"result": {}}]
    for payload in payloads:
        with pytest.raises(TypeError):
            message.with_payload(payload)
