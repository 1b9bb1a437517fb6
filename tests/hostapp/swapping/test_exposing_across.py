"""What a gateway serves of its own interceptors is what is in force; an invocation ends where it began."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from midspan_sdk import Chain, validator
from tests.hostapp.relay.harness import notification, request, result, send

from .succession import chain_of
from .test_exchanges import talking

pytestmark = pytest.mark.anyio

INVOCATION: dict[str, Any] = {"event": "tools/call", "phase": "request", "payload": {}}


def named(name: str) -> Any:
    @validator(events=["tools/call"], phase="request", name=name)
    def interceptor(payload: dict[str, Any]) -> str:
        return name

    return interceptor


async def test_the_interceptors_that_are_in_force_are_served(log: Path) -> None:
    async with talking(log, chain_of(named("one")), expose_interceptors=True) as talk:
        for name in ("one", "two"):
            if name != "one":
                await talk.chains.swap(chain_of(named(name)))
            listed = await talk.call(1, method="interceptors/list")
            assert [one["name"] for one in listed["result"]["interceptors"]] == [name]
        invoked = await talk.call(2, method="interceptor/invoke", **{**INVOCATION, "name": "two"})
        assert invoked["result"]["valid"] is False
        unknown = await talk.call(3, method="interceptor/invoke", **{**INVOCATION, "name": "one"})
        assert "error" in unknown
        await talk.call(4, method="settled")
        assert [message["id"] for message in talk.seen()] == [4]


async def test_serving_them_begins_and_ends_with_a_swap(log: Path) -> None:
    capabilities: dict[str, Any] = {"capabilities": {}}
    async with talking(log, Chain()) as talk:
        assert (await talk.call(1, method="interceptors/list"))["result"] == {}
        await talk.open(2, "initialize")
        await talk.chains.swap(chain_of(named("one")), expose_interceptors=True)
        assert "interceptors" in (await talk.call(3, method="interceptors/list"))["result"]
        talk.say(request(4, "settled", {}, send(result(2, capabilities), result(4, {}))))
        assert (await talk.read())["result"] == capabilities  # as it was when the client asked
        assert (await talk.read())["id"] == 4
        told = await talk.call(5, send(result(5, capabilities)), method="initialize")
        assert told["result"] != capabilities
        await talk.chains.swap(chain_of(named("one")), expose_interceptors=False)
        assert (await talk.call(6, method="interceptors/list"))["result"] == {}


async def test_an_invocation_under_way_ends_with_the_chain_that_it_began_with(log: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @validator(events=["tools/call"], phase="request", name="slow")
    async def slow(payload: dict[str, Any]) -> str:
        begun.set()
        await go_on.wait()
        return "said at last"

    async with talking(log, chain_of(slow), expose_interceptors=True) as talk:
        talk.say(request(1, "interceptor/invoke", {**INVOCATION, "name": "slow"}))
        await begun.wait()
        retired = await talk.chains.swap(chain_of(named("two")), expose_interceptors=False)
        assert retired.under_way == 1
        go_on.set()
        assert (await talk.read())["result"]["messages"][0]["message"] == "said at last"
        await retired.wait()


async def test_an_invocation_that_is_cancelled_lets_go_of_the_old_chain(log: Path) -> None:
    begun = asyncio.Event()

    @validator(events=["tools/call"], phase="request", name="hangs")
    async def hangs(payload: dict[str, Any]) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with talking(log, chain_of(hangs), expose_interceptors=True) as talk:
        talk.say(request(1, "interceptor/invoke", {**INVOCATION, "name": "hangs"}))
        await begun.wait()
        retired = await talk.chains.swap(Chain(), expose_interceptors=False)
        talk.say(notification("notifications/cancelled", {"requestId": 1}))
        await retired.wait()
        await talk.call(2)
        assert [message["id"] for message in talk.seen()] == [2]  # nor is the server told
