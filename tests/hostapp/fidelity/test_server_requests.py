"""What a server asks its client, in the era in which it may."""

from __future__ import annotations

import anyio
import pytest

from .ends import Ends, talking
from .exact import assert_same
from .pairs import Case, with_sessions
from .server.asked import Asked

pytestmark = pytest.mark.anyio

SAMPLING = (
    '{"messages":[{"role":"user","content":{"type":"text","text":"\\ud800","future":1.0}}],"maxTokens":1e2,'
    '"modelPreferences":{"hints":[{"name":""}],"z":0,"a":1.0},"metadata":{"":null},"_meta":{"progressToken":"7"}}'
)
FORM = (
    '{"requestedSchema":{"type":"object","properties":{"z":{"type":"number","default":1.0},"a":{"const":null}}},'
    '"message":"?","mode":"form","future":{}}'
)
URL = '{"url":"https://example.com/?q=\U0001f600","elicitationId":"e 1","mode":"url","message":"","future":null}'
ASKED = {
    "sampling": (
        "sampling/createMessage",
        SAMPLING,
        '{"role":"assistant","model":"m","stopReason":"odd","content":[{"text":"","type":"text","future":1e2}],"z":null}',
    ),
    "elicitation by a form": ("elicitation/create", FORM, '{"content":{"z":1.0,"a":[null]},"action":"accept","b":0}'),
    "elicitation by a URL": ("elicitation/create", URL, '{"action":"cancel","_meta":{"z":1.0}}'),
    "roots": ("roots/list", None, '{"roots":[{"uri":"file:///a b","name":null,"_meta":{"a":1.0}}],"future":{"":0}}'),
    "ping": ("ping", None, '{"future":null}'),
    "a custom method": ("acme/ask", '{"z":1.0,"a":"\\ud800"}', '{"z":1152921504606846977,"a":null}'),
}


async def asks_twice(ends: Ends, row: str) -> None:
    """Let the server ask in two calls, with ids that are those of the calls and others."""
    method, params, result = ASKED[row]

    async def works(asked: Asked) -> None:
        for message_id in ("q", asked.id, "1"):
            answer = await asked.ask(message_id, method, params)
            assert_same(answer.raw, ends.link.sent[-1])
        await asked.answer('{"content":[],"asked":true}')

    for call in (1, 2):
        ends.server.on("tools/call", works)
        await ends.link.start("tools/call", {"name": "t"}, message_id=call)
        for message_id in ("q", call, "1"):
            asked = await ends.link.next()
            ends.assert_arrived(asked, ends.server.said[-1])
            assert asked.message["id"] == message_id
            await ends.link.answer(asked, result, ',"future":{"a":1.0}')
        ends.assert_arrived(await ends.link.answer_to(call), ends.server.said[-1])


@with_sessions
async def test_sampling_during_a_call_twice_in_one_session(case: Case) -> None:
    async with talking(case) as ends:
        await asks_twice(ends, "sampling")


@with_sessions
@pytest.mark.parametrize("row", ["elicitation by a form", "elicitation by a URL"])
async def test_elicitation_during_a_call_twice_in_one_session(case: Case, row: str) -> None:
    async with talking(case) as ends:
        await asks_twice(ends, row)


@with_sessions
async def test_roots_during_a_call_twice_in_one_session(case: Case) -> None:
    async with talking(case) as ends:
        await asks_twice(ends, "roots")


@with_sessions
@pytest.mark.parametrize("row", ["ping", "a custom method"])
async def test_other_questions_during_a_call_twice_in_one_session(case: Case, row: str) -> None:
    async with talking(case) as ends:
        await asks_twice(ends, row)


@with_sessions
async def test_a_refusal_with_code_and_data(case: Case) -> None:
    async def works(asked: Asked) -> None:
        answer = await asked.ask("q", "elicitation/create", FORM)
        assert_same(answer.raw, ends.link.sent[-1])
        await asked.answer("{}")

    async with talking(case) as ends:
        ends.server.on("tools/call", works)
        call = await ends.link.start("tools/call", {"name": "t"})
        await ends.link.refuse(await ends.link.next(), '{"message":"no","data":{"z":[1.0],"a":null},"code":-1,"b":0}')
        await ends.link.answer_to(call)


@with_sessions
async def test_questions_that_are_answered_out_of_order(case: Case) -> None:
    async def works(asked: Asked) -> None:
        async def ask(message_id: object) -> None:
            answer = await asked.ask(message_id, "roots/list")
            assert answer.message["result"] == {"for": message_id}

        async with anyio.create_task_group() as group:
            for message_id in (1, "1", 2):
                group.start_soon(ask, message_id)
        await asked.answer("{}")

    async with talking(case) as ends:
        ends.server.on("tools/call", works)
        call = await ends.link.start("tools/call", {"name": "t"}, message_id=1)
        questions = [await ends.link.next() for _ in range(3)]
        for question in reversed(questions):
            await ends.link.answer(question, {"for": question.message["id"]})
        await ends.link.answer_to(call)


@with_sessions
async def test_a_question_outside_of_any_call(case: Case) -> None:
    async with talking(case) as ends:
        peer = ends.server.heard[-1].peer
        for message_id in ("q", 100):
            question = f'{{"jsonrpc":"2.0","method":"roots/list","id":{message_id!r},"future":1.0}}'.replace("'", '"')
            await peer.push(question)
            asked = await ends.link.next()
            ends.assert_arrived(asked, question.encode())
            await ends.link.answer(asked, '{"roots":[]}')
            assert_same((await peer.answer_to(message_id)).raw, ends.link.sent[-1])
