"""Chains follow each other while many calls are under way: no call is lost, and none meets two chains."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from midspan_sdk import Chain
from tests.hostapp.embedding.sample import at_url, listening, over_stdio
from tests.patience import PATIENCE

from .sample_server import sample
from .succession import CALL, Marks, Succession, succession

pytestmark = pytest.mark.anyio

COMMAND = [sys.executable, str(Path(__file__).with_name("sample_server.py"))]
AT_ONCE = 32
CALLS = 1_700
"""Of each way; three of them make more than 5,000."""
SWAPS = 20
ERAS = ["legacy", "auto"]


@asynccontextmanager
async def back(way: str) -> AsyncGenerator[Any]:
    """Run the server where it is one over HTTP; yields the backend."""
    if not way.endswith("HTTP"):
        yield COMMAND
        return
    app = sample().streamable_http_app()
    async with app.router.lifespan_context(app), listening(app) as address:
        yield f"{address}/mcp"


@asynccontextmanager
async def clients(way: str, chains: Succession) -> AsyncGenerator[list[Client]]:
    """Connect a client of each era through the gateway."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(at_url(chains.gateway)) if way.startswith("HTTP") else None
        found: list[Client] = []
        for era in ERAS:
            if url is None:
                target = over_stdio(chains.gateway)
            else:
                # Where there are no sessions, a principal has what is kept.
                headers = {"authorization": f"Bearer {era}"}
                http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers))
                target = streamable_http_client(url, http_client=http)
            found.append(await stack.enter_async_context(Client(target, mode=era)))
        yield found


@pytest.mark.parametrize("way", ["stdio to stdio", "HTTP to HTTP", "HTTP to stdio"])
async def test_no_call_is_lost_and_none_meets_two_chains(way: str) -> None:
    marks, done, judged = Marks(), 0, 0
    numbers = iter(range(CALLS))
    with anyio.fail_after(PATIENCE):
        first = marks.chain(0)
        async with back(way) as backend, succession(backend, first) as chains:

            async def swap(number: int) -> None:
                # Every fourth does nothing: from a chain to none, and back.
                if number % 4 == 3:
                    await chains.swap(Chain(succeeding=chains.chain))
                else:
                    await chains.swap(marks.chain(number, succeeding=chains.chain))

            async def calling(client: Client) -> None:
                nonlocal done, judged
                for number in numbers:
                    result = await client.call_tool("echo", {"number": number})
                    (block,) = result.content
                    assert isinstance(block, TextContent)
                    said, mark, *signed = block.text.split(" ")
                    assert not result.is_error
                    assert said == str(number)
                    assert signed == ([mark] if mark else [])
                    judged += bool(mark)
                    done += 1
                    if done % (CALLS // (SWAPS + 1)) == 0 and done // (CALLS // (SWAPS + 1)) <= SWAPS:
                        await swap(done // (CALLS // (SWAPS + 1)))

            async with clients(way, chains) as connected, anyio.create_task_group() as group:
                for place in range(AT_ONCE):
                    group.start_soon(calling, connected[place % len(ERAS)])
            await chains.drained()
            assert len(chains.over) == SWAPS
        assert done == CALLS
        assert CALLS / 2 < judged < CALLS
        assert sum(marks.counts.values()) == judged
        assert len(marks.counts) == len(ERAS)
        # What each chain began, it ended: sinks and records tell.
        assert sum(marks.seen.values()) == judged
        for number, records in marks.records.items():
            phases = [(record.phase, record.exchange_id) for record in records if record.event == CALL]
            begun = {exchange for phase, exchange in phases if phase == "request"}
            ended = {exchange for phase, exchange in phases if phase == "response"}
            assert begun == ended
            assert len(phases) == 2 * len(begun) == 2 * marks.seen[number]
