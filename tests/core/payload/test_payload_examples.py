"""The examples of the module's own documentation, in a chain."""

from __future__ import annotations

from typing import Any

import pytest

from midspan_sdk import Chain, mutator, validator
from midspan_sdk.payload import edit_text, find_text, fold, replace_spans

pytestmark = pytest.mark.anyio


@mutator(events=["*"], phase="both", errors=True)
def hide_codename(payload: dict[str, Any]) -> dict[str, Any] | None:
    return edit_text(payload, lambda text: text.value.replace("BLUEBIRD", "[codename]"))


@validator(events=["tools/call"], phase="request")
def no_codename(payload: dict[str, Any]) -> str | None:
    return next((f"codename in {text.path}" for text in find_text(payload) if "BLUEBIRD" in text.value), None)


async def test_the_mutator_edits_and_says_when_it_did_not():
    chain = Chain()
    chain.add(hide_codename)
    payload = {"content": [{"type": "text", "text": '{"project": "BLUEBIRD", "n": 1.0}'}]}
    result = await chain.execute(event="tools/call", phase="response", payload=payload)
    assert result.final_payload == {"content": [{"type": "text", "text": '{"project": "[codename]", "n": 1.0}'}]}
    quiet = {"content": [{"type": "text", "text": "nothing"}]}
    assert (await chain.execute(event="tools/call", phase="response", payload=quiet)).final_payload is quiet


async def test_the_validator_names_the_place():
    chain = Chain()
    chain.add(no_codename)
    payload = {"name": "t", "arguments": {"q": "about BLUEBIRD"}}
    result = await chain.execute(event="tools/call", phase="request", payload=payload)
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "codename in $.arguments.q"


async def test_no_edit_of_editable_text_is_refused_as_a_change_of_a_protected_part():
    payload = {
        "name": "BLUEBIRD",
        "cursor": "BLUEBIRD",
        "requestState": "BLUEBIRD",
        "_meta": {"progressToken": "BLUEBIRD", "io.modelcontextprotocol/x": "BLUEBIRD", "com.example/y": "BLUEBIRD"},
        "arguments": {"BLUEBIRD": "BLUEBIRD"},
    }
    chain = Chain()
    chain.add(hide_codename)
    result = await chain.execute(event="tools/call", phase="request", direction="receiving", payload=payload)
    assert result.status == "success"
    assert result.final_payload is not None
    assert result.final_payload["arguments"] == {"[codename]": "[codename]"}
    assert result.final_payload["_meta"]["com.example/y"] == "[codename]"
    assert result.final_payload["name"] == "BLUEBIRD"


def test_a_folded_finding_is_replaced_in_the_original():
    text = "the ＢＬＵＥ\u200bBIRD café"
    folded = fold(text)
    start = folded.text.index("BLUEBIRD")
    assert replace_spans(text, [(*folded.original_span(start, start + 8), "[codename]")]) == "the [codename] café"
