"""What hostile and large payloads cost. The bounds are far above what is needed, and far below what a square costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from midspan_sdk.payload import edit_text, find_text, fold

MIB = 1 << 20


def repeated(unit: str) -> str:
    return unit * (MIB // len(unit))


def seconds(call: Callable[[], object]) -> float:
    started = process_time()
    call()
    return process_time() - started


@pytest.mark.parametrize(
    "text",
    [
        repeated("a\u0315\u0300"),
        "a" + repeated("\u0315\u0300"),
        repeated("\u200b"),
        repeated("ﷺ"),
        repeated("Ａ\u0301"),
    ],
    ids=["marks", "one letter with all the marks", "invisible", "expanding", "full width"],
)
def test_folding_hostile_text_is_linear(text: str):
    assert seconds(lambda: fold(text)) < 3


@pytest.mark.parametrize(
    "text",
    [
        repeated("data:"),
        repeated("data:;base64,"),
        "data:;base64," + repeated("A") + "_",
        repeated('{"'),
        "[" + repeated('"\\"') + "]",
        "[" * MIB + "]",
        "[" + repeated("[],") + "[]]",
        "{" + repeated('"":"",') + '"":""}',
        json.dumps([json.dumps([json.dumps([repeated("x")])])]),
    ],
    ids=["data", "base64", "one URI", "braces", "escapes", "open", "empty", "same keys", "nested"],
)
def test_walking_hostile_text_is_linear(text: str):
    payload = {"content": [{"type": "text", "text": text}]}
    assert seconds(lambda: find_text(payload)) < 3
    assert seconds(lambda: edit_text(payload, lambda text: "y" if text.part == "key" else None)) < 3


def test_a_hundred_thousand_keys_that_become_one_are_no_square():
    payload: dict[str, Any] = {"arguments": {f"secret-{index}": index for index in range(100_000)}}
    edited = edit_text(payload, lambda text: "x" if text.value.startswith("secret") else None)
    assert edited is not None
    assert list(edited["arguments"].values()) == list(range(100_000))
    assert seconds(lambda: edit_text(payload, lambda text: "x" if text.value.startswith("secret") else None)) < 3
