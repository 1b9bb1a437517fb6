"""Adding servers to a chain: what is found, what is refused, and that a refusal leaves nothing behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.memory import create_client_server_memory_streams
from remote_ways import Scripted, call, described, hosted, server_of, until

from midspan_sdk import (
    Chain,
    ChainError,
    DefinitionError,
    DuplicateInterceptorError,
    Exchange,
    PeerError,
    ValidationResult,
    mutator,
    sink,
    validator,
)
from midspan_sdk.mcp import _connection

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan")


@validator(events=["tools/call"], phase="request")
def guard() -> None: ...


@mutator(events=["tools/call"], phase="request")
def marks(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "marks": payload.get("marks", 0) + 1}


async def works(chain: Chain) -> None:
    """Show that the chain takes and runs interceptors."""

    @validator(events=["tools/call"], phase="request", name="another")
    def another() -> None: ...

    chain.add(another)
    result = await call(chain)
    assert result.status == "success"
    assert [one.interceptor for one in result.results] == ["another"]


async def test_a_factory_needs_the_block_of_the_chain() -> None:
    chain = Chain()
    with pytest.raises(ChainError, match="async with chain"):
        await chain.add_server(lambda: Client(server_of(guard)))
    await works(chain)


async def test_a_client_session_serves_as_well_as_a_client() -> None:
    async with create_client_server_memory_streams() as (ours, theirs), anyio.create_task_group() as group:
        server = server_of(guard)
        group.start_soon(server.run, *theirs, server.create_initialization_options())
        async with ClientSession(*ours) as session:
            await session.initialize()
            chain = Chain()
            await chain.add_server(session)
            assert [(entry.name, entry.server) for entry in chain.entries] == [("guard", "guards")]
            result = await call(chain)
            assert result.status == "success"
        group.cancel_scope.cancel()


async def test_a_factory_may_be_any_function_that_makes_a_context_of_a_client(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))

    @asynccontextmanager
    async def factory() -> AsyncGenerator[ClientSession]:
        async with (
            stdio_client(server.client().server) as streams,  # pyright: ignore[reportArgumentType] - it is parameters
            ClientSession(*streams) as session,
        ):
            await session.initialize()
            yield session

    async with Chain() as chain:
        await chain.add_server(factory)
        assert (await call(chain)).status == "success"
    assert server.running() == []


async def test_a_client_that_is_not_open_is_refused_with_what_to_do() -> None:
    chain = Chain()
    with pytest.raises(PeerError, match="the client is not open; enter it, or pass a function that makes one"):
        await chain.add_server(Client(server_of(guard)))
    await works(chain)


async def test_entries_and_errors_call_a_factory_s_server_by_its_own_name_or_by_its_alias(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "house", described("guard"))
    async with Chain() as chain:
        await chain.add_server(server.client)
        await chain.add_server(server.client, alias="central")
        await chain.add_server(server.client, alias={"guard": "renamed"})
        assert [(entry.name, entry.server) for entry in chain.entries] == [
            ("guard", "house"),
            ("central.guard", "central"),
            ("renamed", "house"),
        ]
        server.write(descriptors=[{"name": "guard"}])
        with pytest.raises(PeerError, match="server 'house': descriptor 'guard': type"):
            await chain.refresh()
        with pytest.raises(PeerError, match="server 'other': descriptor 'guard': type"):
            await chain.add_server(server.client, alias="other")
        with pytest.raises(PeerError, match="server 'house': descriptor 'guard': type"):
            await chain.add_server(server.client)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "hooks": ({"hooks": []}, "descriptor 'bad': hooks: "),
    "phase": ({"hooks": [{"events": ["a"], "phase": "later"}]}, "descriptor 'bad': hooks.0.phase: "),
    "priority": ({"type": "mutation", "priorityHint": 2**31}, "descriptor 'bad': priorityHint"),
    "name": ({"name": "a\u0007"}, "name: contains the control character"),
    "twice": ({"name": "good"}, "descriptor 'good': name: is used twice"),
}


@pytest.mark.parametrize("fault", BAD)
async def test_one_bad_descriptor_adds_nothing_and_leaves_nothing(tmp_path: Path, fault: str) -> None:
    fields, words = BAD[fault]
    server = Scripted(tmp_path, "scripted", described("good"), {**described("bad"), **fields})
    async with Chain() as chain:
        with pytest.raises(PeerError) as caught:
            await chain.add_server(server.client)
        assert words in str(caught.value)
        assert caught.value.server == "scripted"
        assert chain.entries == ()
        assert server.running() == []  # gone already, not only when the block ends
        await works(chain)
        await chain.refresh()


@pytest.mark.parametrize("fault", [name for name in BAD if name != "twice"])
async def test_an_operator_may_choose_to_go_on_without_a_bad_descriptor(
    tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="midspan")
    fields, words = BAD[fault]
    server = Scripted(tmp_path, "scripted", described("good"), {**described("bad"), **fields})
    async with Chain() as chain:
        await chain.add_server(server.client, skip_bad_descriptors=True)
        assert [entry.name for entry in chain.entries] == ["good"]
        await chain.refresh()
        assert [entry.name for entry in chain.entries] == ["good"]
    assert any(words in record.getMessage() and record.levelname == "ERROR" for record in caplog.records)


REFUSALS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "an unknown override": ({"overrides": {"nobody": {}}}, ChainError, "names 'nobody'; server 'scripted' offers"),
    "a wide override": (
        {"overrides": {"guard": {"hooks": [{"events": ["*"], "phase": "request"}]}}},
        DefinitionError,
        "may only narrow",
    ),
    "a bad override": ({"overrides": {"guard": {"mode": "loud"}}}, DefinitionError, "'guard': mode"),
    "an unknown alias": ({"alias": {"nobody": "x"}}, ChainError, "alias: names 'nobody'; server 'scripted' offers"),
    "two of one alias": ({"alias": {"guard": "x", "other": "x"}}, DuplicateInterceptorError, "'x': name: two"),
    "an override by the old name": ({"alias": "a", "overrides": {"guard": {}}}, ChainError, "'guard'"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refused_policy_adds_nothing_and_leaves_nothing(tmp_path: Path, refusal: str) -> None:
    options, kind, words = REFUSALS[refusal]
    server = Scripted(tmp_path, "scripted", described("guard"), described("other"))
    async with Chain() as chain:
        with pytest.raises(kind) as caught:
            await chain.add_server(server.client, **options)
        assert words in str(caught.value)
        assert chain.entries == ()
        assert server.running() == []
        await works(chain)


@pytest.mark.parametrize("alias", ["", "a\nb", {"guard": ""}])
async def test_an_alias_that_is_no_name_is_refused_before_anything_is_opened(tmp_path: Path, alias: Any) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))
    async with Chain() as chain:
        with pytest.raises(ChainError, match="is not a name"):
            await chain.add_server(server.client, alias=alias)
    assert server.starts == 0


async def test_a_name_on_two_servers_names_both_and_an_alias_resolves_it(tmp_path: Path) -> None:
    one = Scripted(tmp_path, "one", described("guard"))
    two = Scripted(tmp_path, "two", described("guard"), described("more"))
    async with Chain() as chain:
        await chain.add_server(one.client)
        with pytest.raises(DuplicateInterceptorError, match=r"'guard'.* on server 'one' and on server 'two'.*alias"):
            await chain.add_server(two.client)
        assert [entry.name for entry in chain.entries] == ["guard"]
        assert two.running() == []
        await chain.add_server(two.client, alias="two")
        await chain.add_server(two.client, alias={"guard": "guard-2", "more": "more-2"})
        await call(chain)
        assert [entry.name for entry in chain.entries] == ["guard", "two.guard", "two.more", "guard-2", "more-2"]
    assert (one.invocations("guard"), two.invocations("guard"), two.invocations("more")) == (1, 2, 2)


async def test_servers_of_the_same_name_are_two_servers(tmp_path: Path) -> None:
    one = Scripted(tmp_path, "same", described("guard"))
    folder = tmp_path / "more"
    folder.mkdir()
    two = Scripted(folder, "same", described("other"))
    async with Chain() as chain:
        await chain.add_server(one.client)
        await chain.add_server(two.client)
        two.write(descriptors=[described("other"), described("guard")])
        with pytest.raises(DuplicateInterceptorError, match=r"'guard'.* on server 'same' and on server 'same'"):
            await chain.refresh()
        await call(chain)
    assert (one.invocations("guard"), two.invocations("guard")) == (1, 0)


async def test_a_name_in_this_process_and_on_a_server_names_both_in_either_order() -> None:
    async with hosted(Client(server_of(guard))) as client:
        chain = Chain()
        chain.add(guard)
        with pytest.raises(DuplicateInterceptorError, match="is on this process and on server 'guards'"):
            await chain.add_server(client)
        chain = Chain()
        await chain.add_server(client)
        with pytest.raises(DuplicateInterceptorError, match="already in the chain"):
            chain.add(guard)
        await chain.add_server(client, alias="again")
        assert [entry.name for entry in chain.entries] == ["guard", "again.guard"]


async def test_state_is_not_shared_between_servers_of_the_same_name() -> None:
    @validator(events=["tools/call"], phase="request", name="plugin.counts")
    def counts(state: dict[str, Any]) -> ValidationResult:
        state["n"] = state.get("n", 0) + 1
        return ValidationResult(valid=True, info={"n": state["n"]})

    async with hosted(Client(server_of(counts))) as one, hosted(Client(server_of(counts))) as other:
        chain = Chain()
        await chain.add_server(one)
        await chain.add_server(other, alias={"plugin.counts": "plugin.others"})
        exchange = Exchange()
        for name, turn in (("plugin.counts", 1), ("plugin.others", 1), ("plugin.counts", 2), ("plugin.others", 2)):
            result = await call(chain, interceptors=[name], exchange=exchange)
            assert [one.to_wire()["info"] for one in result.results] == [{"n": turn}]


def failing_factory() -> Client:
    raise OSError("no such device")


@asynccontextmanager
async def failing_context() -> AsyncGenerator[Client]:
    async with Client(server_of(guard)):
        raise KeyError("late")
    yield  # pyright: ignore[reportUnreachable] - which makes it a generator


@asynccontextmanager
async def wrong_context() -> AsyncGenerator[Any]:
    yield "client"


UNREACHABLE: dict[str, tuple[Any, str]] = {
    "no such command": (
        lambda: Client(StdioServerParameters(command="/nowhere/at/all")),
        "cannot be reached: FileNotFoundError",
    ),
    "a process that ends": (
        lambda: Client(StdioServerParameters(command="true"), mode="legacy"),
        "cannot be reached: MCPError: Connection closed",
    ),
    "a factory that fails": (failing_factory, "cannot be reached: OSError: no such device"),
    "a context that fails": (failing_context, "cannot be reached: KeyError: 'late'"),
    "not a client": (wrong_context, "the factory made a str, not a client"),
    "not a context": (lambda: None, "cannot be reached: TypeError"),
    "no interceptors": (lambda: Client(server_without()), "serves no interceptors: it does not know interceptors/list"),
}


def server_without() -> Any:
    from mcp.server import Server

    return Server("plain")


@pytest.mark.parametrize("case", UNREACHABLE)
async def test_a_server_that_cannot_be_reached_is_said_so_and_leaves_nothing(case: str) -> None:
    factory, words = UNREACHABLE[case]
    async with Chain() as chain:
        before = asyncio.all_tasks()
        with pytest.raises(PeerError) as caught, anyio.fail_after(10):
            await chain.add_server(factory)
        assert words in str(caught.value)
        assert asyncio.all_tasks() == before
        assert chain.entries == ()
        await works(chain)


async def test_an_alias_names_a_server_that_cannot_be_reached() -> None:
    async with Chain() as chain:
        with pytest.raises(PeerError, match="'central': cannot be reached"):
            await chain.add_server(failing_factory, alias="central")


HANGS = {"start": "silent"}, {"list": "hang"}


@pytest.mark.parametrize("plan", HANGS, ids=["handshake", "listing"])
async def test_a_server_that_hangs_at_the_start_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: dict[str, Any]
) -> None:
    monkeypatch.setattr(_connection, "CONNECT_TIMEOUT", 0.5)
    server = Scripted(tmp_path, "scripted", described("guard"), **plan)
    async with Chain() as chain:
        with pytest.raises(PeerError, match=r"cannot be reached: no answer within [0-9.]+ s"):
            await chain.add_server(server.client)
        assert server.running() == []
        await works(chain)


async def test_a_factory_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connection, "CONNECT_TIMEOUT", 0.1)
    left = False

    @asynccontextmanager
    async def factory() -> AsyncGenerator[Client]:
        nonlocal left
        try:
            async with Client(server_of(guard)) as client:
                await anyio.sleep_forever()
                yield client
        finally:
            left = True

    async with Chain() as chain:
        with pytest.raises(PeerError, match="no answer within"):
            await chain.add_server(factory)
        assert left
        await works(chain)


async def test_a_cancelled_addition_leaves_nothing(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), list="hang")
    async with Chain() as chain:
        with anyio.move_on_after(10) as scope:

            async def stop() -> None:
                await until(lambda: any(line.get("method") == "interceptors/list" for line in server.log()))
                scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                await chain.add_server(server.client)
        assert scope.cancelled_caught
        assert server.running() == []
        assert chain.entries == ()
        await works(chain)


async def test_a_listing_that_never_comes_on_an_open_client_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection, "LIST_TIMEOUT", 0.1)
    server = Scripted(tmp_path, "scripted", described("guard"), list="hang")
    async with hosted(server.client()) as client:
        chain = Chain()
        with pytest.raises(PeerError, match=r"'scripted': no answer to interceptors/list within 0\.1 s"):
            await chain.add_server(client)
        server.write(list=None)
        await chain.add_server(client)
        server.write(list="hang")
        with pytest.raises(PeerError, match="no answer to interceptors/list"):
            await chain.refresh()
        assert (await call(chain)).status == "success"


async def test_a_server_that_dies_while_it_is_listed_is_unusable(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), list="die")
    async with Chain() as chain:
        with pytest.raises(PeerError, match="'scripted': the connection is closed"):
            await chain.add_server(server.client)
        assert server.running() == []
        await works(chain)


async def test_servers_may_be_added_at_the_same_time(tmp_path: Path) -> None:
    servers = [Scripted(tmp_path, f"server-{n}", described(f"guard-{n}")) for n in range(4)]
    async with Chain() as chain:
        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(chain.add_server, server.client)
        result = await call(chain)
        assert sorted(one.interceptor for one in result.results) == [f"guard-{n}" for n in range(4)]


async def test_entries_of_servers_and_of_this_process_are_in_one_order() -> None:
    @sink(events=["tools/call"], phase="request")
    def last() -> None: ...

    @mutator(events=["tools/call"], phase="request", priority_hint=1)
    def later(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "later": payload["marks"]}

    async with hosted(Client(server_of(marks, guard, last))) as client, Chain() as chain:
        chain.add(later)
        await chain.add_server(client)
        result = await call(chain, payload={})
        assert result.final_payload == {"marks": 1, "later": 1}
        assert [entry.name for entry in chain.plan("tools/call", "request")] == ["marks", "later", "guard", "last"]
