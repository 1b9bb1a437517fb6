"""Many clients at once, with the same ids and the same progress tokens, cancelling at random."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from midspan_sdk import mutator, validator
from tests.hostapp.bridge.fronted import begin, fronted, stream
from tests.hostapp.http.wire import STATELESS_META, Link, call, notification, stateless

pytestmark = pytest.mark.anyio

COMMAND = [sys.executable, "-I", "-S", str(Path(__file__).with_name("slow_server.py")), "7"]
SESSIONS = 50
ALONE = 100
CALLS = 3


@validator(events=["*"], phase="both", errors=True)
async def lets_others_go_first(payload: dict[str, Any]) -> None:
    await asyncio.sleep(0)


@mutator(events=["tools/call"], phase="response")
def names_the_asker(payload: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "asked": request["arguments"]["me"]}


async def one_client(link: Link, me: str, session: str | None) -> None:
    choice = random.Random(me)
    for message_id in range(1, CALLS + 1):
        waits = choice.random() < 0.3
        meta = {"progressToken": 1} if session else {"progressToken": 1, **STATELESS_META}
        body = call(message_id, "echo", {"me": me, "waits": waits}, _meta=meta)
        fields = {} if session else {"fields": stateless("tools/call", "echo")}
        events = await stream(link, body, session=session, **fields)
        assert (await events.next())["params"] == {"progressToken": 1, "message": me}
        if waits and session:
            await link.post(notification("notifications/cancelled", {"requestId": message_id}), session=session)
            assert (await events.next())["error"]["code"] == -32800
        elif not waits:
            *noted, answer = await events.rest()
            assert {one["params"]["message"] for one in noted} == {me}
            assert answer == {"jsonrpc": "2.0", "id": message_id, "result": {"for": me, "asked": me}}
        await events.connection.close()


async def test_every_answer_reaches_its_session() -> None:
    async with fronted(COMMAND, lets_others_go_first, names_the_asker) as link, asyncio.TaskGroup() as group:
        sessions = await asyncio.gather(*(begin(link) for _ in range(SESSIONS)))
        for number, session in enumerate(sessions):
            group.create_task(one_client(link, f"s{number}", session))


async def test_every_answer_reaches_its_request() -> None:
    async with fronted(COMMAND, lets_others_go_first, names_the_asker) as link, asyncio.TaskGroup() as group:
        for number in range(ALONE):
            group.create_task(one_client(link, f"a{number}", None))
