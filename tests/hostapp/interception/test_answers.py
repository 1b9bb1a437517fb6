"""Answers: who may give one, to what, and what an interceptor that answers itself has to bear."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from midspan.interception import ANSWER_KEY, VERDICT_KEY
from midspan_sdk import Answer, InvocationContext, mutator, validator
from tests.hostapp.relay.harness import guarded, notification, request, result, send

pytestmark = pytest.mark.anyio
STATELESS = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


@validator(events=["*"], phase="both", errors=True)
def watch(payload: dict[str, Any]) -> None: ...


@mutator(events=["tools/call", "tools/list"], phase="request")
def cached(payload: dict[str, Any]) -> Answer:
    return Answer({"content": [{"type": "text", "text": "from the cache"}]})


async def test_an_interceptors_answer_goes_back_and_the_server_never_hears_of_the_call(log: Path) -> None:
    async with guarded(log, cached) as link:
        answer = await link.call(1, "tools/call", {"name": "x"})
        await link.works()
        assert len(link.seen()) == 1
    assert answer["id"] == 1
    assert answer["result"]["content"] == [{"type": "text", "text": "from the cache"}]
    provenance = answer["result"]["_meta"][ANSWER_KEY]
    assert provenance["by"] == "cached"
    assert provenance["decisionId"]
    assert "resultType" not in answer["result"]


async def test_in_the_stateless_era_an_answer_has_what_its_envelope_requires(log: Path) -> None:
    async with guarded(log, cached) as link:
        answer = await link.call(1, "tools/call", {"name": "x", **STATELESS})
        assert answer["result"]["resultType"] == "complete"
        answer = await link.call(2, "tools/list", STATELESS)
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["cacheScope"] == "private"
        assert answer["result"]["ttlMs"] == 0


@pytest.mark.parametrize("slow", [False, True])
async def test_an_interceptors_answer_passes_the_response_phase(log: Path, slow: bool) -> None:
    @mutator(events=["tools/call"], phase="response")
    async def shout(payload: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        if slow:
            await asyncio.sleep(0)
        return {**payload, "asked": request["name"]}

    async with guarded(log, cached, shout) as link:
        answer = await link.call(1, "tools/call", {"name": "x"})
        assert answer["result"]["asked"] == "x"
        await link.works()


async def test_an_interceptors_answer_can_be_denied_and_then_nothing_ran(log: Path) -> None:
    @validator(events=["tools/call"], phase="response")
    def no(payload: dict[str, Any]) -> bool:
        return False

    async with guarded(log, cached, no) as link:
        answer = await link.call(1, "tools/call", {"name": "x"})
        assert answer["result"]["isError"] is True
        assert answer["result"]["_meta"][VERDICT_KEY]["ran"] is False
        assert "from the cache" not in json.dumps(answer)


async def test_a_request_id_in_use_is_refused_and_the_first_request_lives_on(log: Path) -> None:
    async with guarded(log, watch) as link:
        await link.send(request(1, "go", None, send(notification("ready")), ("read", 1), send(result(1, {"first": 1}))))
        assert (await link.read())["method"] == "ready"
        refusal = await link.call(1, "tools/call", {"name": "x"})
        assert (refusal["id"], refusal["error"]["code"]) == (1, -32600)
        await link.send(request(2, "n"))
        assert await link.read() == {"jsonrpc": "2.0", "id": 1, "result": {"first": 1}}
        # Answered, the id is free.
        assert (await link.call(1, "again"))["result"] == {}
        assert [message["method"] for message in link.seen_messages()] == ["go", "n", "again"]


async def test_a_request_id_in_use_is_refused_while_the_first_is_judged(log: Path) -> None:
    may_end = asyncio.Event()

    @validator(events=["slow"], phase="request")
    async def slow(payload: dict[str, Any]) -> None:
        await may_end.wait()

    async with guarded(log, slow) as link:
        await link.send(request(1, "slow"), request(1, "ping"), request(1.0, "ping"), request("1", "ping"))
        answers = [await link.read() for _ in range(3)]
        assert [("error" in answer, answer["id"]) for answer in answers] == [(True, 1), (True, 1.0), (False, "1")]
        may_end.set()
        assert (await link.read())["id"] == 1


async def test_answers_that_nobody_asked_for_are_dropped_on_both_sides(log: Path) -> None:
    strays = [result(99, {}), result("1", {}), b'{"id":99,"error":{"code":1,"message":"x"}}']
    async with guarded(log, watch) as link:
        await link.send(*strays)
        answer = await link.call(1, "go", None, send(*strays, result(1, {"n": 1}), result(1, {"n": 2})))
        assert answer["result"] == {"n": 1}
        await link.works()
        assert [message["method"] for message in link.seen_messages()] == ["go", "ping"]


async def test_an_answer_to_a_request_that_is_still_judged_is_dropped(log: Path) -> None:
    may_end = asyncio.Event()

    @validator(events=["slow"], phase="request")
    async def slow(payload: dict[str, Any]) -> None:
        await may_end.wait()

    async with guarded(log, slow, watch) as link:
        await link.send(request(1, "slow"), request(2, "go", None, send(result(1, {"guessed": True}), result(2, {}))))
        assert (await link.read())["id"] == 2
        may_end.set()
        assert await link.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_an_id_may_come_back_spelt_as_another_number(log: Path) -> None:
    async with guarded(log, watch) as link:
        answer = await link.call(1.0, "go", None, send('{"id":1,"result":{}}'))
        assert answer == {"id": 1, "result": {}}


async def test_handlers_learn_the_version_that_was_negotiated_and_that_of_each_stateless_request(log: Path) -> None:
    versions: list[str | None] = []

    @validator(events=["custom"], phase="both")
    def note(payload: dict[str, Any], context: InvocationContext) -> None:
        versions.append(context.protocol_version)

    async with guarded(log, note) as link:
        await link.call(1, "custom")
        await link.call(2, "initialize", None, send(result(2, {"protocolVersion": "2025-06-18"})))
        await link.call(3, "custom")
        await link.call(4, "custom", STATELESS)
    assert versions == [None, None, "2025-06-18", "2025-06-18", "2026-07-28", "2026-07-28"]


async def test_handlers_learn_who_and_where(log: Path) -> None:
    contexts: list[InvocationContext] = []

    @validator(events=["custom"], phase="request")
    def note(payload: dict[str, Any], context: InvocationContext) -> None:
        contexts.append(context)

    trace = {"_meta": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
    async with guarded(log, note) as link:
        await link.call(1, "custom", trace)
        await link.call(2, "custom")
    first, second = contexts
    assert (first.trace_id, first.span_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert second.trace_id is None
    assert first.principal is not None
    assert (first.principal.id, first.server, first.flow) == ("tester", "raw", "test")
    assert first.session_id is not None
    assert first.session_id == second.session_id


async def test_late_answers_are_judged_after_the_clients_last_word_too(log: Path) -> None:
    @mutator(events=["go"], phase="response")
    async def redact(payload: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {**payload, "key": "***"}

    late = [send(result(1, {"key": "p4ssw0rd"})), ("exit", 3)]
    async with guarded(log, redact, at_end=late) as link:
        await link.send(request(1, "go", None, ("read", 0)))
        assert await link.finish() == 3
        assert [json.loads(line)["result"] for line in await link.rest()] == [{"key": "***"}]
