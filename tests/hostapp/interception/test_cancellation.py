"""Cancellation: it reaches who has the request, and nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from midspan.interception import ChainJudge
from midspan.relay import Side
from midspan_sdk import mutator, validator
from tests.hostapp.relay.harness import guarded, notification, request, result, send

pytestmark = pytest.mark.anyio


def cancel(message_id: object) -> bytes:
    return notification("notifications/cancelled", {"requestId": message_id, "reason": "changed my mind"})


class Stuck:
    """An interceptor that says when it was asked and when it was cancelled."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.may_end = asyncio.Event()

        @validator(events=["slow", "sampling/createMessage"], phase="request")
        async def stuck(payload: dict[str, Any]) -> None:
            self.asked.set()
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

        self.interceptor = stuck


async def test_a_request_cancelled_while_it_is_judged_is_dropped_with_its_cancellation(log: Path) -> None:
    stuck = Stuck()
    async with guarded(log, stuck.interceptor) as link:
        await link.send(request(1, "slow"))
        await stuck.asked.wait()
        await link.send(cancel(1))
        await stuck.cancelled.wait()
        await link.works()
        assert [message["method"] for message in link.seen_messages()] == ["ping"]


@pytest.mark.parametrize("inline", [True, False])
async def test_a_request_and_its_cancellation_in_one_piece_leave_nothing_behind(log: Path, inline: bool) -> None:
    @validator(events=["slow"], phase="request")
    async def checked(payload: dict[str, Any]) -> None:
        if not inline:
            await asyncio.sleep(0)

    async with guarded(log, checked) as link:
        await link.send(request(1, "slow"), cancel(1), request(1, "slow", {"again": True}))
        assert (await link.read())["id"] == 1
        await link.works()
        # One of the two went on, or the first with its cancellation: but the id is free again.
        await link.send(request(1, "slow"))
        assert (await link.read())["id"] == 1
        seen = link.seen_messages()
    if not inline:
        assert [message.get("method") for message in seen] == ["slow", "ping", "slow"]
        assert seen[0]["params"] == {"again": True}


async def test_the_id_of_a_cancelled_request_is_free_at_once_and_its_end_harms_nobody(log: Path) -> None:
    stuck = Stuck()
    async with guarded(log, stuck.interceptor) as link:
        await link.send(request(1, "slow", {"n": 1}))
        await stuck.asked.wait()
        # The second comes in one piece with the cancellation, before the first one's task has come to its end.
        await link.send(cancel(1), request(1, "slow", {"n": 2}))
        await stuck.cancelled.wait()
        stuck.may_end.set()
        assert (await link.read())["id"] == 1
        await link.works()
        assert [message.get("params") for message in link.seen_messages()] == [{"n": 2}, None]


async def test_a_cancellation_of_what_was_sent_is_forwarded_as_it_came(log: Path) -> None:
    line = b'{"jsonrpc":"2.0",  "method":"notifications/cancelled","params":{"requestId":1,"reason":"x","more":1.0}}'

    @mutator(events=["*"], phase="both")
    async def idle(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    async with guarded(log, idle) as link:
        waiting = send(notification("n"))
        await link.send(request(1, "go", None, waiting, ("read", 1), send(result(1, {"late": True}))))
        assert (await link.read())["method"] == "n"
        await link.send(line)
        # A server may answer all the same.
        assert (await link.read())["result"] == {"late": True}
        assert link.seen()[1] == line


async def test_an_unknown_cancellation_is_forwarded(log: Path) -> None:
    stuck = Stuck()
    async with guarded(log, stuck.interceptor) as link:
        await link.send(cancel("nobody"), notification("notifications/cancelled"))
        await link.works()
        assert len(link.seen()) == 3


async def test_the_other_requests_go_on_when_one_is_cancelled(log: Path) -> None:
    stuck = Stuck()
    async with guarded(log, stuck.interceptor) as link:
        await link.send(request(1, "slow"), request("1", "slow"), request(2, "slow"))
        await stuck.asked.wait()
        await link.send(cancel(1))
        await stuck.cancelled.wait()
        stuck.may_end.set()
        assert {(await link.read())["id"], (await link.read())["id"]} == {"1", 2}


async def test_a_server_may_cancel_its_request_while_it_is_judged(log: Path) -> None:
    stuck = Stuck()
    ask = request("s", "sampling/createMessage")
    async with guarded(log, stuck.interceptor) as link:
        await link.send(request(1, "go", None, send(ask), ("read", 1), send(cancel("s"), result(1, {}))))
        await stuck.asked.wait()
        await link.send(request(2, "n"))  # lets the server go on
        assert (await link.read())["id"] == 1
        await stuck.cancelled.wait()
        await link.works()


async def test_cancelling_from_one_side_does_not_touch_the_other_sides_request(log: Path) -> None:
    stuck = Stuck()
    ask = request(1, "sampling/createMessage")
    async with guarded(log, stuck.interceptor) as link:
        await link.send(request(1, "go", None, send(ask), ("read", 2), send(result(1, {}))))
        await stuck.asked.wait()
        await link.send(cancel(1))  # the client's own request 1, which the server has
        stuck.may_end.set()
        assert (await link.read())["method"] == "sampling/createMessage"
        await link.send(result(1, {"sampled": True}))
        assert (await link.read()) == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert not stuck.cancelled.is_set()
        assert link.seen_messages()[1]["method"] == "notifications/cancelled"


async def test_cancelled_requests_that_are_never_answered_do_not_pile_up(log: Path) -> None:
    @validator(events=["*"], phase="response")
    def watch(payload: dict[str, Any]) -> None: ...

    async with guarded(log, watch) as link:
        for start in range(0, 3000, 100):
            for number in range(start, start + 100):
                await link.send(request(number, "go", None, ("read", 0)), cancel(number))
            await link.works()
        assert isinstance(link.judge, ChainJudge)
        open_requests = link.judge._requests[Side.CLIENT]._open  # pyright: ignore[reportPrivateUsage] - what it keeps
        assert len(open_requests) <= 1024
