"""A server that ends in the middle: whoever waits is told, and where it is wanted, a new one goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from midspan.relay import RestartPolicy, RestartWhen

from .harness import Link, Step, notification, open_link, request, send, unanswered

pytestmark = pytest.mark.anyio

INITIALIZE = request(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
INITIALIZED = notification("notifications/initialized")


def policy(when: RestartWhen, *, first: float = 0.01, most: int = 8) -> RestartPolicy:
    return RestartPolicy(when, first=first, most=most)


async def shake_hands(link: Link) -> None:
    await link.send(INITIALIZE)
    assert (await link.read())["id"] == 0
    await link.send(INITIALIZED)
    await link.works("first server")


@pytest.mark.parametrize("step", [("exit", 3), ("kill", 9)])
async def test_a_new_server_gets_the_handshake_of_the_client(log: Path, step: Step) -> None:
    async with open_link(log, restart=policy("on-failure")) as link:
        await shake_hands(link)
        await link.send(request(1, "wait", None, ("read", 0)), request("go", "go", None, step))
        assert sorted([await link.receive(), await link.receive()]) == sorted([unanswered(1), unanswered("go")])
        await link.works("second server")
        assert await link.finish() == 0
    seen = link.seen()
    assert seen.count(INITIALIZE) == seen.count(INITIALIZED) == 2
    # The new server's answer to the handshake went to nobody, and nothing reached it before the handshake.
    assert seen.index(INITIALIZE, 1) + 1 == seen.index(INITIALIZED, seen.index(INITIALIZE, 1))


async def test_a_stateless_client_needs_no_handshake(log: Path) -> None:
    async with open_link(log, restart=policy("on-failure")) as link:
        await link.send(request(1, "go", None, ("exit", 3)))
        assert await link.receive() == unanswered(1)
        await link.works()
    assert len(link.seen()) == 2


async def test_what_is_sent_while_the_server_starts_waits_for_it(log: Path) -> None:
    async with open_link(log, restart=policy("on-failure", first=0.2)) as link:
        await shake_hands(link)
        await link.send(request(1, "go", None, ("exit", 3)))
        assert await link.receive() == unanswered(1)
        await link.send(*(request(number, "ping") for number in range(2, 6)))
        assert [await link.read() for _ in range(2, 6)] == [
            {"jsonrpc": "2.0", "id": number, "result": {}} for number in range(2, 6)
        ]


@pytest.mark.parametrize(("when", "code", "anew"), [("on-failure", 0, False), ("always", 0, True), ("never", 3, False)])
async def test_the_policy_says_when(log: Path, when: RestartWhen, code: int, anew: bool) -> None:
    async with open_link(log, restart=policy(when)) as link:
        await link.send(request(1, "go", None, ("exit", code)))
        assert await link.receive() == unanswered(1)
        if anew:
            await link.works()
        else:
            assert await link.rest() == []
            assert await link.running == code


async def test_a_server_that_never_lasts_is_given_up(log: Path) -> None:
    failing: list[Step] = [send("hello"), ("exit", 4)]
    async with open_link(log, restart=policy("on-failure", most=3), at_start=failing) as link:
        assert await link.rest() == [b"hello"] * 4
        assert await link.running == 4


async def test_a_server_that_refuses_the_repeated_handshake_counts_as_failed(log: Path) -> None:
    async with open_link(log, restart=policy("on-failure", most=2)) as link:
        refusal = b'{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}'
        first = request(0, "initialize", {}, send(refusal))
        await link.send(first)
        assert await link.receive() == refusal
        await link.send(request(1, "go", None, ("exit", 3)))
        assert await link.receive() == unanswered(1)
        assert await link.rest() == []
    assert link.seen().count(first) == 3


async def test_the_clients_end_is_no_failure_of_the_server(log: Path) -> None:
    async with open_link(log, restart=policy("always"), at_end=[("exit", 5)]) as link:
        await link.works()
        assert await link.finish() == 5


async def test_a_cancelled_request_is_not_answered_for_a_dead_server(log: Path) -> None:
    async with open_link(log, restart=policy("on-failure")) as link:
        await link.send(request(1, "wait", None, ("read", 0)))
        await link.send(notification("notifications/cancelled", {"requestId": 1}))
        await link.send(request(2, "go", None, ("exit", 3)))
        assert await link.receive() == unanswered(2)
        await link.works()
