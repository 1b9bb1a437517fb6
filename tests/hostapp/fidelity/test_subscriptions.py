"""Subscriptions, since 2026-07-28: a request that stays open, and whose id is in all that it brings."""

from __future__ import annotations

import json

import pytest

from .ends import Ends, talking
from .eras import SUBSCRIPTION_KEY
from .pairs import Case, without_sessions
from .server.asked import Asked

pytestmark = pytest.mark.anyio

WANTED = (
    '{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,'
    '"resourceSubscriptions":["a://b"],"future":null}}'
)
NOTES = [
    '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"future":1.0},'
    '"_meta":{"z":null,"%s":%s}}}',
    '{"method":"notifications/tools/list_changed","params":{"_meta":{"%s":%s,"a":1.0}},"jsonrpc":"2.0","more":null}',
    '{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"%s":%s}}}',
    '{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{"_meta":{"%s":%s}}}',
    '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b","_meta":{"%s":%s},"z":1e2}}',
]


def note(text: str, subscription: object) -> str:
    """Return a notification of a subscription."""
    return text % (SUBSCRIPTION_KEY, json.dumps(subscription))


async def listens(asked: Asked) -> None:
    """Acknowledge, and wait."""
    await asked.say(note(NOTES[0], asked.id))
    await asked.cancelled.wait()


async def hears(ends: Ends, text: str, subscription: object) -> None:
    """Assert that the client's next message is a notification of a subscription, under its own id."""
    arrival = await ends.link.next()
    ends.assert_arrived(arrival, note(text, subscription).encode())
    found = arrival.message["params"]["_meta"][SUBSCRIPTION_KEY]
    assert (type(found), found) == (type(subscription), subscription)
    if ends.link.carrier == "http":
        assert arrival.where == subscription


@without_sessions
async def test_changes_of_lists_and_of_a_resource(case: Case) -> None:
    async with talking(case) as ends:
        ends.server.on("subscriptions/listen", listens)
        subscriptions = (7, "7", "\U0001f600")
        for number, subscription in enumerate(subscriptions, start=1):
            await ends.link.start("subscriptions/listen", WANTED, message_id=subscription)
            ends.assert_heard(await ends.server.got("subscriptions/listen", number), ends.link.sent[-1])
            await hears(ends, NOTES[0], subscription)
        requests = ends.server.asked[-3:]
        for text in NOTES[1:]:
            for request, subscription in reversed(list(zip(requests, subscriptions, strict=True))):
                await request.say(note(text, request.id))
                await hears(ends, text, subscription)
        await ends.exchange("tools/list", result='{"tools":[]}')


@without_sessions
async def test_an_end_from_either_side(case: Case) -> None:
    async with talking(case) as ends:
        ends.server.on("subscriptions/listen", listens)
        for number, subscription in enumerate((7, "7", 8), start=1):
            await ends.link.start("subscriptions/listen", WANTED, message_id=subscription)
            await ends.server.got("subscriptions/listen", number)
            await hears(ends, NOTES[0], subscription)
        first, second, third = ends.server.asked[-3:]
        await ends.link.cancel(7)
        await ends.server.cancelled.reach(1)
        assert list(ends.server.cancelled) == [first]
        # With a result, in good order.
        meta = f'"_meta":{{"z":1.0,"{SUBSCRIPTION_KEY}":{second.id_text}}}'
        await second.answer(f'{{"resultType":"complete",{meta},"future":null}}')
        answer = await ends.link.answer_to("7")
        ends.assert_arrived(answer, ends.server.said[-1])
        assert answer.message["result"]["_meta"][SUBSCRIPTION_KEY] == "7"
        # Without one.
        meta = f'"_meta":{{"{SUBSCRIPTION_KEY}":{third.id_text}}}'
        await third.say(
            f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{third.id_text},{meta},"z":1.0}}}}'
        )
        over = await ends.link.next()
        ends.assert_arrived(over, ends.server.said[-1])
        assert over.message["params"]["requestId"] == over.message["params"]["_meta"][SUBSCRIPTION_KEY] == 8
        await third.end()
