"""Chains over real servers: in memory in both protocol eras, and in a child process."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this one, which the child process imports as well

from remote_guards import all_guards
from remote_ways import Fill, fill_locally, filling_from, guards_child, hosted, server_of


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["local", "auto", "legacy", "stdio"])
async def fill(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncGenerator[Fill]:
    """Put the guards into a chain: directly, or from a server in memory of either era, or from a child process."""
    way: str = request.param
    if way == "local":
        yield fill_locally
        return
    opened = guards_child() if way == "stdio" else Client(server_of(*all_guards()), mode=way)
    async with hosted(opened) as client:

        @asynccontextmanager
        async def factory() -> AsyncGenerator[Client]:
            yield client  # one child serves all cases; each chain's connection is a supervised one all the same

        yield filling_from(factory if way == "stdio" else client)


@pytest.fixture
async def nothing_is_left(anyio_backend: str) -> AsyncGenerator[None]:
    """Check that a test leaves no task behind, and nothing that warns when it is collected."""
    yield
    with anyio.move_on_after(2):
        while _tasks():  # noqa: ASYNC110 - nobody sets an event
            await anyio.sleep(0.01)
    assert _tasks() == []
    gc.collect()


def _tasks() -> list[str]:
    texts = [str(task.get_coro()) for task in asyncio.all_tasks()]
    return [text for text in texts if "TestRunner." not in text]
