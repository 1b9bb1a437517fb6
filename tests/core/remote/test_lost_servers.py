"""Servers that die, hang or stay away: what becomes of the calls, and of the connection."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from remote_ways import Scripted, call, described, hosted, reasons, server_of, until, until_passed

from midspan_sdk import Chain, ChainExecutionResult, FailedResult, PeerError, validator
from midspan_sdk.mcp import _connection

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]

GONE = {
    "code": -32603,
    "message": "Interceptor execution failed",
    "data": {"interceptor": "guard", "reason": "the interceptor server is gone"},
}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="midspan.chain")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count in tenths of seconds what is meant in seconds."""
    monkeypatch.setattr(_connection, "FIRST_RETRY", 0.02)
    monkeypatch.setattr(_connection, "LONGEST_RETRY", 0.2)
    monkeypatch.setattr(_connection, "PATIENCE", 0.1)


def error_of(result: ChainExecutionResult, position: int = 0) -> dict[str, Any]:
    one = result.results[position]
    assert isinstance(one, FailedResult)
    return one.error


async def test_a_server_that_dies_in_a_call_is_lost_and_the_next_call_finds_a_new_one(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        result = await call(chain)
        assert result.status == "validation_failed"
        assert error_of(result) == GONE
        assert server.invocations() == 1  # not tried again
        server.write(invoke={})
        assert (await call(chain)).status == "success"
    assert server.starts == 2
    assert server.running() == []


@pytest.mark.parametrize("kind", ["validation", "mutation"])
async def test_the_message_of_a_lost_call_is_let_pass_by_fail_open(tmp_path: Path, kind: str) -> None:
    server = Scripted(tmp_path, "scripted", described("guard", kind, failOpen=True), invoke={"guard": "die"})
    payload = {"name": "x"}
    async with Chain() as chain:
        await chain.add_server(server.client)
        result = await call(chain, payload=payload)
        assert result.status == "success"
        assert result.final_payload is payload
        assert error_of(result) == GONE


async def test_calls_that_are_lost_together_make_one_new_connection(tmp_path: Path) -> None:
    server = Scripted(
        tmp_path, "scripted", described("hangs"), described("guard"), invoke={"guard": "die", "hangs": "hang"}
    )
    results: list[ChainExecutionResult] = []
    async with Chain() as chain:
        await chain.add_server(server.client)

        async def one(name: str) -> None:
            results.append(await call(chain, interceptors=[name]))

        async with anyio.create_task_group() as group:
            group.start_soon(one, "hangs")
            group.start_soon(one, "hangs")
            await until(lambda: server.invocations("hangs") == 2)
            group.start_soon(one, "guard")
        gone = [{"hangs": "the interceptor server is gone"}] * 2
        assert sorted(map(reasons, results), key=str) == [{"guard": "the interceptor server is gone"}, *gone]
        server.write(invoke={})
        assert (await call(chain)).status == "success"
    assert server.starts == 2


async def test_a_server_that_stays_away_is_lost_within_the_deadline_of_the_call(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client, overrides={"guard": {"timeoutMs": 400}})
        server.write(start="silent", invoke={"guard": "die"})
        await call(chain)
        began = anyio.current_time()
        result = await call(chain)  # waits for the handshake that is not answered
        assert anyio.current_time() - began < 1
        assert error_of(result) == GONE
        assert result.status == "validation_failed"


async def test_the_chain_s_own_deadline_counts_while_a_call_waits_for_a_connection(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard", failOpen=True), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        server.write(start="silent")
        await call(chain)
        result = await call(chain, timeout_ms=100)
        assert result.status == "timeout"
        assert result.aborted_at is not None
        assert result.aborted_at.interceptor == "chain"
        assert error_of(result)["code"] == -32000


async def test_calls_fail_at_once_while_a_server_stays_away_and_work_when_it_is_back(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        server.write(start="exit", invoke={"guard": "die"})
        with anyio.fail_after(4):  # less than the entry's five seconds, of which none is waited for
            assert error_of(await call(chain)) == GONE
            await until(lambda: server.starts >= 5)
            for _ in range(20):
                assert error_of(await call(chain)) == GONE
        server.write(start=None, invoke={})
        await until_passed(chain)
    assert server.running() == []


async def test_a_hung_server_does_not_hold_a_call_beyond_its_deadline(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), described("other"), invoke={"guard": "hang"})
    async with Chain() as chain:
        await chain.add_server(server.client, overrides={"guard": {"timeoutMs": 100}})
        began = anyio.current_time()
        result = await call(chain)
        assert anyio.current_time() - began < 1
        assert result.status == "timeout"
        data = {"interceptor": "guard", "timeoutMs": 100, "phase": "request"}
        assert error_of(result) == {"code": -32000, "message": "Interceptor execution timeout", "data": data}
        await until(lambda: any(line.get("method") == "notifications/cancelled" for line in server.log()))
        assert (await call(chain, interceptors=["other"])).status == "success"
    assert server.starts == 1


async def test_a_server_that_reads_no_more_does_not_hold_a_call_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "LIST_TIMEOUT", 0.3)
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 0.1)
    server = Scripted(tmp_path, "scripted", described("guard"), described("deaf"), invoke={"deaf": "deaf"})
    async with Chain() as chain:
        await chain.add_server(server.client, overrides={"guard": {"timeoutMs": 200}, "deaf": {"timeoutMs": 100}})
        assert (await call(chain, interceptors=["deaf"])).status == "timeout"
        for _ in range(3):  # more than the pipe takes
            began = anyio.current_time()
            result = await call(chain, interceptors=["guard"], payload={"blob": "x" * 300_000})
            assert anyio.current_time() - began < 1
            assert result.status in ("timeout", "validation_failed")
        await until(lambda: server.starts == 2)
        server.write(invoke={})
        await until_passed(chain)
    assert server.running() == []


async def test_the_sdk_s_last_words_to_a_deaf_server_do_not_hold_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 0.1)
    server = Scripted(tmp_path, "scripted", described("guard"), described("deaf"), invoke={"deaf": "deaf"})
    async with hosted(server.client()) as client:
        chain = Chain()
        await chain.add_server(client, overrides={"guard": {"timeoutMs": 200}, "deaf": {"timeoutMs": 100}})
        assert (await call(chain, interceptors=["deaf"])).status == "timeout"
        for _ in range(3):
            began = anyio.current_time()
            result = await call(chain, interceptors=["guard"], payload={"blob": "x" * 300_000})
            assert anyio.current_time() - began < 1  # the SDK's own bound for them is five seconds
            assert result.status == "timeout"


async def test_a_session_that_the_other_side_forgot_is_replaced(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "code"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        server.write(list="die")
        result = await call(chain)
        assert error_of(result)["data"]["reason"] == "the server failed with code -32600"
        await until(lambda: server.starts >= 2)
        server.write(list=None, invoke={})
        await until_passed(chain)


async def test_an_error_that_an_interceptor_gives_ends_no_connection(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "code"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        await call(chain)
        await until(lambda: sum(line.get("method") == "interceptors/list" for line in server.log()) == 2)
        server.write(invoke={})
        assert (await call(chain)).status == "success"
    assert server.starts == 1


async def test_a_server_that_dies_again_and_again_is_always_lost_never_a_timeout(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        for _ in range(6):
            assert error_of(await call(chain)) == GONE
    assert server.invocations() <= server.starts


async def test_calls_side_by_side_over_a_server_that_dies_are_answered_or_lost(tmp_path: Path) -> None:
    guards = [described(f"guard-{n}") for n in range(5)]
    server = Scripted(tmp_path, "scripted", *guards, described("fatal"), invoke={"fatal": "die"})
    results: list[ChainExecutionResult] = []
    async with Chain() as chain:
        await chain.add_server(server.client)

        async def one(*names: str) -> None:
            results.append(await call(chain, interceptors=names))

        for _ in range(4):
            async with anyio.create_task_group() as group:
                for n in range(5):
                    group.start_soon(one, *(f"guard-{m}" for m in range(n + 1)))
                group.start_soon(one, "fatal")
        server.write(invoke={})
        await until_passed(chain)
    assert {reason for result in results for reason in reasons(result).values()} <= {
        None,
        "the interceptor server is gone",
    }
    assert len(results) == 24
    assert server.running() == []


async def test_a_client_of_the_caller_that_is_closed_is_lost_at_once() -> None:
    @validator(events=["tools/call"], phase="request")
    def guard() -> None: ...

    chain = Chain()
    for mode in ("auto", "legacy"):
        async with hosted(Client(server_of(guard), mode=mode)) as client:
            await chain.add_server(client, alias=mode)
            assert (await call(chain)).status == "success" or mode == "legacy"
    result = await call(chain)
    assert [error_of(result, position)["data"] for position in (0, 1)] == [
        {"interceptor": f"{mode}.guard", "reason": "the interceptor server is gone"} for mode in ("auto", "legacy")
    ]
    with pytest.raises(PeerError, match="'auto': the connection is closed"):
        await chain.refresh()
    assert len(chain.entries) == 2


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_the_caller_that_closes_in_a_call_is_lost(mode: Any) -> None:
    entered = anyio.Event()

    @validator(events=["tools/call"], phase="request")
    async def guard() -> None:
        entered.set()
        await anyio.sleep_forever()

    results: list[ChainExecutionResult] = []
    chain = Chain()
    async with anyio.create_task_group() as group, hosted(Client(server_of(guard), mode=mode)) as client:
        await chain.add_server(client, overrides={"guard": {"timeoutMs": 300}})

        async def one() -> None:
            results.append(await call(chain))

        group.start_soon(one)
        await entered.wait()
    if mode == "legacy":
        assert error_of(results[0]) == GONE
    else:  # in memory without streams the call runs on beside the client, to its deadline
        assert results[0].status == "timeout"


async def test_cancelling_an_execution_cancels_the_call_and_leaves_the_connection_usable(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "hang"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        with anyio.move_on_after(5) as scope:

            async def stop() -> None:
                await until(lambda: server.invocations() == 1)
                scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                await call(chain)
        assert scope.cancelled_caught
        await until(lambda: any(line.get("method") == "notifications/cancelled" for line in server.log()))
        server.write(invoke={})
        assert (await call(chain)).status == "success"
    assert server.starts == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_cancelling_an_execution_cancels_the_handler(mode: Any) -> None:
    entered, cancelled = anyio.Event(), anyio.Event()

    @validator(events=["tools/call"], phase="request")
    async def guard() -> None:
        if entered.is_set():
            return
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with hosted(Client(server_of(guard), mode=mode)) as client:
        chain = Chain()
        await chain.add_server(client)
        async with anyio.create_task_group() as group:
            group.start_soon(call, chain)
            await entered.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(2):
            await cancelled.wait()
        assert (await call(chain)).status == "success"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_slow_handler_delays_neither_another_session_nor_its_own(mode: Any) -> None:
    go, entered = anyio.Event(), anyio.Event()

    @validator(events=["tools/call"], phase="request")
    async def slow() -> None:
        entered.set()
        await go.wait()

    @validator(events=["tools/call"], phase="request")
    def quick() -> None: ...

    async with (
        hosted(Client(server_of(slow, quick), mode=mode)) as one,
        hosted(Client(server_of(quick), mode=mode)) as other,
    ):
        chain = Chain()
        await chain.add_server(one, alias="one")
        await chain.add_server(other, alias="other")
        async with anyio.create_task_group() as group:
            group.start_soon(call, chain)
            await entered.wait()
            for _ in range(10):
                assert (await call(chain, interceptors=["other.quick"])).status == "success"
                assert (await call(chain, interceptors=["one.quick"])).status == "success"
            assert not go.is_set()
            go.set()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_server_whose_handler_runs_a_chain_over_the_same_server_is_bounded_by_deadlines(mode: Any) -> None:
    depth = 0
    inner = Chain()

    @validator(events=["tools/call"], phase="request")
    async def guard(payload: dict[str, Any]) -> str | None:
        nonlocal depth
        depth += 1
        result = await inner.execute(event="tools/call", phase="request", payload=payload)
        return None if result.status == "success" else "inner"

    async with hosted(Client(server_of(guard), mode=mode)) as client:
        await inner.add_server(client, overrides={"guard": {"timeoutMs": 300}})
        began = anyio.current_time()
        result = await call(inner)
        assert anyio.current_time() - began < 2
        assert result.status == "timeout"
        assert depth > 2


async def test_the_log_says_which_server_was_lost_and_why_it_stays_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="midspan.mcp")
    server = Scripted(tmp_path, "house", described("guard"), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        server.write(descriptors=[{"name": "guard"}])
        await call(chain)
        await until(lambda: server.starts >= 3)
        server.write(descriptors=[described("guard")], invoke={})
        await until_passed(chain)
    words = [record.getMessage() for record in caplog.records if record.name == "midspan.mcp"]
    assert words[0].startswith("interceptor server 'house': connection lost")
    assert words[1].startswith("interceptor server 'house': no new connection: descriptor 'guard': type")
    failures = [record for record in caplog.records if record.name == "midspan.chain"]
    assert all(record.exc_info is None for record in failures)


async def test_a_lost_sink_is_counted_as_failed_and_delays_nothing(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard", "sink"), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        assert (await call(chain)).status == "success"
        await until(lambda: chain.failed["guard"] == 1)
        server.write(invoke={})
        assert (await call(chain)).status == "success"
    assert chain.failed == {"guard": 1}
    assert chain.dropped == {"guard": 0}
