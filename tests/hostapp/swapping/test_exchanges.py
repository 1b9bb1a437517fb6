"""An exchange stays under the chain that it began under, and that chain is over when its last exchange is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from midspan import Gateway
from midspan.errors import OperatorError
from midspan.interception import Denials
from midspan_sdk import Answer, Ask, Chain, DecisionRecord, Interceptor, ToolCatalog, mutator, sink, validator
from tests.hostapp.embedding.sample import Pipes, pipes_to
from tests.hostapp.relay.harness import b64, notification, request, result, send, server_command

from .succession import CALL, Succession, chain_of, signing, succession

pytestmark = pytest.mark.anyio

STATELESS: dict[str, Any] = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
FORMS: dict[str, Any] = {"elicitation": {}}


class Talk:
    """A raw client of a gateway in front of the raw server."""

    def __init__(self, pipes: Pipes, chains: Succession, log: Path) -> None:
        self.pipes = pipes
        self.chains = chains
        self._log = log

    def say(self, *lines: bytes) -> None:
        self.pipes.say(*lines)

    async def read(self) -> dict[str, Any]:
        return json.loads(await self.pipes.hear())

    async def call(self, message_id: object, *steps: Any, method: str = CALL, **params: Any) -> dict[str, Any]:
        self.say(request(message_id, method, {"name": "go", **params}, *steps))
        return await self.read()

    async def open(self, message_id: object, method: str = CALL, **params: Any) -> None:
        """Send a request that the server does not answer by itself, and wait until it is there."""
        self.say(request(message_id, method, {"name": "go", **params}, ("read", 0)))
        assert (await self.call(f"after {message_id}", method="settled"))["id"] == f"after {message_id}"

    def seen(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]

    def lines(self) -> list[bytes]:
        return self._log.read_bytes().split(b"\n")[:-1]


@asynccontextmanager
async def talking(log: Path, chain: Chain, at_start: Sequence[Any] = (), **options: Any) -> AsyncGenerator[Talk]:
    command = server_command(log, at_start=at_start)
    async with succession(command, chain, **options) as chains, pipes_to(chains.gateway) as pipes:
        yield Talk(pipes, chains, log)


# One exchange, one chain


async def test_a_hanging_request_keeps_the_old_chain_and_others_do_not_wait_for_it(log: Path) -> None:
    async with talking(log, chain_of(*signing(1))) as talk:
        await talk.open(1)
        retired = await talk.chains.swap(chain_of(*signing(2)))
        assert await talk.call(2) == {"jsonrpc": "2.0", "id": 2, "result": {"asked": 2, "signed": 2}}
        assert (retired.over, retired.under_way) == (False, 1)
        assert await talk.call(3, send(result(1, {})), send(result(3, {}))) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"asked": 1, "signed": 1},
        }
        assert (await talk.read())["result"] == {"asked": 2, "signed": 2}
        await retired.wait()
        assert (retired.over, retired.under_way) == (True, 0)
        await talk.chains.drained()


async def test_a_chain_that_nothing_uses_is_over_at_once(log: Path) -> None:
    async with talking(log, chain_of(*signing(1))) as talk:
        await talk.call(1)
        assert (await talk.chains.swap(chain_of(*signing(2)))).over


async def test_a_request_under_judgement_keeps_the_old_chain_through_both_phases(log: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @validator(events=[CALL], phase="both", name="slow")
    async def slow(payload: dict[str, Any]) -> None:
        begun.set()
        await go_on.wait()

    async with talking(log, chain_of(*signing(1), slow)) as talk:
        talk.say(request(1, CALL, {"name": "go"}))
        await begun.wait()
        retired = await talk.chains.swap(chain_of(*signing(2)))
        assert (await talk.call(2))["result"] == {"asked": 2, "signed": 2}
        go_on.set()
        assert (await talk.read())["result"] == {"asked": 1, "signed": 1}
        await retired.wait()


async def test_from_none_to_a_chain_and_back_while_calls_are_open(log: Path) -> None:
    async with talking(log, Chain()) as talk:
        await talk.open(1)
        await talk.chains.swap(chain_of(*signing(2)))
        assert await talk.call(2, send(result(1, {}), result(2, {}))) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert (await talk.read())["result"] == {"asked": 2, "signed": 2}
        await talk.open(3)
        await talk.chains.swap(Chain())
        odd = b'{"id":4,  "result":{"\\u0061":1e1},"jsonrpc":"2.0"}'
        talk.say(request(4, CALL, {}, send(result(3, {})), send(odd)))
        assert (await talk.read())["result"] == {"asked": 2, "signed": 2}
        assert await talk.pipes.hear() == odd
        assert [message.get("params", {}).get("mark") for message in talk.seen() if message["id"] in (1, 2, 3, 4)] == [
            None,
            2,
            2,
            None,
        ]


async def test_several_chains_may_be_under_way_at_once(log: Path) -> None:
    async with talking(log, chain_of(*signing(1))) as talk:
        retired: list[Any] = []
        for number in range(2, 6):
            await talk.open(number - 1)
            retired.append(await talk.chains.swap(chain_of(*signing(number))))
        talk.say(request("all", "settled", {}, send(*(result(number, {}) for number in (3, 1, 4, 2)))))
        answers = [await talk.read() for _ in range(4)]
        assert {answer["id"]: answer["result"]["signed"] for answer in answers} == {1: 1, 2: 2, 3: 3, 4: 4}
        await talk.chains.drained()


async def test_a_server_s_request_stays_under_its_chain_too(log: Path) -> None:
    async with talking(log, chain_of(*signing(1))) as talk:
        question = await talk.call(1, send(request("s", "ping")), ("read", 1), send(result(1, {})))
        assert question == {"jsonrpc": "2.0", "id": "s", "method": "ping", "params": {"mark": 1}}
        retired = await talk.chains.swap(chain_of(*signing(2)))
        assert retired.under_way == 2
        talk.say(result("s", {}))
        assert (await talk.read())["result"] == {"asked": 1, "signed": 1}
        await retired.wait()
        assert talk.seen()[-1]["result"] == {"asked": 1, "signed": 1}


async def test_a_denial_has_the_form_that_was_in_force_when_its_request_came(log: Path) -> None:
    @validator(events=[CALL], phase="response", name="no")
    def no(payload: dict[str, Any]) -> str:
        return "no"

    async with talking(log, chain_of(no), denials=Denials(form="error")) as talk:
        await talk.open(1)
        await talk.chains.swap(chain_of(no), denials=Denials(form="result"))
        talk.say(request(2, CALL, {}, send(result(1, {}), result(2, {}))))
        assert "error" in await talk.read()
        assert (await talk.read())["result"]["isError"]
        await talk.chains.swap(chain_of(no))  # what is not said stays
        assert (await talk.call(3))["result"]["isError"]


async def test_what_a_chain_looked_away_from_stays_so_and_does_not_keep_it(log: Path) -> None:
    @validator(events=["subscriptions/listen"], phase="both", name="no")
    def no(payload: dict[str, Any]) -> str:
        return "no"

    async with talking(log, chain_of(*signing(1))) as talk:
        await talk.open(1, "subscriptions/listen")
        retired = await talk.chains.swap(chain_of(no, *signing(2)))
        assert retired.over
        assert await talk.call(2, send(result(1, {}), result(2, {}))) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert (await talk.read())["result"] == {"asked": 2, "signed": 2}
        assert "error" in await talk.call(3, method="subscriptions/listen")


async def test_notifications_meet_the_new_chain_at_once_and_keep_their_order(log: Path) -> None:
    begun, go_on, went_by = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @mutator(events=["notifications/*"], phase="request", name="slow")
    async def slow(payload: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        await go_on.wait()
        return {**payload, "mark": 1}

    @mutator(events=["notifications/*"], phase="request", name="quick")
    def quick(payload: dict[str, Any]) -> dict[str, Any]:
        went_by.set()
        return {**payload, "mark": 2}

    async with talking(log, chain_of(slow)) as talk:
        talk.say(notification("notifications/a"))
        await begun.wait()
        retired = await talk.chains.swap(chain_of(quick))
        assert retired.under_way == 1
        talk.say(notification("notifications/b"))
        await went_by.wait()
        await talk.chains.swap(Chain())
        talk.say(notification("notifications/c"))
        go_on.set()
        await retired.wait()
        await talk.call(1)
        assert [(one["method"][-1], one.get("params", {}).get("mark")) for one in talk.seen()[:3]] == [
            ("a", 1),
            ("b", 2),
            ("c", None),
        ]


async def test_an_answer_of_an_interceptor_s_own_is_its_chain_s_to_the_end(log: Path) -> None:
    go_on, begun = asyncio.Event(), asyncio.Event()

    @mutator(events=[CALL], phase="request", name="answers")
    async def answers(payload: dict[str, Any]) -> Answer:
        begun.set()
        await go_on.wait()
        return Answer({"content": []})

    async with talking(log, chain_of(answers, signing(1)[1])) as talk:
        talk.say(request(1, CALL, {"name": "go"}))
        await begun.wait()
        retired = await talk.chains.swap(chain_of(*signing(2)))
        go_on.set()
        assert (await talk.read())["result"]["signed"] == 1
        await retired.wait()


# Records, sinks, tools


async def test_the_old_chain_s_observer_and_sinks_get_what_is_theirs_before_it_is_left(log: Path) -> None:
    records: list[DecisionRecord] = []
    sunk: list[Any] = []
    may_sink = asyncio.Event()

    class Keeping:
        name = "keeping"
        durable = True

        async def observe(self, record: DecisionRecord) -> None:
            records.append(record)

    @sink(events=[CALL], phase="both", name="slow")
    async def slow(payload: dict[str, Any]) -> None:
        await may_sink.wait()
        sunk.append(payload)

    old = chain_of(*signing(1), slow, observers=[Keeping()])
    async with talking(log, old) as talk:
        await talk.open(1)
        retired = await talk.chains.swap(chain_of(*signing(2)))
        await talk.call(2, send(result(1, {}), result(2, {})))
        await retired.wait()
        assert sunk == []
        may_sink.set()
        await talk.chains.drained()
        assert len(sunk) == 2
        assert old.dropped == {"slow": 0}
        begun, ended = [record for record in records if record.event == CALL]
        assert (begun.phase, ended.phase) == ("request", "response")
        assert begun.exchange_id == ended.exchange_id


async def test_the_tools_that_an_earlier_chain_did_not_care_for_are_known_to_a_later_one(log: Path) -> None:
    known: list[list[str]] = []

    @validator(events=[CALL], phase="request", name="looks")
    def looks(tools: ToolCatalog) -> None:
        known.append(sorted(tools))

    async with talking(log, Chain()) as talk:
        listing = send(result(1, {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]}))
        await talk.call(1, listing, method="tools/list")
        await talk.chains.swap(chain_of(looks))
        await talk.call(2)
        assert known == [["go"]]


# Ends


async def test_a_client_that_hangs_up_lets_go_of_the_old_chain(log: Path) -> None:
    async with succession(server_command(log), chain_of(*signing(1))) as chains:
        async with pipes_to(chains.gateway) as pipes:
            talk = Talk(pipes, chains, log)
            await talk.open(1)
            retired = await chains.swap(chain_of(*signing(2)))
            assert retired.under_way == 1
        await retired.wait()


async def test_a_client_that_hangs_up_while_its_request_is_judged_lets_go_of_the_old_chain(log: Path) -> None:
    begun = asyncio.Event()

    @validator(events=[CALL], phase="request", name="hangs")
    async def hangs(payload: dict[str, Any]) -> None:
        begun.set()
        await asyncio.Event().wait()

    chain = Chain(timeout=3600)
    chain.add(hangs, overrides={"hangs": {"timeout_ms": 3_600_000}})
    async with succession(server_command(log), chain) as chains:
        async with pipes_to(chains.gateway) as pipes:
            pipes.say(request(1, CALL, {"name": "go"}))
            await begun.wait()
            retired = await chains.swap(chain_of(*signing(2)))
            assert retired.under_way == 1
            pipes.running.cancel()
            await asyncio.wait({pipes.running})
        await retired.wait()


async def test_a_server_that_ends_lets_go_of_the_old_chain(log: Path) -> None:
    async with talking(log, chain_of(*signing(1)), restart="always") as talk:
        await talk.open(1)
        retired = await talk.chains.swap(chain_of(*signing(2)))
        talk.say(request(2, "settled", {}, ("exit", 1)))
        assert {(await talk.read())["id"] for _ in range(2)} == {1, 2}
        await retired.wait()
        assert (await talk.call(3))["result"] == {"asked": 2, "signed": 2}


async def test_an_answer_that_is_too_long_ends_its_exchange(log: Path) -> None:
    async with talking(log, chain_of(*signing(1)), max_message=100_000) as talk:
        await talk.open(1)
        retired = await talk.chains.swap(chain_of(*signing(2)))
        too_long = ("long", b64('{"jsonrpc":"2.0","id":1,"result":{"x":"'), 200_000, b64('"}}\n'))
        refused = await talk.call(2, too_long, send(result(2, {})))
        assert refused["error"]["message"] == "midspan refused the answer: longer than the limit"
        await retired.wait()
        assert (await talk.read())["result"]["signed"] == 2


async def test_a_handler_that_fails_and_an_answer_that_cannot_be_read_end_their_exchanges(log: Path) -> None:
    @validator(events=[CALL], phase="response", name="fails")
    def fails(payload: dict[str, Any]) -> None:
        raise RuntimeError("on purpose")

    async with talking(log, chain_of(fails)) as talk:
        await talk.open(1)
        await talk.open(2)
        retired = await talk.chains.swap(chain_of(*signing(3)))
        assert retired.under_way == 2
        broken = b'{"jsonrpc":"2.0","id":2,"result":{"a":1,"a":2}}'
        assert (await talk.call(3, send(result(1, {})), send(broken), send(result(3, {}))))["id"] == 1
        assert (await talk.read())["error"]["message"].startswith("midspan refused the answer")
        await retired.wait()
        assert (await talk.read())["result"]["signed"] == 3


# Cancelling


async def test_a_request_that_is_cancelled_while_the_old_chain_judges_it_goes_no_further(log: Path) -> None:
    begun = asyncio.Event()

    @validator(events=[CALL], phase="request", name="hangs")
    async def hangs(payload: dict[str, Any]) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with talking(log, chain_of(hangs)) as talk:
        talk.say(request(1, CALL, {"name": "go"}))
        await begun.wait()
        retired = await talk.chains.swap(Chain())
        talk.say(notification("notifications/cancelled", {"requestId": 1}))
        await retired.wait()
        await talk.call(2)
        assert [message["id"] for message in talk.seen()] == [2]


async def test_a_cancelled_request_does_not_keep_its_chain_and_a_late_answer_meets_the_new_one(log: Path) -> None:
    async with talking(log, chain_of(*signing(1))) as talk:
        await talk.open(1)
        await talk.open(2)
        retired = await talk.chains.swap(chain_of(*signing(2)))
        talk.say(notification("notifications/cancelled", {"requestId": 1}))
        await talk.call(3)
        assert retired.under_way == 1  # the other
        assert await talk.call(4, send(result(1, {}), result(4, {}))) == {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"asked": 1, "signed": 1},
        }
        assert (await talk.read())["id"] == 4
        await talk.open(5)
        talk.say(notification("notifications/cancelled", {"requestId": 5}))
        talk.say(notification("notifications/cancelled", {"requestId": 2}))
        await retired.wait()
        again = await talk.chains.swap(chain_of(*signing(3)))
        await again.wait()
        # Each of the two has the request that reached the server, and nothing else of what is over.
        talk.say(request(6, "settled", {}, send(result(2, {}), result(5, {}))))
        assert [(await talk.read())["result"] for _ in range(2)] == [
            {"asked": 1, "signed": 3},
            {"asked": 2, "signed": 3},
        ]


# Asking


def asking(number: int) -> Interceptor[..., Any]:
    @validator(events=[CALL], phase="request", name="sure")
    async def sure(ask: Ask) -> str | None:
        return None if await ask(f"Sure? {number}") else f"no {number}"

    return sure


async def test_a_question_that_is_with_the_user_is_answered_to_the_chain_that_asked(log: Path) -> None:
    async with talking(log, chain_of(asking(1), *signing(1))) as talk:
        handshake = {"protocolVersion": "2025-11-25", "capabilities": FORMS}
        await talk.call("init", method="initialize", **handshake)
        question = await talk.call(1)
        assert question["params"]["message"] == "Sure? 1"
        retired = await talk.chains.swap(Chain())
        await talk.call(2, method="settled")
        assert retired.under_way == 1
        talk.say(result(question["id"], {"action": "accept", "content": {}}))
        assert (await talk.read())["result"] == {"asked": 1, "signed": 1}
        await retired.wait()
        # The handshake was another chain's, and still tells that the user can be asked.
        await talk.chains.swap(chain_of(asking(3), *signing(3)))
        question = await talk.call(3)
        talk.say(result(question["id"], {"action": "decline"}))
        assert (await talk.read())["result"]["isError"]


async def test_a_new_limit_for_answers_does_not_shorten_what_is_asked_already(log: Path) -> None:
    async with talking(log, chain_of(asking(1))) as talk:
        await talk.call("init", method="initialize", protocolVersion="2025-11-25", capabilities=FORMS)
        question = await talk.call(1)
        await talk.chains.swap(chain_of(asking(2)), ask_timeout=0.01)
        asked = await talk.call(2)
        assert asked["params"]["message"] == "Sure? 2"
        assert (await talk.read())["method"] == "notifications/cancelled"
        assert "did not answer within 0.01 s" in (await talk.read())["result"]["content"][0]["text"]
        talk.say(result(question["id"], {"action": "accept", "content": {}}))
        assert (await talk.read())["id"] == 1


@pytest.mark.parametrize("later", [(), signing(2)], ids=["relayed", "judged"])
async def test_the_round_after_a_question_may_meet_a_chain_that_asks_nobody(log: Path, later: Any) -> None:
    meta: dict[str, Any] = {"_meta": {**STATELESS["_meta"], "io.modelcontextprotocol/clientCapabilities": FORMS}}
    async with talking(log, chain_of(asking(1), *signing(1))) as talk:
        asked = (await talk.call(1, **meta))["result"]
        assert asked["resultType"] == "input_required"
        retired = await talk.chains.swap(chain_of(*later))
        await retired.wait()
        (key,) = asked["inputRequests"]
        reply: dict[str, Any] = {key: {"action": "accept", "content": {}}}
        answer = await talk.call(2, inputResponses=reply, requestState=asked["requestState"], **meta)
        assert answer["result"] == ({"asked": 2, "signed": 2} if later else {})
        (reached,) = [message["params"] for message in talk.seen()]
        assert reached.keys() - {"mark"} == {"name", "_meta"}


async def test_a_state_of_a_server_that_looks_like_the_gateway_s_own_passes_all_chains(log: Path) -> None:
    meta: dict[str, Any] = {"_meta": {**STATELESS["_meta"], "io.modelcontextprotocol/clientCapabilities": FORMS}}
    async with talking(log, chain_of(*signing(1))) as talk:
        # One that began before this gateway could wrap it, and one that it has wrapped.
        await talk.call(1, requestState="midspan.1.theirs", **meta)
        interim: dict[str, Any] = {
            "resultType": "input_required",
            "inputRequests": {},
            "requestState": "midspan.1.theirs",
        }
        step = send(result(2, interim))
        state = (await talk.call(2, step, **meta))["result"]["requestState"]
        assert state != "midspan.1.theirs"
        await talk.chains.swap(chain_of(asking(2)))
        again = (await talk.call(2, step, requestState=state, **meta))["result"]
        reply: dict[str, Any] = {key: {"action": "accept", "content": {}} for key in again["inputRequests"]}
        assert len(reply) == 1
        await talk.call(2, step, inputResponses=reply, requestState=again["requestState"], **meta)
        assert [message["params"].get("requestState") for message in talk.seen()] == [
            "midspan.1.theirs",
            None,
            "midspan.1.theirs",
        ]


# What cannot be read


async def test_what_no_chain_could_read_passes_while_nothing_acts_and_not_later(log: Path) -> None:
    batch = b"[%s,%s]" % (request(1, "a", None, ("read", 0)), request(2, "b"))
    answers = b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]'
    odd = b'{"jsonrpc":"2.0","method":"a","method":"b"}'
    async with talking(log, Chain()) as talk:
        talk.say(batch, odd, b"no JSON")
        await talk.call(3)
        assert talk.lines()[:3] == [batch, odd, b"no JSON"]
        await talk.chains.swap(chain_of(*signing(1)))
        talk.say(request(4, "settled", {}, send(answers)))
        assert await talk.pipes.hear() == answers
        talk.say(batch)
        assert "batches are not accepted" in (await talk.pipes.hear()).decode()


async def test_what_cannot_be_read_does_not_pass_while_a_chain_waits_for_an_answer(log: Path) -> None:
    @validator(events=[CALL], phase="response", name="no")
    def no(payload: dict[str, Any]) -> str:
        return "no"

    async with talking(log, chain_of(no)) as talk:
        await talk.open(1)
        await talk.chains.swap(Chain())
        smuggled = b'{"jsonrpc":"2.0","id":2,"id":1,"result":{"secret":1}}'
        case = b'{"jsonrpc":"2.0","ID":1,"result":{"secret":1}}'
        returned = b'{"jsonrpc":"2.0","method":"notifications/x"}\r{"jsonrpc":"2.0","id":1,"result":{"secret":1}}'
        talk.say(request(2, "settled", {}, send(case, returned, smuggled), send(result(2, {}))))
        heard = await talk.pipes.hear()
        assert b"secret" not in heard
        assert b"refused the answer" in heard
        assert (await talk.read())["id"] == 2


# What cannot be put in force


async def test_a_chain_that_cannot_be_put_in_force_changes_nothing(log: Path) -> None:
    @validator(events=[CALL], phase="request", name="asks")
    async def asks(ask: Ask) -> None:
        await ask("?")

    async with talking(log, chain_of(*signing(1))) as talk:
        gateway = talk.chains.gateway
        with pytest.raises(OperatorError, match="must be a Chain, not str"):
            gateway.replace_chain("policy")  # type: ignore[arg-type]
        with pytest.raises(OperatorError, match="expose_interceptors: interceptor 'asks'"):
            gateway.replace_chain(chain_of(asks), expose_interceptors=True)
        with pytest.raises(OperatorError, match="ask_timeout is a positive number"):
            gateway.replace_chain(chain_of(asks), ask_timeout=0)
        with pytest.raises(OperatorError, match="events is a list"):
            gateway.replace_chain(chain_of(asks), events="tools/call")
        with pytest.raises(OperatorError, match="give a chain too"):
            gateway.replace_chain(None, expose_interceptors=True)
        assert (await talk.call(1))["result"] == {"asked": 1, "signed": 1}


async def test_events_stay_what_they_are_unless_others_are_given(log: Path) -> None:
    async with talking(log, chain_of(*signing(1)), events=["ping"]) as talk:
        assert (await talk.call(1))["result"] == {}
        await talk.chains.swap(chain_of(*signing(2)))
        assert (await talk.call(2))["result"] == {}
        await talk.chains.swap(chain_of(*signing(3)), events=["tools/*"])
        assert (await talk.call(3))["result"] == {"asked": 3, "signed": 3}


async def test_a_gateway_that_was_not_made_for_it_keeps_its_chain() -> None:
    for chain in (Chain(), None):
        with pytest.raises(RuntimeError, match="swappable=True"):
            Gateway(["server"], chain).replace_chain(Chain())
