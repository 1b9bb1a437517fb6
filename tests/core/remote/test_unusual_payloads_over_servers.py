"""Payloads that transports like to lose, change, or die of; and parts that no server may see."""

from __future__ import annotations

import json
import logging
from copy import deepcopy
from typing import Any

import anyio
import pytest
from remote_ways import Fill, call, fill_locally

from midspan_sdk import Chain, ChainExecutionResult, Exchange, FailedResult, InvocationContext

pytestmark = pytest.mark.anyio

PAYLOADS: dict[str, dict[str, Any]] = {
    "empty": {},
    "nulls": {"a": None, "b": {"c": None, "d": [None, {"e": None}]}, "": None},
    "numbers": {"n": [2**60 + 1, -(2**63), 2**70, 1, 1.0, -0.0, 0.1, 1e300, 5e-324, True, False]},
    "text": {"t": "é 中 😀 \u2028 \u0000 \x7f \ufffe", "😀": "\U0010ffff", "quoted": '"\\/\b\f\n\r\t'},
    "order": {"z": 1, "a": {"y": 1, "b": 2, "x": 3}, "10": 1, "9": 2, "m": []},
    "unknown keys": {"name": "echo", "jsonrpc": "1.0", "id": 7, "method": "x", "params": {}, "result": [], "error": {}},
    "meta": {"_meta": {"progressToken": "7", "vendor/x": None, "io.modelcontextprotocol/clientInfo": {"name": "me"}}},
    "stamps": {"resultType": "complete", "_meta": {}, "ttlMs": -1, "cacheScope": "odd"},
    "deep": json.loads('{"d":' * 150 + "[]" + "}" * 150),
    "line breaks": {"text": "a\nb\r\nc\u0085d\u2029e"},
}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan")


async def over(chain: Chain, payload: dict[str, Any], *names: str, **options: Any) -> ChainExecutionResult:
    return await call(chain, payload=payload, interceptors=names, **options)


def info_of(result: ChainExecutionResult, position: int = 0) -> dict[str, Any]:
    one = result.results[position]
    assert not isinstance(one, FailedResult), one.error
    assert one.info is not None
    return one.info


@pytest.mark.parametrize("name", PAYLOADS)
async def test_a_payload_arrives_and_comes_back_as_it_is(fill: Fill, name: str) -> None:
    payload = PAYLOADS[name]
    before = json.dumps(payload)
    with anyio.fail_after(20):
        async with Chain() as chain:
            await fill(chain)
            seen = await over(chain, payload, "v_sees")
            equal = await over(chain, payload, "m_none", "m_equal")
            added = await over(chain, payload, "m_adds", "v_sees")
    assert json.dumps(info_of(seen)["saw"]) == before
    assert seen.final_payload is payload
    assert equal.final_payload is payload
    assert json.dumps(added.final_payload) == json.dumps({**payload, "added": {"by": "m_adds", "nothing": None}})
    assert json.dumps(info_of(added, 1)["saw"]) == json.dumps(added.final_payload)
    assert json.dumps(payload) == before


async def test_five_megabytes_pass_both_ways(fill: Fill) -> None:
    payload = {"name": "echo", "arguments": {"blob": "QUJD" * (5 * 2**18), "text": "é" * 1000}}
    with anyio.fail_after(30):
        async with Chain() as chain:
            await fill(chain)
            result = await over(chain, payload, "m_adds", "v_none", "v_edits")
    assert result.status == "success"
    assert result.final_payload == {**payload, "added": {"by": "m_adds", "nothing": None}}


async def test_a_result_that_is_too_large_fails_its_entry(fill: Fill) -> None:
    payload = {"blob": "x" * 2000}
    async with Chain(max_payload_bytes=1000) as chain:
        await fill(chain)
        assert (await over(chain, payload, "m_none", "v_none")).status == "success"
        result = await over(chain, payload, "m_adds")
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "the result is too large"


async def test_what_a_handler_does_to_its_copy_stays_there(fill: Fill) -> None:
    payload = {"name": "echo", "arguments": {"text": "x", "list": [1]}}
    before = deepcopy(payload)
    async with Chain() as chain:
        await fill(chain)
        result = await over(chain, payload, "v_edits", "m_edits_and_forgets", "v_sees", direction="receiving")
    assert result.status == "mutation_failed"
    assert info_of(result)["saw"] == before
    assert payload == before


SURROGATES: dict[str, dict[str, Any]] = {
    "a value": {"payload": {"text": "a\ud800"}},
    "a key": {"payload": {"deep": [{"\udfff": 1}]}},
    "a config": {"payload": {}, "config": {"v_none": {"x": "\ud800"}, "m_none": {"x": "\ud800"}}},
    "a context": {"payload": {}, "context": InvocationContext(session_id="\ud800")},
    "a request": {"payload": {}, "phase": "response", "exchange": "\ud800"},
    "too deep": {"payload": json.loads('{"d":' * 250 + "{}" + "}" * 250)},
    "too long an integer": {"payload": {"n": 10**5000}},
}


@pytest.mark.parametrize("fill", ["auto", "legacy", "stdio"], indirect=True, scope="module")
@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("kind", ["v_none", "m_adds"])
async def test_what_cannot_be_sent_fails_its_entry_and_leaves_the_connection_alone(
    fill: Fill, kind: str, name: str
) -> None:
    options: dict[str, Any] = {"direction": "sending", **SURROGATES[name]}
    if "exchange" in options:
        exchange = Exchange()
        exchange.keep_request({"text": options["exchange"]})
        options["exchange"] = exchange
    if "config" in options:
        options["config"] = {kind: {"x": "\ud800"}}
    with anyio.fail_after(20):
        async with Chain() as chain:
            await fill(chain)
            result = await over(chain, options.pop("payload"), kind, "v_sees", **options)
            again = await over(chain, {"name": "echo"}, kind, "v_sees")
    failed = next(one for one in result.results if one.interceptor == kind)
    assert isinstance(failed, FailedResult)
    assert failed.error["code"] == -32602
    assert failed.error["data"]["reason"].startswith("the invocation ")
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == kind
    assert again.status == "success"


async def test_what_cannot_be_sent_passes_an_entry_that_fails_open(fill: Fill) -> None:
    payload = {"text": "\ud800"}
    async with Chain() as chain:
        await fill(chain, overrides={"v_none": {"failOpen": True}, "m_none": {"mode": "audit"}})
        result = await over(chain, payload, "v_none", "m_none")
    assert result.final_payload is payload


@pytest.mark.parametrize("phase", ["request", "response"])
async def test_the_state_of_a_request_reaches_no_server_and_survives(fill: Fill, phase: str) -> None:
    secret = "opaque-é-1"
    payload = {"a": 1, "requestState": secret, "name": "echo"}
    exchange = Exchange()
    exchange.keep_request({"requestState": secret, "name": "asked"})
    async with Chain() as chain:
        await fill(chain)
        result = await over(chain, payload, "m_adds", "v_sees", "v_request", phase=phase, exchange=exchange)
        kept = await over(chain, payload, "m_none", phase="request")
        stolen = await over(chain, {**payload, "set": {"requestState": "mine"}}, "m_sets", phase=phase)
        guessed = await over(chain, {"a": 1, "set": {"requestState": "mine"}}, "m_sets", phase=phase)
    assert result.final_payload == {**payload, "added": {"by": "m_adds", "nothing": None}}
    assert kept.final_payload is payload
    for failed in (stolen, guessed):
        assert failed.aborted_at is not None
        assert failed.aborted_at.reason == "changed the protected part $.requestState"
    if fill is not fill_locally:
        seen = json.dumps([one.info for one in result.results if not isinstance(one, FailedResult)])
        assert "asked" in seen or phase == "request"
        assert secret not in seen
        assert "requestState" not in seen
