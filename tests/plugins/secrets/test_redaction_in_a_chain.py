"""The plugin in a chain: where it acts, what it reports, and what it denies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midspan_sdk import ChainExecutionResult, DecisionRecord, Exchange
from midspan_sdk.events import INITIALIZE, SERVER_DISCOVER
from midspan_sdk.wire import Direction, Phase
from tests.plugins.secrets.corpus import MAKERS, Maker
from tests.plugins.secrets.harness import chain_of, guard

pytestmark = pytest.mark.anyio

TOKEN = MAKERS["github-token"][0](Maker("chain"))
JWT = Maker("chain").jwt()
GONE = "[REDACTED:github-token]"


def payload_of(result: ChainExecutionResult) -> dict[str, Any]:
    assert result.status == "success", result.aborted_at
    assert result.final_payload is not None
    return result.final_payload


@pytest.mark.parametrize(
    ("event", "phase"),
    [
        ("tools/call", "request"),
        ("tools/call", "response"),
        ("tools/list", "response"),
        ("prompts/get", "response"),
        ("resources/read", "response"),
        ("sampling/createMessage", "request"),
        ("elicitation/create", "response"),
        ("completion/complete", "response"),
        ("notifications/message", "request"),
        ("notifications/progress", "request"),
        ("custom/method", "request"),
        (INITIALIZE, "request"),
        (INITIALIZE, "response"),
        (SERVER_DISCOVER, "response"),
    ],
)
@pytest.mark.parametrize("direction", ["sending", "receiving"])
async def test_every_event_is_covered_both_ways(event: str, phase: Phase, direction: Direction):
    result = await guard({"x": {"y": f"a {TOKEN} b"}}, event=event, phase=phase, direction=direction)
    assert payload_of(result) == {"x": {"y": f"a {GONE} b"}}


async def test_errors_are_covered_and_keep_their_code():
    payload = {"error": {"code": -32000, "message": f"bad token {TOKEN}", "data": {"sent": [TOKEN]}}}
    result = await guard(payload, error=True)
    assert payload_of(result) == {"error": {"code": -32000, "message": f"bad token {GONE}", "data": {"sent": [GONE]}}}


async def test_a_message_without_a_secret_is_the_very_same_object():
    payload = {"content": [{"type": "text", "text": "nothing here"}], "structuredContent": {"n": 1.0}}
    result = await guard(payload)
    assert result.final_payload is payload
    assert not result.modified


async def test_equal_input_gives_equal_output():
    payload = {"name": "t", "arguments": {"a": TOKEN, TOKEN: TOKEN}}
    first = payload_of(await guard(payload, phase="request"))
    second = payload_of(await guard(payload, phase="request"))
    assert json.dumps(first) == json.dumps(second)


async def test_a_secret_as_key_loses_no_value():
    other = MAKERS["github-token"][0](Maker("another"))
    result = await guard({"arguments": {"a": 0, TOKEN: 1, other: 2, "z": 3}}, phase="request")
    assert payload_of(result) == {"arguments": {"a": 0, GONE: 1, f"{GONE} (2)": 2, "z": 3}}
    assert list(payload_of(result)["arguments"]) == ["a", GONE, f"{GONE} (2)", "z"]


async def test_the_report_names_kind_path_and_count_and_no_value():
    payload = {
        "content": [{"type": "text", "text": f"{TOKEN} {TOKEN} {JWT}"}],
        "structuredContent": {TOKEN: {"deep": JWT}},
    }
    result = await guard(payload)
    (mutation,) = (one for one in result.results if one.type == "mutation")
    info = mutation.to_wire()["info"]
    assert info == {
        "redacted": [
            {"kind": "github-token", "path": "$.content[0].text", "count": 2},
            {"kind": "jwt", "path": "$.content[0].text", "count": 1},
            {"kind": "github-token", "path": "$.structuredContent", "count": 1},
            {"kind": "jwt", "path": f"$.structuredContent['{GONE}'].deep", "count": 1},
        ],
        "total": 5,
    }


async def test_a_report_of_very_many_secrets_is_bounded():
    result = await guard({"structuredContent": {"rows": [TOKEN] * 1000}})
    (mutation,) = (one for one in result.results if one.type == "mutation")
    info = mutation.to_wire()["info"]
    assert len(info["redacted"]) == 100
    assert info["total"] == 1000


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"name": TOKEN, "arguments": {}}, "$.name"),
        ({"uri": f"https://example.test/?t={TOKEN}"}, "$.uri"),
        ({"ref": {"type": "ref/prompt", "name": TOKEN}}, "$.ref.name"),
        ({"taskId": TOKEN}, "$.taskId"),
        ({"cursor": TOKEN}, "$.cursor"),
        ({"_meta": {"progressToken": TOKEN}}, "$._meta.progressToken"),
        ({"_meta": {"io.modelcontextprotocol/x": [TOKEN]}}, "$._meta['io.modelcontextprotocol/x'][0]"),
    ],
)
@pytest.mark.parametrize("direction", ["sending", "receiving"])
async def test_a_secret_that_cannot_be_redacted_is_denied(payload: dict[str, Any], path: str, direction: Direction):
    result = await guard(payload, event="resources/read", phase="request", direction=direction)
    assert result.status == "validation_failed"
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == "secrets.protected"
    assert "github-token" in result.aborted_at.reason
    assert path in result.aborted_at.reason
    assert TOKEN not in json.dumps([one.to_wire() for one in result.results if one.type == "validation"])


async def test_a_denial_does_not_repeat_a_secret_that_is_a_key():
    result = await guard({"ref": {TOKEN: TOKEN}}, phase="request")
    assert result.aborted_at is not None
    assert TOKEN not in result.aborted_at.reason


async def test_what_a_server_signed_for_itself_passes():
    payload: dict[str, Any] = {"cursor": JWT, "requestState": JWT, "arguments": {}}
    result = await guard(payload, phase="request")
    assert result.final_payload is payload


async def test_the_target_of_a_call_with_a_secret_in_its_arguments_stays():
    payload = {"name": "write", "arguments": {"q": TOKEN}, "_meta": {"progressToken": 7}}
    result = await guard(payload, phase="request", direction="receiving")
    assert payload_of(result) == {"name": "write", "arguments": {"q": GONE}, "_meta": {"progressToken": 7}}


async def test_a_config_given_with_the_message_counts():
    chain = chain_of()
    result = await chain.execute(
        event="tools/call",
        phase="response",
        payload={"text": f"{TOKEN} {JWT}"},
        config={"secrets.redact": {"detect": ["jwt"]}},
        exchange=Exchange(),
    )
    assert payload_of(result) == {"text": f"{TOKEN} [REDACTED:jwt]"}


async def test_a_payload_of_some_depth_passes_through_the_chain():
    deep: Any = TOKEN
    for _ in range(400):
        deep = {"k": deep}
    inner: Any = payload_of(await guard({"arguments": deep}, phase="request"))["arguments"]
    for _ in range(400):
        inner = inner["k"]
    assert inner == GONE


async def test_five_megabytes_stay_within_the_deadline():
    row = {"id": 1, "name": "a user", "note": "some words that say nothing at all", "ratio": 1.5}
    payload = {"structuredContent": {"rows": [row] * 30_000, "last": TOKEN}, "content": [{"text": "words " * 500_000}]}
    result = await guard(payload)
    assert payload_of(result)["structuredContent"]["last"] == GONE


async def test_a_decision_record_holds_no_secret():
    records: list[DecisionRecord] = []

    class Recorder:
        name = "recorder"
        durable = True

        async def observe(self, record: DecisionRecord) -> None:
            records.append(record)

    chain = chain_of(observers=[Recorder()])
    for name in ("write", TOKEN):
        await chain.execute(event="tools/call", phase="request", payload={"name": name, "arguments": {"a": TOKEN}})
    assert [record.blocked for record in records] == [False, True]
    assert records[0].changed == ("$.arguments.a",)
    assert TOKEN not in repr([(record.reason, record.entries, record.changed) for record in records])
