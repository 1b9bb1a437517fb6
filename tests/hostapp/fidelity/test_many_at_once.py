"""Many clients and many calls at once, with the same ids and the same tokens, cancelling at random."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio
import pytest

from .client.link import Arrival, Link
from .ends import Ends, talking
from .eras import dig, key_of
from .pairs import Case, everywhere, over
from .server.asked import Asked

pytestmark = pytest.mark.anyio

CLIENTS: Final = 100
PROCESSES: Final = 4
TOKEN: Final = "t"


@dataclass
class Worker:
    """The server's tool: reports twice and answers, or waits until it is cancelled."""

    order: random.Random = field(default_factory=lambda: random.Random(7))

    async def __call__(self, asked: Asked) -> None:
        arguments = asked.params["arguments"]
        await asked.say(self._progress(asked, 0))
        if arguments["waits"]:
            await asked.cancelled.wait()
            return
        for _ in range(self.order.randrange(6)):
            await anyio.lowlevel.checkpoint()
        await asked.say(self._progress(asked, 1))
        await asked.answer({"content": [], "for": arguments["me"]})

    def _progress(self, asked: Asked, step: int) -> str:
        me = asked.params["arguments"]["me"]
        return (
            '{"jsonrpc":"2.0","method":"notifications/progress","params":'
            f'{{"progressToken":{asked.token_text},"progress":{step},"message":"{me}"}}}}'
        )


@dataclass
class Client:
    """One client, and what it has the right to get.

    Attributes:
        name: what it calls itself.
        link: its connection.
        shared: whether several calls are under way at once, so that tokens have to differ.
    """

    name: str
    link: Link
    shared: bool
    calls: dict[tuple[str, object], str] = field(default_factory=dict[tuple[str, object], str])
    cancelled: set[str] = field(default_factory=set[str])

    async def call(self, message_id: object, *, cancels: bool) -> None:
        """Call, and wait for the answer, or cancel once the server is at work."""
        me = self.calls[key_of(message_id)] = f"{self.name}/{message_id}"
        meta = {"progressToken": message_id if self.shared else TOKEN}
        arguments = {"me": me, "waits": cancels}
        await self.link.start("tools/call", {"name": "t", "arguments": arguments, "_meta": meta}, message_id=message_id)
        await self.link.arrived.first(lambda arrival: dig(arrival.message, "params", "message") == me)
        if cancels:
            self.cancelled.add(me)
            await self.link.cancel(message_id)
        else:
            await self.link.answer_to(message_id)

    def check(self) -> None:
        """Assert that all that came is this client's own, and all of it."""
        answered: list[str] = []
        for arrival in self.link.arrived:
            if arrival.is_answer and "for" in arrival.message.get("result", {}):
                owner = self.calls[key_of(arrival.message["id"])]
                assert arrival.message["result"]["for"] == owner
                answered.append(owner)
            elif arrival.method:
                assert arrival.message["params"]["message"] == self.calls[self._owner(arrival)]
        for me in self.calls.values():
            assert self.progress_of(me) == ([0] if me in self.cancelled else [0, 1])
        assert sorted(answered) == sorted(set(self.calls.values()) - self.cancelled)

    def _owner(self, arrival: Arrival) -> tuple[str, object]:
        token = arrival.message["params"]["progressToken"]
        assert self.shared or key_of(token) == key_of(TOKEN)
        return key_of(token if self.shared else arrival.where)

    def progress_of(self, me: str) -> list[int]:
        """Return what a call reported, in the order in which it came."""
        params = [arrival.message["params"] for arrival in self.link.arrived if arrival.method]
        return [each["progress"] for each in params if each["message"] == me]


@pytest.fixture(autouse=True, scope="module")
def many_files() -> Iterator[None]:
    """Let this process have the files that so many connections need: both sides of all of them are in it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1] if before[1] != resource.RLIM_INFINITY else 8192
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(hard, 8192)), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def all_get_their_own(ends: Ends, clients: list[Client]) -> None:
    """Assert that every answer reached its owner, and every cancellation its call."""
    cancelled = {me for client in clients for me in client.cancelled}
    await ends.server.cancelled.reach(len(cancelled))
    assert {asked.params["arguments"]["me"] for asked in ends.server.cancelled} == cancelled
    for client in clients:
        client.check()
    assert len(ends.server.cancelled) == len(cancelled)
    assert 0 < len(cancelled) < sum(len(client.calls) for client in clients)


async def calls_at_once(client: Client, count: int) -> None:
    """Make calls that are all under way together."""
    choice = random.Random(client.name)
    async with anyio.create_task_group() as group:
        for message_id in range(1000, 1000 + count):
            group.start_soon(partial(client.call, message_id, cancels=choice.random() < 0.3))


@everywhere
async def test_many_calls_on_one_connection(case: Case) -> None:
    async with talking(case) as ends:
        ends.server.on("tools/call", Worker())
        client = Client("c", ends.link, shared=True)
        await calls_at_once(client, 100)
        await all_get_their_own(ends, [client])


@over(where=lambda case: case.front == "http")
async def test_many_clients_of_one_gateway(case: Case) -> None:
    async def one(client: Client) -> None:
        choice = random.Random(client.name)
        if not client.link.sent:
            await client.link.begin()
        for message_id in range(1, 4):
            await client.call(message_id, cancels=choice.random() < 0.3)

    async with talking(case) as ends:
        ends.server.on("tools/call", Worker())
        links = [ends.link, *[await ends.another() for _ in range(CLIENTS - 1)]]
        clients = [Client(f"c{number}", link, shared=False) for number, link in enumerate(links)]
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(one, client)
        await all_get_their_own(ends, clients)


@over(where=lambda case: case.front != "http")
async def test_many_calls_of_some_clients_with_a_gateway_each(case: Case) -> None:
    async def one(client: Client) -> None:
        if not client.link.sent:
            await client.link.begin()
        await calls_at_once(client, 25)

    async with talking(case) as ends:
        ends.server.on("tools/call", Worker())
        links = [ends.link, *[await ends.another() for _ in range(PROCESSES - 1)]]
        clients = [Client(f"c{number}", link, shared=True) for number, link in enumerate(links)]
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(one, client)
        await all_get_their_own(ends, clients)
