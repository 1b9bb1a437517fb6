"""Rounds of 2026-07-28, message by message: what is sealed, for whom, and what the server sees of it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from midspan import Gateway
from midspan.errors import OperatorError
from midspan.interception import Asking, ChainJudge, ConnectionContext, Regime, Regimes
from midspan_sdk import Ask, Chain, Interceptor, Principal, validator
from tests.hostapp.http.wire import Answer, guarded, result, stateless
from tests.hostapp.relay.harness import Link, Step, open_link, program, request, send

pytestmark = pytest.mark.anyio

KEY = "a secret that all replicas have, of some length"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
CALL = "tools/call"
ODD = '\ud83d \u2028"\\/ {"v":1.0}'


@validator(events=[CALL, "resources/read"], phase="request")
async def sure(ask: Ask) -> str | None:
    return None if await ask("Sure?") else "no"


@validator(events=["prompts/get"], phase="request")
async def prompts(ask: Ask) -> str | None:
    return None if await ask("Sure?") else "no"


def params(**more: Any) -> dict[str, Any]:
    return {"name": "go", "arguments": {"n": 1}, "_meta": META, **more}


def judge(
    *interceptors: Interceptor[..., Any], asking: Asking | None = None, user: str = "tester", server: str = "raw"
) -> ChainJudge:
    chain = Chain(gives=("ask",))
    chain.add(*(interceptors or (sure,)))
    context = ConnectionContext(server=server, principal=Principal(type="user", id=user), flow="test")
    return ChainJudge(Regimes(Regime(chain, asking=asking)), context)


@asynccontextmanager
async def linked(log: Path, *interceptors: Interceptor[..., Any], **options: Any) -> AsyncGenerator[Link]:
    async with open_link(log, judge=judge(*interceptors, **options)) as link:
        yield link


async def asked(link: Link, **more: Any) -> tuple[str, str]:
    """Call; return the key of the gateway's question, and the sealed state."""
    answer = await link.call(1, CALL, params(**more))
    assert answer["result"]["resultType"] == "input_required"
    ((key, asks),) = answer["result"]["inputRequests"].items()
    assert asks == {
        "method": "elicitation/create",
        "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    return key, answer["result"]["requestState"]


def saying(key: str, state: str, action: str = "accept", **more: Any) -> dict[str, Any]:
    return params(inputResponses={key: {"action": action}}, requestState=state, **more)


def doing(given: dict[str, Any], *steps: Step) -> dict[str, Any]:
    """Return parameters that tell the raw server what to do; in `_meta`, which may differ from round to round."""
    return {**given, "_meta": {**META, "do": program(*steps)}}


def seen_params(link: Link) -> list[Any]:
    """What the server got, without the script of the raw server."""
    return [message["params"] for message in link.seen_messages()]


async def test_the_server_sees_nothing_of_the_round(log: Path) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
        assert link.seen() == []
        assert await link.call(2, CALL, saying(key, state)) == {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert seen_params(link) == [params()]


@pytest.mark.parametrize("given", [None, "accepted"], ids=["nothing", "no object"])
async def test_without_an_answer_it_is_asked_again(log: Path, given: Any) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
        more = {} if given is None else {"inputResponses": given}
        assert (await asked(link, requestState=state, **more))[0] == key
        assert link.seen() == []


async def test_answers_to_what_was_not_asked_count_for_nothing(log: Path) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
        assert (await asked(link, inputResponses={key: {"action": "accept"}}))[0] == key
        assert (await asked(link, requestState=state, inputResponses={"x": {"action": "accept"}}))[0] == key
        assert link.seen() == []


@pytest.mark.parametrize("answer", [5, {}, {"action": "yes"}, {"action": "accept", "content": []}])
async def test_what_is_no_answer_is_refused(log: Path, answer: Any) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
        refused = await link.call(2, CALL, params(requestState=state, inputResponses={key: answer}))
        assert refused["error"]["code"] == -32602
        assert link.seen() == []


def flipped(state: str, place: int) -> str:
    return state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :]


async def test_a_state_that_was_changed_is_refused_and_nothing_runs(log: Path) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
        changed = [flipped(state, place) for place in range(10, len(state), 37)]
        for each in [*changed, state[:-1], state + "A", state[:10], state[:14], state + "\ud800", state + "="]:
            refused = await link.call(2, CALL, saying(key, each))
            assert refused["error"]["code"] == -32602
            assert "requestState does not belong to this request" in refused["error"]["message"]
        assert link.seen() == []


@pytest.mark.parametrize(
    "other",
    [{"name": "other"}, {"arguments": {"n": 2}}, {"arguments": {"n": 1.0}}, {"new": None}],
    ids=["tool", "argument", "number", "parameter"],
)
async def test_a_state_is_good_for_its_very_request_only(log: Path, other: dict[str, Any]) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
        refused = await link.call(2, CALL, {**saying(key, state), **other})
        assert refused["error"]["code"] == -32602
        assert link.seen() == []


async def test_a_state_is_not_good_for_another_method(log: Path) -> None:
    async with linked(log, sure, prompts) as link:
        key, state = await asked(link)
        assert (await link.call(2, "prompts/get", saying(key, state)))["error"]["code"] == -32602
        assert link.seen() == []


async def test_the_progress_token_may_differ_from_round_to_round(log: Path) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
        again = saying(key, state) | {"_meta": {**META, "progressToken": 7}}
        assert (await link.call(2, CALL, again))["result"] == {}


@pytest.mark.parametrize(
    ("options", "code"),
    [({}, None), ({"user": "somebody else"}, -32602), ({"server": "another"}, -32602)],
    ids=["the same", "user", "server"],
)
async def test_replicas_with_one_key_go_on_with_each_others_rounds(
    log: Path, options: dict[str, Any], code: int | None
) -> None:
    async with linked(log, asking=Asking(key=KEY)) as link:
        key, state = await asked(link)
    async with linked(log, asking=Asking(key=KEY), **options) as link:
        answer = await link.call(2, CALL, saying(key, state))
    assert answer.get("error", {}).get("code") == code


async def test_a_process_with_another_key_does_not(log: Path) -> None:
    async with linked(log) as link:
        key, state = await asked(link)
    async with linked(log) as link:
        assert (await link.call(2, CALL, saying(key, state)))["error"]["code"] == -32602


async def test_the_time_to_answer_ends(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(log, asking=Asking(timeout=60)) as link:
        key, state = await asked(link)
        now = time.time
        monkeypatch.setattr("time.time", lambda: now() + 61)
        refused = await link.call(2, CALL, saying(key, state))
        assert refused["error"]["code"] == -32602
        assert "the time to answer is over" in refused["error"]["message"]
        assert link.seen() == []


async def test_what_is_sealed_cannot_be_read(log: Path) -> None:
    async with linked(log) as link:
        key, state = await asked(link, requestState="the server's own")
        assert key not in state
        assert "server" not in state


# With the server's own rounds


def interim(message_id: object, state: Any = ODD, **more: Any) -> bytes:
    """A server's result that asks something; without a state when that is `...`."""
    asks: dict[str, Any] = {"name": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}}
    own = {} if state is ... else {"requestState": state}
    return result(message_id, {"resultType": "input_required", "inputRequests": asks, **own, **more})


@pytest.mark.parametrize("state", [ODD, "", None, ..., "midspan.1.x"], ids=["odd", "empty", "null", "none", "like"])
async def test_the_server_gets_its_own_state_back_while_an_answer_is_remembered(log: Path, state: Any) -> None:
    async with linked(log) as link:
        key, sealed = await asked(link)
        answer = await link.call(2, CALL, doing(saying(key, sealed), send(interim(2, state, future=1))))
        wrapped = answer["result"]["requestState"]
        assert wrapped.startswith("midspan.1.")
        assert {k: v for k, v in answer["result"].items() if k != "requestState"} == json.loads(
            interim(2, ..., future=1)
        )["result"]
        theirs = {"name": {"action": "accept", "content": {"x": 1.0}}}
        assert (await link.call(3, CALL, params(requestState=wrapped, inputResponses=theirs)))["result"] == {}
        own = {} if state is ... else {"requestState": state}
        assert seen_params(link)[-1] == params(inputResponses=theirs, **own)


async def test_without_answers_to_remember_a_server_s_state_passes_byte_for_byte(log: Path) -> None:
    @validator(events=[CALL], phase="request")
    async def asks_nothing(ask: Ask) -> None: ...

    line = b'{"result": {"requestState":"\\u0041 ","resultType":"input_required","n":1.0},  "id":1,"jsonrpc":"2.0"}'
    async with linked(log, asks_nothing) as link:
        await link.send(request(1, CALL, doing(params(), send(line))))
        assert await link.receive() == line
        assert (await link.call(2, CALL, params(requestState="A ", inputResponses={})))["result"] == {}
        assert seen_params(link)[-1] == params(requestState="A ", inputResponses={})


async def test_a_state_of_a_gateway_behind_this_one_is_not_taken_for_its_own(log: Path) -> None:
    @validator(events=[CALL], phase="request")
    async def asks_nothing(ask: Ask) -> None: ...

    async with linked(log, asks_nothing) as link:
        answer = await link.call(1, CALL, doing(params(), send(interim(1, "midspan.1.theirs"))))
        wrapped = answer["result"]["requestState"]
        assert wrapped != "midspan.1.theirs"
        await link.call(2, CALL, params(requestState=wrapped, inputResponses={"name": 1}))
        assert seen_params(link)[-1] == params(requestState="midspan.1.theirs", inputResponses={"name": 1})


async def test_where_nobody_asks_such_a_state_passes(log: Path) -> None:
    @validator(events=["*"], phase="both")
    def looks() -> None: ...

    async with linked(log, looks) as link:
        answer = await link.call(1, CALL, doing(params(requestState="midspan.1.x"), send(interim(1, "midspan.1.y"))))
        assert answer["result"]["requestState"] == "midspan.1.y"
        assert seen_params(link)[-1]["requestState"] == "midspan.1.x"


async def test_what_the_client_said_to_the_server_waits_for_the_gateway_s_question(log: Path) -> None:
    theirs = {"name": {"action": "accept", "content": {"x": ODD}}, "empty": {}}
    async with linked(log) as link:
        key, sealed = await asked(link, requestState=ODD, inputResponses=theirs)
        assert (await link.call(2, CALL, saying(key, sealed)))["result"] == {}
        assert seen_params(link) == [params(requestState=ODD, inputResponses=theirs)]


async def test_a_declined_question_is_not_asked_again_in_a_later_round(log: Path) -> None:
    @validator(events=[CALL], phase="request")
    async def asks(ask: Ask) -> None:
        await ask("Sure?")

    async with linked(log, asks) as link:
        key, sealed = await asked(link)
        answer = await link.call(2, CALL, doing(saying(key, sealed, "decline"), send(interim(2))))
        wrapped = answer["result"]["requestState"]
        assert (await link.call(3, CALL, params(requestState=wrapped, inputResponses={})))["result"] == {}


async def test_what_is_too_large_to_be_carried_is_an_error(log: Path) -> None:
    async with linked(log) as link:
        refused = await link.call(1, CALL, params(inputResponses={"x": "y" * 2**20}))
        assert refused["error"]["code"] == -32603
        assert link.seen() == []


@pytest.mark.parametrize(
    ("capabilities", "asks"),
    [
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": True}, False),
        ({}, False),
        (None, False),
    ],
)
async def test_only_a_client_that_takes_forms_is_asked(log: Path, capabilities: Any, asks: bool) -> None:
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    async with linked(log) as link:
        answer = await link.call(1, CALL, params() | {"_meta": meta})
        assert (answer["result"].get("resultType") == "input_required") is asks
        assert ("the client cannot ask its user" in str(answer)) is not asks


# Over HTTP


async def test_over_http_a_round_is_bound_to_the_bearer() -> None:
    async def server(answer: Answer) -> None:
        await answer.send(result(answer.request.json()["id"], {"done": True}))

    def call(**more: Any) -> bytes:
        body = {"jsonrpc": "2.0", "id": 1, "method": CALL, "params": params(**more)}
        return json.dumps(body).encode()

    fields = [*stateless(CALL, "go"), ("authorization", "Bearer one")]
    others = [*stateless(CALL, "go"), ("authorization", "Bearer two")]
    async with guarded(server, sure) as link:
        first = (await link.post(call(), fields)).json()["result"]
        (key,) = first["inputRequests"]
        again = json.dumps({"jsonrpc": "2.0", "id": 2, "method": CALL, "params": saying(key, first["requestState"])})
        assert (await link.post(again.encode(), others)).json()["error"]["code"] == -32602
        assert link.seen == []
        assert (await link.post(again.encode(), fields)).json() == {"jsonrpc": "2.0", "id": 2, "result": {"done": True}}
        assert link.seen[0].json()["params"] == params()


# Settings


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ask_timeout": 0}, "ask_timeout is a positive number of seconds, not 0"),
        ({"ask_timeout": float("inf")}, "ask_timeout is a positive number of seconds, not inf"),
        ({"state_key": "short"}, "has fewer than 32 letters"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(OperatorError, match=told):
        Gateway(["server"], Chain(), **options)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSPAN_STATE_KEY", "short")
    with pytest.raises(OperatorError, match="MIDSPAN_STATE_KEY"):
        Gateway(["server"], Chain())
    Gateway(["server"], Chain(), state_key=KEY)
    Gateway(["server"])
