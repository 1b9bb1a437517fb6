"""Whatever comes in whatever order: no handler of a chain runs after it was over, and none sees another's exchange."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from midspan.interception import ChainJudge, ConnectionContext, Regime, Regimes, Retired
from midspan.relay import Action, Deferred, OversizedLine, Side
from midspan_sdk import Chain, Principal, State, mutator
from tests.hostapp.relay.harness import notification, request, result

pytestmark = pytest.mark.anyio

METHODS = ["tools/call", "ping", "other"]
STEPS = 400


class World:
    """A judge, two ends that talk at random, and chains that follow each other.

    Attributes:
        wrong: what must not have been.
        mixed: how many answers met a chain that did not see their request, since that one's chain was over.
    """

    def __init__(self, seed: int, *, repeats: bool) -> None:
        self.wrong: list[str] = []
        self.mixed = 0
        self.retired: dict[int, Retired] = {}
        self._chance = random.Random(seed)
        self._number = 0
        self._gates: list[asyncio.Event] = []
        self._tasks: dict[asyncio.Task[Action], Deferred] = {}
        self._asked: dict[Side, list[int]] = {Side.CLIENT: [], Side.SERVER: []}
        self._last_id = 0
        self._regimes = Regimes(self._regime("sync"), swappable=True)
        context = ConnectionContext(server="s", principal=Principal(type="user", id="u"), flow="f")
        self.judge = ChainJudge(self._regimes, context, repeats=repeats)

    # Chains

    def _regime(self, kind: str) -> Regime:
        chain = Chain(timeout=1000)
        if kind != "none":
            chain.add(*self._signing(self._number, kind == "async"))
        return Regime(chain)

    def _signing(self, number: int, waits: bool) -> Any:
        events = METHODS[: self._chance.randint(1, 2)]

        def enter() -> None:
            if (retired := self.retired.get(number)) is not None and retired.over:
                self.wrong.append(f"a handler of {number} runs although its chain is over")

        async def wait() -> None:
            enter()
            if waits and self._chance.random() < 0.7:
                gate = asyncio.Event()
                self._gates.append(gate)
                await gate.wait()
                enter()

        async def stamp(payload: dict[str, Any], state: State) -> dict[str, Any]:
            await wait()
            state["number"] = number
            return {**payload, "mark": number}

        async def sign(payload: dict[str, Any], request: dict[str, Any] | None, state: State) -> dict[str, Any]:
            await wait()
            asked = (request or {}).get("mark")
            if asked != number or state.get("number") != number:
                self._mixed(number, asked, dict(state))
            return {**payload, "signed": number}

        policy: dict[str, Any] = {"timeout": 1000.0}
        return (
            mutator(events=events, phase="request", name="marks.stamp", **policy)(stamp),
            mutator(events=events, phase="response", name="marks.sign", **policy)(sign),
        )

    def _mixed(self, number: int, asked: int | None, state: dict[str, Any]) -> None:
        self.mixed += 1
        if state:
            self.wrong.append(f"{number} sees the state {state} of another")
        if asked is not None and not self.retired[asked].over:
            self.wrong.append(f"{number} signs what {asked} stamped, which is not over")

    def swap(self) -> None:
        before = self._number
        self._number += 1
        self.retired[before] = self._regimes.replace(self._regime(self._chance.choice(["sync", "async", "none"])))

    # Messages

    def _take(self, verdict: Action | Deferred) -> None:
        if isinstance(verdict, Action):
            return
        if self._chance.random() < 0.1:  # it never begins: the connection ended
            _drop(verdict)
            return
        task = asyncio.create_task(_run(verdict))
        self._tasks[task] = verdict
        task.add_done_callback(lambda _: _drop(self._tasks.pop(task)))

    def ask(self) -> None:
        side = self._chance.choice([Side.CLIENT, Side.CLIENT, Side.SERVER])
        self._last_id += 1
        self._asked[side].append(self._last_id)
        del self._asked[side][:-20]
        self._take(self.judge.judge(side, request(self._last_id, self._chance.choice(METHODS), {"name": "x"})))

    def tell(self) -> None:
        side = self._chance.choice(list(Side))
        self._take(self.judge.judge(side, notification(self._chance.choice(METHODS), {})))

    def ask_again(self) -> None:
        side, message_id = self._some()
        for method in METHODS:
            self._take(self.judge.judge(side, request(message_id, method, {"name": "x"})))

    def _some(self) -> tuple[Side, int]:
        side = self._chance.choice([side for side in Side if self._asked[side]] or [Side.CLIENT])
        return side, self._chance.choice(self._asked[side] or [0])

    def answer(self) -> None:
        side, message_id = self._some()
        self._take(self.judge.judge(side.other, result(message_id, {})))

    def answer_badly(self) -> None:
        side, message_id = self._some()
        bad = b'{"jsonrpc":"2.0","id":%d,"result":{"a":1,"a":1}}' % message_id
        if self._chance.random() < 0.5:
            self._take(self.judge.judge(side.other, bad.replace(b'"a":1}', b"")))
        else:
            self._take(self.judge.judge(side.other, bad))

    def answer_at_length(self) -> None:
        side, message_id = self._some()
        head = b'{"jsonrpc":"2.0","id":%d,"result":{"a":"' % message_id
        self._take(self.judge.oversized(side.other, OversizedLine(head, b'"}}')))

    def cancel(self) -> None:
        side, message_id = self._some()
        verdict = self.judge.judge(side, notification("notifications/cancelled", {"requestId": message_id}))
        assert isinstance(verdict, Action)
        for task, deferred in list(self._tasks.items()):
            if verdict.cancels is not None and deferred.request_id == verdict.cancels:
                task.cancel()

    def settle(self) -> None:
        self.judge.settle(*self._some())

    def go_on(self) -> None:
        if self._gates:
            self._gates.pop(self._chance.randrange(len(self._gates))).set()

    async def run(self) -> None:
        often: list[Callable[[], None]] = [self.ask, self.answer, self.go_on]
        seldom = [
            self.tell,
            self.tell,
            self.swap,
            self.cancel,
            self.settle,
            self.answer_badly,
            self.answer_at_length,
            self.ask_again,
        ]
        for _ in range(STEPS):
            self._chance.choice(often * 4 + seldom)()
            for _ in range(self._chance.randrange(4)):
                await anyio.lowlevel.checkpoint()
        while self._tasks:
            for gate in self._gates:
                gate.set()
            self._gates.clear()
            await anyio.lowlevel.checkpoint()


async def _run(deferred: Deferred) -> Action:
    return await deferred.action


def _drop(deferred: Deferred) -> None:
    deferred.action.close()
    assert deferred.over is not None
    deferred.over()


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("seed", range(12))
async def test_each_exchange_has_one_chain_and_each_chain_ends(seed: int, repeats: bool) -> None:
    with anyio.fail_after(30):
        world = World(seed, repeats=repeats)
        await world.run()
        assert len(world.retired) > 5
        world.judge.close()
        world.swap()
        assert world.wrong == []
        left = {number: retired.under_way for number, retired in world.retired.items() if retired.under_way}
        assert left == {}
        assert all(retired.over for retired in world.retired.values())


async def test_the_tests_above_see_answers_after_the_end_of_their_chains() -> None:
    world = World(5, repeats=True)
    await world.run()
    assert world.mixed > 0
    assert json.dumps(world.wrong) == "[]"
