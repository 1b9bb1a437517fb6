"""A policy for all interceptors of a server, what a server is called, and servers that are added side by side."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from remote_ways import Scripted, call, described

from midspan_sdk import (
    Chain,
    ChainError,
    DuplicateInterceptorError,
    InterceptorOverrides,
    PeerError,
    UnknownNameError,
    validator,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan")


POLICY: dict[str, Any] = {
    "mode": "audit",
    "failOpen": True,
    "priorityHint": 7,
    "timeoutMs": 250,
    "mayAnswer": True,
}


@pytest.mark.parametrize("policy", [POLICY, InterceptorOverrides.model_validate(POLICY)], ids=["mapping", "model"])
async def test_each_entry_takes_of_a_policy_for_all_what_its_kind_takes(tmp_path: Path, policy: Any) -> None:
    kinds = (described("v"), described("m", "mutation"), described("s", "sink"))
    server = Scripted(tmp_path, "scripted", *kinds)
    async with Chain() as chain:
        await chain.add_server(server.client, policy=policy)
        checks, changes, records = chain.entries
        for entry in (checks, changes):
            assert (entry.mode, entry.fail_open, entry.timeout) == ("audit", True, 0.25)
        assert (changes.priority("request"), changes.overrides.may_answer) == (7, True)
        assert (checks.overrides.priority_hint, checks.overrides.may_answer) == (None, None)
        assert (records.mode, records.fail_open, records.timeout) == ("active", False, 0.25)


async def test_an_override_by_name_wins_over_the_policy_field_by_field(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("one"), described("two"))
    async with Chain() as chain:
        await chain.add_server(
            server.client, alias="a", policy=POLICY, overrides={"a.one": {"mode": "active", "failOpen": False}}
        )
        one, two = chain.entries
        assert (one.mode, one.fail_open, one.timeout) == ("active", False, 0.25)
        assert (two.mode, two.fail_open, two.timeout) == ("audit", True, 0.25)


async def test_a_policy_for_all_decides_what_a_denial_leads_to(tmp_path: Path) -> None:
    denies = {"interceptor": "guard", "type": "validation", "phase": "request", "valid": False}
    server = Scripted(tmp_path, "scripted", described("guard"), invoke={"guard": denies})
    async with Chain() as chain:
        await chain.add_server(server.client, policy={"mode": "audit"})
        await chain.add_server(server.client, alias="strict")
        result = await call(chain, interceptors=["guard"])
        assert result.status == "success"
        assert (await call(chain, interceptors=["strict.guard"])).status == "validation_failed"


async def test_it_holds_for_those_that_join_later_and_for_one_that_becomes_another_kind(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))
    async with Chain() as chain:
        await chain.add_server(server.client, policy=POLICY)
        server.write(descriptors=[described("guard", "sink"), described("later")])
        await chain.refresh()
        guard, later = chain.entries
        assert (guard.mode, guard.timeout) == ("active", 0.25)
        assert (later.mode, later.timeout) == ("audit", 0.25)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"hooks": [{"events": ["tools/call"], "phase": "request"}]}, "policy: takes no hooks"),
        ({"mode": "loud"}, "policy: does not fit: mode"),
        ({"colour": "red"}, "policy: does not fit: colour"),
    ],
)
async def test_a_policy_that_is_none_is_refused_before_anything_is_opened(
    tmp_path: Path, policy: Any, words: str
) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"))
    async with Chain() as chain:
        with pytest.raises(ChainError, match=words):
            await chain.add_server(server.client, policy=policy)
    assert server.starts == 0


async def test_a_label_names_the_server_in_entries_and_errors_and_no_interceptor(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "own-name", described("guard"))
    async with Chain() as chain:
        await chain.add_server(server.client, label="central")
        (entry,) = chain.entries
        assert (entry.name, entry.server) == ("guard", "central")
        with pytest.raises(DuplicateInterceptorError, match="on server 'central' and on server 'second'"):
            await chain.add_server(server.client, label="second")
        server.write(descriptors=[{"name": "guard"}])
        with pytest.raises(PeerError, match="server 'third'"):
            await chain.add_server(server.client, label="third", alias="other")


async def test_an_override_for_nobody_says_which_names_there_are(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "scripted", described("guard"), described("other"))
    async with Chain() as chain:
        with pytest.raises(UnknownNameError) as caught:
            await chain.add_server(server.client, alias="a", overrides={"a.gard": {}})
    assert (caught.value.name, caught.value.known) == ("a.gard", ("a.guard", "a.other"))


async def test_servers_that_are_added_side_by_side_stand_in_the_order_of_the_calls(tmp_path: Path) -> None:
    @validator(events=["tools/call"], phase="request")
    def local() -> None: ...

    names = ("first", "second", "third", "fourth")
    servers = {name: Scripted(tmp_path, name, described("a"), described("b")) for name in names}
    opened = {name: anyio.Event() for name in names}
    waits_for = {"first": "third", "third": "fourth", "second": "first"}  # so they are ready in another order
    added: list[str] = []
    chain = Chain()
    chain.add(local)

    async def add(name: str) -> None:
        @asynccontextmanager
        async def factory() -> AsyncGenerator[Client]:
            async with servers[name].client() as client:
                if name in waits_for:
                    await opened[waits_for[name]].wait()
                yield client

        await chain.add_server(factory, alias=name)
        added.append(name)
        opened[name].set()

    with anyio.fail_after(20):
        async with chain:
            async with anyio.create_task_group() as group:
                for name in names:
                    group.start_soon(add, name)
            assert added == ["fourth", "third", "first", "second"]
            expected = ["local", *(f"{name}.{one}" for name in names for one in "ab")]
            assert [entry.name for entry in chain.entries] == expected
            assert [entry.name for entry in chain.plan("tools/call", "request")] == expected


async def test_one_of_several_that_cannot_be_reached_does_not_hinder_the_others(tmp_path: Path) -> None:
    bad = Scripted(tmp_path, "bad", start="exit")
    good = Scripted(tmp_path, "good", described("guard"))
    failed: list[PeerError] = []

    async def add(server: Scripted) -> None:
        try:
            await chain.add_server(server.client)
        except PeerError as error:
            failed.append(error)

    async with Chain() as chain:
        async with anyio.create_task_group() as group:
            group.start_soon(add, bad)
            group.start_soon(add, good)
        assert [entry.name for entry in chain.entries] == ["guard"]
    assert len(failed) == 1
