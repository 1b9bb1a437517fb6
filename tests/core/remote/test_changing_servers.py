"""What a server offers changes: by a refresh that was asked for, or when it is connected again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import Server
from mcp_types import RequestParams
from remote_ways import Scripted, call, described, hosted, reasons, until, until_passed

from midspan_sdk import (
    Chain,
    ChainExecutionResult,
    DefinitionError,
    DuplicateInterceptorError,
    PeerError,
    validator,
)
from midspan_sdk.mcp import _connection

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count in tenths of seconds what is meant in seconds."""
    monkeypatch.setattr(_connection, "FIRST_RETRY", 0.02)
    monkeypatch.setattr(_connection, "LONGEST_RETRY", 0.2)
    monkeypatch.setattr(_connection, "PATIENCE", 0.1)


Renew = Callable[[Chain, Scripted], Awaitable[None]]


async def by_refresh(chain: Chain, server: Scripted) -> None:
    server.write()
    await chain.refresh()


async def by_reconnect(chain: Chain, server: Scripted) -> None:
    """Kill the server by a call, and wait until a new one is taken over."""
    starts = server.starts
    server.write(invoke={"*": "die"})
    await call(chain)
    server.write(invoke={})
    await until(lambda: server.starts > starts)
    for entries in chain._servers[:1]:  # pyright: ignore[reportPrivateUsage] - there is nothing public to wait for
        with anyio.fail_after(10):
            await entries.connection.client()


@pytest.fixture(params=[by_refresh, by_reconnect])
def renew(request: pytest.FixtureRequest) -> Renew:
    return request.param


async def test_an_entry_that_its_server_lost_stays_and_fails_closed(tmp_path: Path, renew: Renew) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), described("other"))
    async with Chain() as chain:
        await chain.add_server(server.client)
        server.plan["descriptors"] = [described("other")]
        await renew(chain, server)
        result = await call(chain)
        assert result.status == "validation_failed"
        assert reasons(result) == {"guard": "its server no longer offers it", "other": None}
        assert [entry.name for entry in chain.entries] == ["guard", "other"]
        server.plan["descriptors"] = [described("other"), described("guard")]
        await renew(chain, server)
        assert reasons(await call(chain)) == {"guard": None, "other": None}
        assert [entry.name for entry in chain.entries] == ["guard", "other"]


@pytest.mark.parametrize("policy", [{"failOpen": True}, {"mode": "audit"}])
async def test_the_policy_of_a_lost_entry_still_decides(tmp_path: Path, renew: Renew, policy: dict[str, Any]) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), described("other"))
    async with Chain() as chain:
        await chain.add_server(server.client, overrides={"guard": policy})
        server.plan["descriptors"] = [described("other")]
        await renew(chain, server)
        result = await call(chain)
        assert result.status == "success"
        assert reasons(result)["guard"] == "its server no longer offers it"


async def test_new_entries_join_and_overrides_hold_for_those_that_come_back(tmp_path: Path, renew: Renew) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), described("other"))
    async with Chain() as chain:
        await chain.add_server(server.client, alias="a", overrides={"a.guard": {"mode": "audit"}})
        server.plan["descriptors"] = [described("other")]
        await renew(chain, server)
        server.plan["descriptors"] = [described("new", failOpen=True), described("other"), described("guard")]
        await renew(chain, server)
        assert reasons(await call(chain)) == {"a.guard": None, "a.other": None, "a.new": None}
        modes = {entry.name: (entry.mode, entry.fail_open) for entry in chain.entries}
        assert modes == {"a.guard": ("audit", False), "a.other": ("active", False), "a.new": ("active", True)}


async def test_a_changed_descriptor_is_taken_over_under_the_same_overrides(tmp_path: Path, renew: Renew) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), described("marks", "mutation", priorityHint=5))
    async with Chain() as chain:
        await chain.add_server(server.client, overrides={"marks": {"failOpen": True}})
        hooks = [{"events": ["tools/list"], "phase": "response"}]
        server.plan["descriptors"] = [
            described("guard") | {"hooks": hooks},
            described("marks", "mutation", mode="audit"),
        ]
        await renew(chain, server)
        (marks,) = chain.plan("tools/call", "request")
        assert (marks.name, marks.mode, marks.fail_open, marks.priority("request")) == ("marks", "audit", True, 0)
        assert [entry.name for entry in chain.plan("tools/list", "response")] == ["guard"]
        assert [entry.name for entry in chain.entries] == ["guard", "marks"]


async def test_an_entry_may_become_a_sink(tmp_path: Path, renew: Renew) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), described("watch"))
    async with Chain() as chain:
        await chain.add_server(server.client)
        server.plan["descriptors"] = [described("guard"), described("watch", "sink"), described("late", "sink")]
        await renew(chain, server)
        assert reasons(await call(chain)) == {"guard": None}
    assert (server.invocations("watch"), server.invocations("late")) == (1, 1)
    assert chain.failed == {"watch": 0, "late": 0}


async def test_what_a_server_needs_is_read_again(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))
    async with Chain() as chain:
        await chain.add_server(server.client)
        await call(chain)
        server.plan["settings"] = {"context": ["interceptorState", 7, "request"], "stateGroups": {"guard": 5}}
        await by_reconnect(chain, server)
        await call(chain)
    contexts = [line["params"]["context"] for line in server.log() if line.get("name") == "guard"]
    assert "interceptorState" not in contexts[0]
    assert contexts[-1]["interceptorState"] == {}


@validator(events=["tools/call"], phase="request", name="guard-here")
def guard_here() -> None: ...


FAULTS: dict[str, tuple[list[dict[str, Any]], type[Exception]]] = {
    "a bad descriptor": ([described("guard"), {**described("bad"), "hooks": []}], PeerError),
    "a name of another": ([described("guard"), described("guard-here")], DuplicateInterceptorError),
    "an override that no longer fits": (
        [described("guard") | {"hooks": [{"events": ["prompts/get"], "phase": "request"}]}],
        DefinitionError,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_refresh_that_cannot_be_taken_over_leaves_the_chain_as_it_was(tmp_path: Path, fault: str) -> None:
    descriptors, kind = FAULTS[fault]
    first = Scripted(tmp_path, "first", described("first"))
    server = Scripted(tmp_path, "scripted", described("guard"))
    narrow = {"guard": {"hooks": [{"events": ["tools/call"], "phase": "request"}]}}
    async with Chain() as chain:
        chain.add(guard_here)
        await chain.add_server(first.client)
        await chain.add_server(server.client, overrides=narrow)
        before = chain.entries
        first.write(descriptors=[described("first"), described("more")])
        server.write(descriptors=descriptors)
        with pytest.raises(kind):
            await chain.refresh()
        assert chain.entries == before
        assert reasons(await call(chain)) == {"guard-here": None, "first": None, "guard": None}
        server.write(descriptors=[described("guard")])
        await chain.refresh()
        assert [entry.name for entry in chain.entries] == ["guard-here", "first", "guard", "more"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_new_connection_that_cannot_be_taken_over_fails_closed_until_it_can(tmp_path: Path, fault: str) -> None:
    descriptors, _ = FAULTS[fault]
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    narrow = {"guard": {"hooks": [{"events": ["tools/call"], "phase": "request"}]}}
    async with Chain() as chain:
        chain.add(guard_here)
        await chain.add_server(server.client, overrides=narrow)
        server.write(descriptors=descriptors)
        for _ in range(2):
            result = await call(chain, timeout_ms=2000)
            assert result.status == "validation_failed"
            assert reasons(result) == {"guard-here": None, "guard": "the interceptor server is gone"}
        await until(lambda: server.starts >= 3)
        server.write(descriptors=[described("guard")], invoke={})
        await until_passed(chain)
        assert [entry.name for entry in chain.entries] == ["guard-here", "guard"]
    assert server.running() == []


async def test_two_servers_that_newly_offer_one_name_are_refused_together(tmp_path: Path) -> None:
    one = Scripted(tmp_path, "one", described("a"))
    two = Scripted(tmp_path, "two", described("b"))
    async with Chain() as chain:
        await chain.add_server(one.client)
        await chain.add_server(two.client)
        one.write(descriptors=[described("a"), described("new")])
        two.write(descriptors=[described("b"), described("new")])
        with pytest.raises(DuplicateInterceptorError, match=r"'new'.* on server 'one' and on server 'two'"):
            await chain.refresh()
        assert [entry.name for entry in chain.entries] == ["a", "b"]


async def test_an_execution_under_way_keeps_its_plan_over_a_refresh(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))
    entered, go = anyio.Event(), anyio.Event()

    @validator(events=["tools/call"], phase="request")
    async def slow() -> None:
        entered.set()
        await go.wait()

    results: list[ChainExecutionResult] = []
    async with Chain() as chain:
        chain.add(slow)
        await chain.add_server(server.client)

        async def one() -> None:
            results.append(await call(chain))

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await entered.wait()
            server.write(descriptors=[described("guard"), described("new")])
            await chain.refresh()
            go.set()
        assert reasons(results[0]) == {"slow": None, "guard": None}
        assert list(reasons(await call(chain))) == ["slow", "guard", "new"]


async def test_a_refresh_takes_nothing_older_than_what_a_new_connection_brought(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))
    gate = anyio.Event()
    asked = 0

    async def answer_late(ctx: Any, params: RequestParams) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if asked > 1:
            await gate.wait()
        return {"interceptors": []}

    late: Server[Any] = Server("late")
    late.add_request_handler("interceptors/list", RequestParams, answer_late)
    async with hosted(Client(late)) as client, Chain() as chain, anyio.create_task_group() as group:
        await chain.add_server(server.client)
        await chain.add_server(client)
        group.start_soon(chain.refresh)
        await until(lambda: asked == 2)
        server.plan["descriptors"] = [described("guard"), described("new")]
        await by_reconnect(chain, server)
        gate.set()
        await anyio.wait_all_tasks_blocked()
        assert reasons(await call(chain)) == {"guard": None, "new": None}


async def test_a_refresh_of_a_server_that_is_away_says_so(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": "die"})
    async with Chain() as chain:
        await chain.add_server(server.client)
        server.write(start="exit")
        await call(chain)
        with pytest.raises(PeerError, match="server 'scripted': the connection is closed"), anyio.fail_after(10):
            await chain.refresh()
