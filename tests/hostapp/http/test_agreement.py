"""Headers that repeat what a message says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan.http._agreement import DisagreementError, check, decode, encode, follow


def message(method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_what_is_encoded_is_decoded_to_the_same(value: str) -> None:
    encoded = encode(value)
    assert decode(encoded) == value
    assert encoded.isascii()
    assert not set(encoded) & {0, 10, 13}


def test_a_lone_surrogate_cannot_stand_in_a_header() -> None:
    with pytest.raises(DisagreementError, match="lone surrogate"):
        encode("\ud800")


@pytest.mark.parametrize(
    "value", [b"=?base64?YQ=?=", b"=?base64?YR==?=", b"=?base64?/w==?=", b"\xff", b"=?base64?Y Q==?="]
)
def test_what_two_readers_could_read_differently_is_not_decoded(value: bytes) -> None:
    assert decode(value) is None


@pytest.mark.parametrize(
    ("said", "value", "agrees"),
    [
        (b"eu", "eu", True),
        (b"EU", "eu", False),
        (b"true", True, True),
        (b"1", True, False),
        (b"42", 42, True),
        (b"42.0", 42, True),
        (b"42", 42.0, True),
        (b"042", 42, True),
        (b"42.5", 42, False),
        (b"1152921504606846977", 1152921504606846977, True),
        (b"1152921504606846976", 1152921504606846977, False),
        (b"42", "42", True),
        (b"=?base64?ZXU=?=", "eu", True),
    ],
)
def test_a_param_header_agrees_by_value(said: bytes, value: Any, agrees: bool) -> None:
    headers = [(b"mcp-param-x", said)]
    for arguments in ({"x": value}, {"a": {"b": value}}):
        if agrees:
            check(headers, message(name="n", arguments=arguments))
        else:
            with pytest.raises(DisagreementError, match="mcp-param-x"):
                check(headers, message(name="n", arguments=arguments))


def test_values_in_lists_are_never_repeated_in_headers() -> None:
    with pytest.raises(DisagreementError):
        check([(b"mcp-param-x", b"a")], message(name="n", arguments={"x": ["a"]}))


def test_headers_that_are_missing_are_for_the_server_to_judge() -> None:
    check([], message(name="n", arguments={"x": 1}))


@pytest.mark.parametrize(
    ("method", "key"), [("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")]
)
def test_the_name_header_repeats_the_target(method: str, key: str) -> None:
    headers = [(b"mcp-name", b"n")]
    check(headers, message(method, **{key: "n"}))
    with pytest.raises(DisagreementError):
        check(headers, message(method, **{key: "m"}))
    assert follow(headers, message(method, **{key: "n"}), message(method, **{key: "\u00fc"})) == [
        (b"mcp-name", b"=?base64?w7w=?=")
    ]


def test_an_answer_has_no_method_to_repeat() -> None:
    with pytest.raises(DisagreementError):
        check([(b"mcp-method", b"tools/call")], {"jsonrpc": "2.0", "id": 1, "result": {}})


def test_the_argument_of_the_headers_name_is_followed_before_others_of_the_same_value() -> None:
    before = message(name="n", arguments={"region": "x", "other": "x"})
    after = message(name="n", arguments={"region": "y", "other": "x"})
    assert follow([(b"mcp-param-region", b"x")], before, after) == [(b"mcp-param-region", b"y")]


def test_a_header_whose_argument_did_not_change_keeps_its_bytes() -> None:
    both = message(name="n", arguments={"x": 42})
    assert follow([(b"mcp-param-x", b"42.0")], both, both) == [(b"mcp-param-x", b"42.0")]
