"""What a server says without being asked, or before it answers."""

from __future__ import annotations

import json

import pytest

from .client.link import Arrival
from .ends import Ends, talking
from .eras import dig
from .pairs import Case, everywhere, with_sessions
from .server.asked import Asked

pytestmark = pytest.mark.anyio

PROGRESS = (
    '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d.0,"total":null,'
    '"message":"\\ud800","future":[]},"future":1e2}'
)
LOG = (
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"odd","data":{"z":[null],"a":1.0},'
    '"logger":"","_meta":{}}}'
)
CHANGES = [
    '{"method":"notifications/tools/list_changed","jsonrpc":"2.0"}',
    '{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"z":1.0}}}',
    '{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{"future":null},"more":0}',
    '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b","title":"t","future":1e2}}',
    '{"jsonrpc":"2.0","method":"notifications/acme/happened","params":{"x":"\\ud800"}}',
]


async def next_notes(ends: Ends, said: list[str]) -> list[Arrival]:
    """Return what came, and assert that it is what the server said: in order, as far as it came on one stream."""
    arrivals = [await ends.link.next() for _ in said]
    of_streams = [[note for note in arrivals if note.where == where] for where in {note.where for note in arrivals}]
    for notes in of_streams:
        places = [place for note in notes for place, text in enumerate(said) if _tag(text) == _tag(note.raw)]
        assert places == sorted(places)
    by_tag = {_tag(text): text for text in said}
    for note in arrivals:
        ends.assert_arrived(note, by_tag[_tag(note.raw)].encode())
    return arrivals


def _tag(text: str | bytes) -> tuple[str, object]:
    """Tell notifications of one test apart."""
    message = json.loads(text)
    return message["method"], dig(message, "params", "progress")


@everywhere
async def test_progress_and_log_messages_in_order_before_the_result(case: Case) -> None:
    said: list[str] = []

    async def works(asked: Asked) -> None:
        said[:] = [PROGRESS % (asked.token_text, step) for step in range(4)]
        said.insert(2, LOG)
        for note in said:
            await asked.say(note)
        await asked.answer('{"content":[]}')

    async with talking(case) as ends:
        for token in ("7", 7, ""):
            meta = {"progressToken": token, "io.modelcontextprotocol/logLevel": "debug"}
            answer = await ends.exchange("tools/call", {"name": "t", "_meta": meta}, script=works)
            notes = await next_notes(ends, said)
            tokens = [note.message["params"]["progressToken"] for note in notes if note.method.endswith("progress")]
            assert [(type(each), each) for each in tokens] == [(type(token), token)] * 4
            if ends.link.carrier == "http":
                assert {note.where for note in notes if note.method.endswith("progress")} == {answer.where}
            here = [arrival for arrival in ends.link.arrived if arrival.where == answer.where]
            assert here[-1] is answer


@with_sessions
async def test_changes_of_lists_and_of_a_resource(case: Case) -> None:
    async with talking(case) as ends:
        peer = ends.server.heard[-1].peer
        for change in CHANGES:
            await peer.push(change)
            (note,) = await next_notes(ends, [change])  # it does not wait for the next
            assert note.where is None


@with_sessions
async def test_changes_during_a_call(case: Case) -> None:
    async def works(asked: Asked) -> None:
        for change in CHANGES:
            await asked.say(change)
        await asked.answer("{}")

    async with talking(case) as ends:
        await ends.exchange("tools/call", {"name": "t"}, script=works)
        await next_notes(ends, CHANGES)


@with_sessions
async def test_what_a_client_tells_the_server(case: Case) -> None:
    async with talking(case) as ends:
        for method, params in (
            ("notifications/roots/list_changed", None),
            ("notifications/progress", '{"progress":1.0,"progressToken":"of a task","future":null}'),
            ("notifications/acme/happened", '{"z":"\\ud800","a":1152921504606846977}'),
        ):
            await ends.link.notify(method, params)
            ends.assert_heard(await ends.server.got(method), ends.link.sent[-1])
