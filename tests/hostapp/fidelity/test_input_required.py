"""Calls that take rounds, since 2026-07-28: the server answers with questions, and the client asks again."""

from __future__ import annotations

import json

import pytest

from .ends import talking
from .pairs import Case, without_sessions

pytestmark = pytest.mark.anyio

STATES = ["b3BhcXVl/+==", "", " \\u2028\\u0000\\/\\ud800 ", "\U0001f600\\ud83d\\ude00", "x" * 100_000]
QUESTIONS = (
    '{"q 2":{"params":{"message":"\\ud800","requestedSchema":{"type":"object","z":1.0}},"method":"elicitation/create"},'
    '"":{"method":"roots/list"},"a":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1e2}},'
    '"url":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","elicitationId":"e","message":""}}}'
)
ANSWERS = (
    '{"q 2":{"content":{"z":1.0,"a":null},"action":"accept"},"":{"roots":[]},"a":{"role":"assistant","content":[],'
    '"model":"m","future":null},"url":{"action":"decline"}}'
)
METHODS = [
    ("tools/call", '"name":"t","arguments":{"z":1.0}'),
    ("prompts/get", '"name":"p","arguments":{}'),
    ("resources/read", '"uri":"a://b"'),
]


@without_sessions
@pytest.mark.parametrize(("method", "params"), METHODS, ids=[method for method, _ in METHODS])
async def test_rounds_of_input_and_the_state_of_the_request(case: Case, method: str, params: str) -> None:
    async with talking(case) as ends:
        sent = ""
        for state in STATES:
            text = f'"{state}"'
            answer = await ends.exchange(
                method,
                f"{{{params}{sent}}}",
                result=f'{{"requestState":{text},"inputRequests":{QUESTIONS},"resultType":"input_required","z":1.0}}',
            )
            assert answer.message["result"]["requestState"] == json.loads(text)
            sent = f',"inputResponses":{ANSWERS},"requestState":{text},"future":null'
        await ends.exchange(method, f"{{{params}{sent}}}", result='{"resultType":"complete","content":[],"z":1e2}')
        assert ends.server.methods().count(method) == len(STATES) + 1


@without_sessions
async def test_a_round_without_questions_and_one_without_state(case: Case) -> None:
    async with talking(case) as ends:
        for result in (
            '{"resultType":"input_required","requestState":"again"}',
            '{"resultType":"input_required","inputRequests":{}}',
            '{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list","params":{}}}}',
            '{"resultType":"a type of its own","requestState":null}',
        ):
            await ends.exchange("tools/call", {"name": "t"}, result=result)
