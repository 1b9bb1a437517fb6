"""The exposed methods line by line: what is answered, what the server gets to see, what its answers become."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan.errors import OperatorError
from midspan.exposing import MAX_INVOCATIONS, ExposingJudge, Exposure
from midspan.gateway import Gateway
from midspan_sdk import Answer, Chain, DecisionRecord, Interceptor, mutator, validator
from tests.hostapp.exposing import guard
from tests.hostapp.exposing.samples import INITIALIZE, KEY, META, SAID, SETTINGS, Stuck
from tests.hostapp.relay.harness import Link, judge_of, notification, open_link, regimes_of, request, result, send

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"event": "tools/call", "phase": "request"}
DESCRIPTION = {
    "name": "no-removal",
    "description": "Deny removal.",
    "type": "validation",
    "hooks": [{"events": ["tools/call"], "phase": "request"}],
}


def exposing(chain: Chain) -> ExposingJudge:
    return ExposingJudge(judge_of(chain), regimes_of(chain, exposure=Exposure(chain)))


@asynccontextmanager
async def exposed(log: Path, *interceptors: Interceptor[..., Any], **chain: Any) -> AsyncGenerator[Link]:
    """Run the gateway with these interceptors exposed."""
    made = Chain(**chain)
    made.add(*interceptors)
    async with made, open_link(log, judge=exposing(made)) as link:
        yield link


# The methods


async def test_a_listing_and_an_invocation_are_answered_and_the_server_sees_neither(log: Path) -> None:
    async with exposed(log, guard.no_removal) as link:
        assert await link.call("a", "interceptors/list") == {
            "jsonrpc": "2.0",
            "id": "a",
            "result": {"interceptors": [DESCRIPTION]},
        }
        answer = await link.call(2, "interceptor/invoke", {"name": "no-removal", **CALL, "payload": {"name": "remove"}})
        assert answer["result"].pop("durationMs") >= 0
        assert answer == {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {
                "interceptor": "no-removal",
                "type": "validation",
                "phase": "request",
                "valid": False,
                "severity": "error",
                "messages": [{"message": "no removal", "severity": "error"}],
            },
        }
        await link.works()
        assert [message["method"] for message in link.seen_messages()] == ["ping"]


async def test_in_the_stateless_era_results_name_their_type_and_a_listing_says_how_long_it_is_good(log: Path) -> None:
    async with exposed(log, guard.no_removal) as link:
        listed = (await link.call(1, "interceptors/list", META))["result"]
        assert listed == {
            "interceptors": [DESCRIPTION],
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        }
        params = {"name": "no-removal", **CALL, "payload": {"name": "echo"}, **META}
        invoked = (await link.call(2, "interceptor/invoke", params))["result"]
        assert invoked["resultType"] == "complete"
        assert "ttlMs" not in invoked


async def test_the_filter_and_the_order_are_those_of_the_protocol(log: Path) -> None:
    async with exposed(log, guard.stamp, guard.no_removal, guard.remembers) as link:

        async def named(**params: Any) -> list[str]:
            listed = await link.call(1, "interceptors/list", params)
            return [one["name"] for one in listed["result"]["interceptors"]]

        assert await named() == ["stamp", "no-removal", "remembers"]
        assert await named(event="tools/call") == ["stamp", "no-removal"]
        assert await named(event="tools/list") == ["stamp"]
        assert await named(event="*/get") == ["stamp", "remembers"]
        assert await named(event="custom/operation") == []


async def test_they_are_listed_as_the_chain_runs_them(log: Path) -> None:
    chain = Chain()
    policy = {"mode": "audit", "fail_open": True, "priority_hint": {"request": 9}, "timeout_ms": 20}
    hooks = [{"events": ["tools/call"], "phase": "request"}]
    chain.add(guard.stamp, overrides={"stamp": {**policy, "hooks": hooks}})
    async with chain, open_link(log, judge=exposing(chain)) as link:
        (listed,) = (await link.call(1, "interceptors/list"))["result"]["interceptors"]
        assert listed == {
            "name": "stamp",
            "description": "Leave a mark.",
            "type": "mutation",
            "hooks": hooks,
            "mode": "audit",
            "failOpen": True,
            "priorityHint": {"request": 9},
        }
        answer = await link.call(2, "interceptor/invoke", {"name": "stamp", **CALL, "phase": "response", "payload": {}})
        assert answer["error"]["data"]["reason"] == "is not hooked to the response phase of this event"


@validator(events=["tools/call"], phase="request")
def crashing(payload: dict[str, Any]) -> None:
    raise RuntimeError(f"/etc/{payload['password']}")


@validator(events=["tools/call"], phase="request", timeout=0.02)
async def slow(payload: dict[str, Any]) -> None:
    await anyio.sleep_forever()


INVALID = "Invalid interceptor invocation"


@pytest.mark.parametrize(
    ("params", "code", "text", "data"),
    [
        ({"name": "nobody"}, -32602, "Unknown interceptor", {"interceptor": "nobody"}),
        (
            {"name": "crashing", "payload": [1]},
            -32602,
            INVALID,
            {"interceptor": "crashing", "reason": "the payload must be a JSON object"},
        ),
        (
            {"name": "crashing", "config": {"a": 1}},
            -32602,
            INVALID,
            {"interceptor": "crashing", "reason": "takes no config"},
        ),
        ({}, -32602, INVALID, {"interceptor": "", "reason": "name must be the name of an interceptor"}),
        (
            {"name": "slow"},
            -32000,
            "Interceptor execution timeout",
            {"interceptor": "slow", "timeoutMs": 20, "phase": "request"},
        ),
        (
            {"name": "crashing", "payload": {"password": "hunter2"}},
            -32603,
            "Interceptor execution failed",
            {"interceptor": "crashing", "reason": "the validator raised RuntimeError"},
        ),
    ],
)
async def test_each_fault_is_answered_with_its_row_of_the_table(
    log: Path, params: dict[str, Any], code: int, text: str, data: dict[str, Any]
) -> None:
    async with exposed(log, crashing, slow) as link:
        answer = await link.call(1, "interceptor/invoke", {**CALL, "payload": {}, **params})
        assert answer == {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": text, "data": data}}
        await link.works()


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"interceptors/list","params":{"event":7}}', -32602, "event must be a"),
        (b'{"jsonrpc":"2.0","id":1,"method":"interceptors/list","params":{"cursor":"x"}}', -32602, "no such cursor"),
        (b'{"jsonrpc":"2.0","id":1,"method":"interceptors/list","params":[]}', -32602, "params must be an object"),
        (b'{"jsonrpc":"2.0","id":1,"method":"interceptor/invoke","params":{"a":{"b":1,"b":2}}}', -32600, "duplicate"),
        (b'{"jsonrpc":"2.0","id":1,"method":"interceptor/invoke","params":{"a":NaN}}', -32600, "NaN"),
        (b'{"jsonrpc":"2.0","id":1,"method":"interceptors/list","method":"ping"}', -32600, "duplicate"),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","\\u006dethod":"interceptors/list"}', -32600, "duplicate"),
        (b'{"jsonrpc":"2.0","id":1,"Method":"interceptors/list","method":"ping"}', -32600, "letter case"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"interceptors/list"}]', -32600, "batches"),
        (b'{"jsonrpc":"2.0","id":1,\r"method":"interceptors/list"}', -32600, "carriage return"),
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused_and_reaches_nobody(
    log: Path, line: bytes, code: int, words: str
) -> None:
    async with exposed(log, guard.no_removal) as link:
        await link.send(line)
        error = (await link.read())["error"]
        assert error["code"] == code
        assert words in json.dumps(error)
        await link.works()
        assert len(link.seen()) == 1


async def test_a_method_in_escapes_is_the_same_method(log: Path) -> None:
    async with exposed(log, guard.no_removal) as link:
        await link.send(b'{"jsonrpc":"2.0","id":1,"method":"\\u0069\\u006eterceptors\\u002flist"}')
        assert (await link.read())["result"]["interceptors"] == [DESCRIPTION]
        await link.works()
        assert len(link.seen()) == 1


async def test_a_notification_of_these_methods_is_dropped(log: Path) -> None:
    async with exposed(log, guard.no_removal) as link:
        await link.send(notification("interceptors/list"), notification("interceptor/invoke", {"name": "no-removal"}))
        await link.works()
        assert len(link.seen()) == 1


async def test_what_the_server_asks_by_these_methods_passes_to_the_client(log: Path) -> None:
    async with exposed(log, guard.no_removal) as link:
        asked = await link.call(1, "x", {}, send(request(9, "interceptors/list")))
        assert asked == {"jsonrpc": "2.0", "id": 9, "method": "interceptors/list"}


async def test_neither_method_is_intercepted_or_recorded(log: Path) -> None:
    class Kept:
        name = "kept"
        durable = True

        def __init__(self) -> None:
            self.events: list[str] = []

        async def observe(self, record: DecisionRecord) -> None:
            self.events.append(record.event)

    @validator(events=["*"], phase="both")
    def nothing(payload: dict[str, Any]) -> bool:
        return False

    kept = Kept()
    async with exposed(log, nothing, observers=[kept]) as link:
        assert "result" in await link.call(1, "interceptors/list")
        assert "result" in await link.call(2, "interceptor/invoke", {"name": "nothing", **CALL, "payload": {}})
        assert "error" in await link.call(3, "prompts/get", {"name": "x"})
    assert kept.events == ["prompts/get"]


async def test_state_that_guards_traffic_is_not_touched_by_invocations(log: Path) -> None:
    @validator(events=["tools/call"], phase="request")
    async def counts(payload: dict[str, Any], session_state: dict[str, Any], store: Any, context: Any) -> str | None:
        session_state["calls"] = session_state.get("calls", 0) + 1
        kept = (await store.get("calls") or 0) + 1
        await store.set("calls", kept)
        return f"{context.session_id} {session_state['calls']} {kept}" if payload["name"] == "tell" else None

    async with exposed(log, counts) as link:
        denied = await link.call(1, "tools/call", {"name": "tell"})
        assert denied["result"]["isError"]
        params = {"name": "counts", **CALL, "payload": {"name": "tell"}, "context": {"sessionId": "any"}}
        said = [(await link.call(2, "interceptor/invoke", params))["result"]["messages"][0]["message"] for _ in "12"]
        assert said == ["any 1 1", "any 2 2"]


# Many, and their end


async def test_invocations_run_side_by_side_and_a_cancelled_one_ends_without_an_answer(log: Path) -> None:
    stuck = Stuck()
    async with exposed(log, stuck.interceptor, guard.no_removal) as link:
        await link.send(request(1, "interceptor/invoke", {"name": "stuck", **CALL, "payload": {}}))
        await stuck.asked.wait()
        answer = await link.call(2, "interceptor/invoke", {"name": "no-removal", **CALL, "payload": {"name": "x"}})
        assert answer["id"] == 2
        await link.send(notification("notifications/cancelled", {"requestId": 1}))
        await stuck.cancelled.wait()
        await link.works()
        # The id is free again, and a cancellation of what runs nowhere is the server's to know.
        assert (await link.call(1, "interceptors/list"))["id"] == 1
        await link.send(notification("notifications/cancelled", {"requestId": 1}))
        await link.works()
        assert [message["method"] for message in link.seen_messages()] == ["ping", "notifications/cancelled", "ping"]


async def test_an_invocation_and_its_cancellation_in_one_piece_leave_nothing_behind(log: Path) -> None:
    stuck = Stuck()
    invoke = request(1, "interceptor/invoke", {"name": "stuck", **CALL, "payload": {}})
    async with exposed(log, stuck.interceptor) as link:
        await link.send(invoke, notification("notifications/cancelled", {"requestId": 1}), invoke)
        await stuck.asked.wait()
        stuck.may_end.set()
        assert (await link.read())["id"] == 1
        await link.works()
        assert len(link.seen()) == 1


async def test_an_id_that_is_under_way_is_refused(log: Path) -> None:
    stuck = Stuck()
    invoke = request(1, "interceptor/invoke", {"name": "stuck", **CALL, "payload": {}})
    async with exposed(log, stuck.interceptor) as link:
        await link.send(invoke, invoke)
        assert "already in use" in (await link.read())["error"]["message"]
        stuck.may_end.set()
        assert "result" in await link.read()


async def test_a_bounded_number_runs_at_once_and_all_are_answered(log: Path) -> None:
    stuck = Stuck()
    count = MAX_INVOCATIONS + 20
    async with exposed(log, stuck.interceptor) as link:
        params: dict[str, Any] = {"name": "stuck", **CALL, "payload": {}}
        await link.send(*(request(number, "interceptor/invoke", params) for number in range(count)))
        await stuck.full.wait()
        await link.works()
        stuck.may_end.set()
        answers = [await link.read() for _ in range(count)]
    assert {answer["id"] for answer in answers if "result" in answer} == set(range(count))
    assert stuck.most == MAX_INVOCATIONS


# The capability


async def test_a_handshake_gets_the_capability_in_both_places_and_nothing_else_changes(log: Path) -> None:
    async with exposed(log, guard.no_removal) as link:
        answer = await link.call(1, "initialize", INITIALIZE, send(result(1, SAID)))
        both = {"experimental": {"other": {"x": None}, KEY: SETTINGS}, "extensions": {KEY: SETTINGS}}
        assert answer["result"] == {**SAID, "capabilities": {**SAID["capabilities"], **both}}
        assert list(answer["result"]) == list(SAID)


async def test_a_discovery_gets_the_capability_among_the_extensions(log: Path) -> None:
    said: dict[str, Any] = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"extensions": {"a/b": {}}},
        "resultType": "complete",
    }
    async with exposed(log, guard.no_removal) as link:
        for message_id in ("a", "b"):
            answer = await link.call(message_id, "server/discover", META, send(result(message_id, said)))
            assert answer["result"] == {**said, "capabilities": {"extensions": {"a/b": {}, KEY: SETTINGS}}}


async def test_the_gateways_own_take_the_place_of_the_servers(log: Path) -> None:
    theirs = {KEY: {"supportedEvents": ["prompts/get"], "context": ["request"]}}
    capabilities = {"extensions": theirs, "experimental": theirs, "interceptor": {"supportedEvents": ["prompts/get"]}}
    async with exposed(log, guard.no_removal) as link:
        said = {**SAID, "capabilities": capabilities}
        answer = await link.call(1, "initialize", INITIALIZE, send(result(1, said)))
        own = {KEY: SETTINGS}
        assert answer["result"]["capabilities"] == {"extensions": own, "experimental": own}
        discovered = await link.call(2, "server/discover", META, send(result(2, said)))
        assert discovered["result"]["capabilities"] == {"extensions": own, "experimental": own}


async def test_only_the_answer_to_an_introduction_gets_it(log: Path) -> None:
    async with exposed(log, guard.no_removal) as link:
        said = result(1, SAID)
        await link.call(1, "initialize", INITIALIZE, send(said))
        await link.send(request(1, "x", {}, send(said)))
        assert await link.receive() == said
        await link.send(request(2, "initialize", INITIALIZE, send(result(2, "capabilities"))))
        assert await link.receive() == result(2, "capabilities")
        error = b'{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no capabilities"}}'
        await link.send(request(3, "initialize", INITIALIZE, send(error)))
        assert await link.receive() == error


async def test_an_answer_that_cannot_be_written_again_passes_as_it_came(log: Path) -> None:
    odd = b'{"jsonrpc":"2.0","id":1,"result":{"capabilities":{},"x":1e999}}'
    async with exposed(log, guard.no_removal) as link:
        await link.send(request(1, "initialize", INITIALIZE, send(odd)))
        assert await link.receive() == odd


async def test_interceptors_of_the_handshake_see_the_servers_own_words_and_theirs_are_completed(log: Path) -> None:
    seen: list[Any] = []

    @mutator(events=["initialize"], phase="response", name="hello")
    async def hello(payload: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        seen.append(payload["capabilities"])
        return {**payload, "instructions": "be kind"}

    async with exposed(log, hello) as link:
        answer = await link.call(1, "initialize", INITIALIZE, send(result(1, SAID)))
        assert answer["result"]["instructions"] == "be kind"
        assert KEY in answer["result"]["capabilities"]["extensions"]
        assert seen == [SAID["capabilities"]]


async def test_an_introduction_that_an_interceptor_answers_tells_of_them_too(log: Path) -> None:
    @mutator(events=["server/discover"], phase="request", name="stands-in")
    async def stands_in(payload: dict[str, Any]) -> Answer:
        await asyncio.sleep(0)
        return Answer({"supportedVersions": ["2026-07-28"], "capabilities": {}})

    async with exposed(log, stands_in) as link:
        answer = await link.call(1, "server/discover", META)
        assert answer["result"]["capabilities"] == {"extensions": {KEY: {"supportedEvents": ["server/discover"]}}}
        assert link.seen() == []


# What cannot be exposed


def test_without_a_chain_there_is_nothing_to_expose() -> None:
    with pytest.raises(OperatorError, match="give a chain too"):
        Gateway(["server"], expose_interceptors=True)


async def test_an_interceptor_that_cannot_be_served_stops_the_start() -> None:
    @validator(events=["tools/call"], phase="request")
    def looks_up(payload: dict[str, Any], tools: Any) -> None: ...

    chain = Chain(gives=["tools"])
    chain.add(looks_up)
    with pytest.raises(OperatorError, match="expose_interceptors: interceptor 'looks_up': needs"):
        await Gateway(["server"], chain, expose_interceptors=True).__aenter__()
    with pytest.raises(OperatorError, match="expose_interceptors: interceptor 'looks_up': needs"):
        await Gateway(["server"], chain, expose_interceptors=True).run_stdio((0, 1))


async def test_a_chain_without_interceptors_lists_none(log: Path) -> None:
    async with exposed(log) as link:
        assert (await link.call(1, "interceptors/list"))["result"] == {"interceptors": []}
        answer = await link.call(2, "initialize", INITIALIZE, send(result(2, SAID)))
        assert answer["result"]["capabilities"]["extensions"] == {KEY: {"supportedEvents": []}}
