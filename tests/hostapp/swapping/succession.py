"""Chains that leave their mark on both phases of a call, and follow each other in a gateway."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from midspan import Gateway
from midspan.interception import Retired
from midspan_sdk import Chain, DecisionRecord, Interceptor, InvocationContext, State, mutator, sink, validator
from tests.patience import PATIENCE

CALL = "tools/call"
LONG = 60.0
"""Seconds: a machine with other things to do is no reason to block a message."""


class Reign:
    """One chain in its time, entered and left in a task of its own."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.left = False
        self._entered = asyncio.Event()
        self._may_leave = asyncio.Event()
        self._task = asyncio.create_task(self._live())

    async def _live(self) -> None:
        async with self.chain:
            self._entered.set()
            await self._may_leave.wait()
        self.left = True

    async def entered(self) -> None:
        """Wait until it is."""
        await self._entered.wait()

    async def leave(self) -> None:
        """Leave the chain, which drains."""
        self._may_leave.set()
        await self._task


class Succession:
    """The chains of one gateway.

    Attributes:
        gateway: theirs.
        over: the chains that were left, in that order.
    """

    def __init__(self, reign: Reign) -> None:
        self.gateway: Gateway
        self.over: list[Chain] = []
        self._reign = reign
        self._draining: set[asyncio.Task[None]] = set()

    @property
    def chain(self) -> Chain:
        """The one in force."""
        return self._reign.chain

    async def swap(self, chain: Chain, **options: Any) -> Retired:
        """Put another chain in force; the old one is left as soon as nothing uses it."""
        reign = Reign(chain)
        await reign.entered()
        retired = self.gateway.replace_chain(chain, **options)
        old, self._reign = self._reign, reign
        task = asyncio.create_task(self._drain(old, retired))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)
        return retired

    async def _drain(self, reign: Reign, retired: Retired) -> None:
        await retired.wait()
        await reign.leave()
        self.over.append(reign.chain)

    async def drained(self) -> None:
        """Wait until all chains but the one in force are left."""
        while self._draining:
            await asyncio.wait(set(self._draining))

    async def end(self) -> None:
        """Leave them all."""
        await self.drained()
        await self._reign.leave()


@asynccontextmanager
async def succession(backend: Any, chain: Chain, **options: Any) -> AsyncGenerator[Succession]:
    """Make a gateway whose chain can be replaced."""
    made = Succession(Reign(chain))
    await made._reign.entered()  # pyright: ignore[reportPrivateUsage] - of this module
    made.gateway = Gateway(backend, chain, swappable=True, **options)
    try:
        with anyio.fail_after(PATIENCE):
            yield made
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await made.end()


def signing(number: int) -> tuple[Interceptor[..., Any], ...]:
    """Return interceptors that write their number into a call and into its result."""

    @mutator(events=[CALL, "ping"], phase="request", name="stamp")
    def stamp(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "mark": number}

    @mutator(events=[CALL, "ping"], phase="response", name="sign")
    def sign(payload: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "asked": request.get("mark"), "signed": number}

    return stamp, sign


def chain_of(*interceptors: Interceptor[..., Any], **options: Any) -> Chain:
    """Return a chain with all that a gateway gives."""
    chain = Chain(gives=("session", "store", "tools", "ask"), **options)
    chain.add(*interceptors)
    return chain


class Marks:
    """What marking chains noticed.

    Attributes:
        counts: how many calls of a session the state knew of, at last.
        seen: how many results each chain's sink saw.
        records: of each chain's durable observer.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.seen: Counter[int] = Counter()
        self.records: dict[int, list[DecisionRecord]] = {}

    def chain(self, number: int, *others: Interceptor[..., Any], succeeding: Chain | None = None) -> Chain:
        """Return a chain that stamps arguments and results with its number.

        Its handlers let others run in between, and it counts the calls of each session.
        """
        counts, seen = self.counts, self.seen

        @mutator(events=[CALL], phase="request", name="marks.request", timeout=LONG)
        async def stamp(payload: dict[str, Any], state: State) -> dict[str, Any]:
            await anyio.lowlevel.checkpoint()
            state["number"] = number
            return {**payload, "arguments": {**payload["arguments"], "mark": str(number)}}

        @validator(events=[CALL], phase="request", name="marks.count", timeout=LONG)
        def count(session_state: State, context: InvocationContext) -> None:
            session_state["calls"] = session_state.get("calls", 0) + 1
            assert context.session_id is not None
            counts[context.session_id] = session_state["calls"]

        @mutator(events=[CALL], phase="response", name="marks.response", timeout=LONG)
        async def sign(payload: dict[str, Any], request: dict[str, Any], state: State) -> dict[str, Any]:
            await anyio.lowlevel.checkpoint()
            assert state["number"] == number
            assert request["arguments"]["mark"] == str(number)
            text = payload["content"][0]["text"] + f" {number}"
            return json.loads(json.dumps({**payload, "content": [{"type": "text", "text": text}]}))

        @sink(events=[CALL], phase="response", name="marks.sink")
        def look(payload: dict[str, Any]) -> None:
            seen[number] += 1

        records = self.records.setdefault(number, [])

        class Keeping:
            name = "keeping"
            durable = True

            async def observe(self, record: DecisionRecord) -> None:
                records.append(record)

        chain = Chain(observers=[Keeping()], succeeding=succeeding, late_sinks=True, timeout=LONG)
        chain.add(stamp, count, sign, look, *others)
        return chain
