"""Cancellation, of either side's requests."""

from __future__ import annotations

import json

import pytest

from .ends import Ends, talking
from .eras import Era
from .pairs import Case, everywhere, over, with_sessions
from .server.asked import Asked

pytestmark = pytest.mark.anyio


async def waits(asked: Asked) -> None:
    """Answer never."""
    await asked.cancelled.wait()


async def start(ends: Ends, *message_ids: object) -> None:
    """Start a call for each id, one after the other, so that the server knows them all."""
    ends.server.on("tools/call", waits)
    for number, message_id in enumerate(message_ids, start=1):
        await ends.link.start("tools/call", {"name": "t", "arguments": {"me": message_id}}, message_id=message_id)
        await ends.server.got("tools/call", number)


@everywhere
async def test_a_client_cancels_out_of_order_and_the_server_learns_the_right_id(case: Case) -> None:
    async with talking(case) as ends:
        calls = (1, "1", 2, "\U0001f600", 3)
        await start(ends, *calls)
        order = ("\U0001f600", 2, 1, "1")
        for number, message_id in enumerate(order, start=1):
            await ends.link.cancel(message_id)
            await ends.server.cancelled.reach(number)
        seen = [asked.params["arguments"]["me"] for asked in ends.server.cancelled]
        assert [(type(each), each) for each in seen] == [(type(each), each) for each in order]
        # The one that is left goes on, and the server answers none of the others. Where the gateway is the HTTP server,
        # it ends their responses as servers of that era do.
        await ends.exchange("acme/ping")
        bridged = case.front == "http" and case.back != "http" and case.era is Era.HANDSHAKE
        answers = [arrival.message for arrival in ends.link.arrived if arrival.is_answer]
        said = [answer for answer in answers if not (bridged and answer.get("error", {}).get("code") == -32800)]
        assert not {json.dumps(answer["id"]) for answer in said} & {json.dumps(each) for each in calls}
        assert len(ends.server.cancelled) == len(order)
        await ends.link.cancel(3)
        await ends.server.cancelled.reach(len(order) + 1)


@with_sessions
async def test_a_cancellation_passes_with_all_its_parts(case: Case) -> None:
    async with talking(case) as ends:
        await start(ends, 5)
        await ends.link.notify(
            "notifications/cancelled", '{"reason":"\\ud800","future":{"z":1.0,"a":null},"requestId":5,"_meta":{}}'
        )
        ends.assert_heard(await ends.server.got("notifications/cancelled"), ends.link.sent[-1])
        await ends.server.cancelled.reach(1)


# A response over HTTP may end with the cancellation of its request, where the server has no stream for it to end.
@over(Era.HANDSHAKE, where=lambda case: case.front != "http" or case.back == "http")
async def test_an_answer_that_comes_in_spite_of_a_cancellation(case: Case) -> None:
    async def answers_late(asked: Asked) -> None:
        await asked.cancelled.wait()
        await asked.answer('{"content":[],"late":true}')

    async with talking(case) as ends:
        ends.server.on("tools/call", answers_late)
        await ends.link.start("tools/call", {"name": "t"}, message_id=5)
        await ends.server.got("tools/call")
        await ends.link.cancel(5)
        answer = await ends.link.answer_to(5)
        ends.assert_arrived(answer, ends.server.said[-1])


@with_sessions
async def test_a_server_cancels_out_of_order_and_the_client_learns_the_right_id(case: Case) -> None:
    said: list[str] = []

    async def works(asked: Asked) -> None:
        for message_id in ('"q"', "1", '"1"'):
            await asked.say(f'{{"jsonrpc":"2.0","id":{message_id},"method":"roots/list"}}')
        for message_id in ('"1"', '"q"', "1"):
            said.append(
                f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"r","requestId":{message_id},'
                '"future":1.0}}'
            )
            await asked.say(said[-1])
        await asked.answer("{}")

    async with talking(case) as ends:
        await ends.exchange("tools/call", {"name": "t"}, script=works)
        assert [(await ends.link.next()).message["id"] for _ in range(3)] == ["q", 1, "1"]
        for text in said:
            ends.assert_arrived(await ends.link.next(), text.encode())
