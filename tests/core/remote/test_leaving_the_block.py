"""The end of a chain's block: sinks on servers are drained, connections closed, nothing stays behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from remote_ways import Scripted, call, described, server_of, until

from midspan_sdk import Chain, PeerError, sink, validator
from midspan_sdk.mcp import _connection

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan")


def reason_of(result: Any) -> str | None:
    return result.aborted_at.reason if result.aborted_at else None


async def test_sinks_on_a_server_are_drained_before_its_connection_closes(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("watch", "sink"))
    with anyio.fail_after(10):
        async with Chain() as chain:
            await chain.add_server(server.client)
            for _ in range(50):
                await call(chain)
    assert server.invocations("watch") == 50
    assert (chain.failed, chain.dropped) == ({"watch": 0}, {"watch": 0})
    assert any("ended" in line for line in server.log())  # its stdin ended; nobody killed it
    assert server.running() == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_factory_s_context_is_left_in_the_task_that_entered_it(mode: Any) -> None:
    tasks: list[Any] = []
    recorded: list[int] = []

    @sink(events=["tools/call"], phase="request")
    async def watch() -> None:
        await anyio.lowlevel.checkpoint()
        assert len(tasks) == 1  # still open
        recorded.append(1)

    @asynccontextmanager
    async def factory() -> AsyncGenerator[Client]:
        tasks.append(asyncio.current_task())
        async with Client(server_of(watch), mode=mode) as client:
            yield client
        tasks.append(asyncio.current_task())

    with anyio.fail_after(10):
        async with Chain() as chain:
            await chain.add_server(factory)
            for _ in range(10):
                await call(chain)
    assert len(recorded) == 10
    assert tasks[0] is tasks[1]
    assert tasks[0] is not asyncio.current_task()


async def test_a_server_that_does_not_want_to_end_is_killed_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 0.1)
    monkeypatch.setattr("mcp.client.stdio.FORCE_KILL_TIMEOUT", 0.1)
    server = Scripted(tmp_path, "scripted", described("guard"), stubborn=True)
    with anyio.fail_after(3):
        async with Chain() as chain:
            await chain.add_server(server.client)
            await call(chain)
    assert server.running() == []


async def test_a_context_that_does_not_want_to_end_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connection, "CLOSE_TIMEOUT", 0.1)

    @asynccontextmanager
    async def factory() -> AsyncGenerator[Client]:
        async with Client(server_of()) as client:
            try:
                yield client
            finally:
                await anyio.sleep_forever()

    with anyio.fail_after(3):
        async with Chain() as chain:
            await chain.add_server(factory)


async def test_a_block_that_is_cancelled_ends_with_a_call_under_way(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "hang"})
    with anyio.fail_after(10), anyio.move_on_after(10) as scope:
        async with Chain() as chain:
            await chain.add_server(server.client)

            async def stop() -> None:
                await until(lambda: server.invocations() == 1)
                scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                await call(chain)
    assert scope.cancelled_caught
    assert server.running() == []


async def test_an_error_of_the_block_comes_out_as_it_is(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))

    async def block() -> None:
        async with Chain() as chain:
            await chain.add_server(server.client)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"), anyio.fail_after(10):
        await block()
    assert server.running() == []


async def test_a_call_of_another_task_is_lost_when_the_block_ends(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "hang"})
    results: list[Any] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group, Chain() as chain:
            await chain.add_server(server.client)

            async def one() -> None:
                results.append(await call(chain))

            group.start_soon(one)
            await until(lambda: server.invocations() == 1)
    assert reason_of(results[0]) == "the interceptor server is gone"
    assert server.running() == []


async def test_after_the_block_entries_of_servers_fail_closed_at_once_and_a_new_block_connects_again(
    tmp_path: Path,
) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))
    chain = Chain()
    async with chain:
        await chain.add_server(server.client)
        assert reason_of(await call(chain)) is None
    with anyio.fail_after(1):
        assert reason_of(await call(chain)) == "the interceptor server is gone"
    server.write(descriptors=[described("guard"), described("new")])
    async with chain:
        assert reason_of(await call(chain)) is None
        assert [entry.name for entry in chain.entries] == ["guard", "new"]
    server.write(start="exit")
    with pytest.raises(PeerError, match="cannot be reached"):
        await chain.__aenter__()
    server.write(start=None)
    async with chain:
        assert reason_of(await call(chain)) is None
    assert server.starts == 4
    assert server.running() == []


async def test_a_block_ends_while_a_server_is_away(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    with anyio.fail_after(5):
        async with Chain() as chain:
            await chain.add_server(server.client)
            server.write(start="exit")
            await call(chain)
            await until(lambda: server.starts >= 2)


async def test_a_block_ends_while_a_new_connection_is_being_made(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    with anyio.fail_after(5):
        async with Chain() as chain:
            await chain.add_server(server.client)
            server.write(start="silent")
            await call(chain)
            await until(lambda: server.starts == 2)
    assert server.running() == []


async def test_a_block_ends_while_a_call_waits_for_a_connection(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    results: list[Any] = []
    with anyio.fail_after(4):  # less than the entry's five seconds
        async with anyio.create_task_group() as group, Chain() as chain:
            await chain.add_server(server.client)
            server.write(start="silent")
            await call(chain)

            async def one() -> None:
                results.append(await call(chain))

            group.start_soon(one)
            await until(lambda: server.starts == 2)
    assert reason_of(results[0]) == "the interceptor server is gone"


async def test_a_client_of_the_caller_stays_open_after_the_block() -> None:
    @validator(events=["tools/call"], phase="request")
    def guard() -> None: ...

    async with Client(server_of(guard)) as client:
        chains = [Chain(), Chain()]
        for chain in chains:
            async with chain:
                await chain.add_server(client)
                assert reason_of(await call(chain)) is None
        for chain in chains:
            assert reason_of(await call(chain)) is None
