"""Many clients at once, with the same ids and the same progress tokens, cancelling at random."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import anyio
import pytest

from midspan_sdk import mutator, validator

from .wire import (
    HANDSHAKE,
    JSON_HEADERS,
    Answer,
    Connection,
    Link,
    call,
    events_of,
    guarded,
    notification,
    read_head,
    request,
    result,
    stateless,
    stateless_call,
)

pytestmark = pytest.mark.anyio

CLIENTS = 100
CALLS = 4


@validator(events=["*"], phase="both", errors=True)
async def lets_others_go_first(payload: dict[str, Any]) -> None:
    await asyncio.sleep(0)


@mutator(events=["tools/call"], phase="response")
def names_the_asker(payload: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "asked": request["arguments"]["me"]}


class Slow:
    """A server that answers in pieces, and not at all when a call is cancelled."""

    def __init__(self) -> None:
        self._cancelled: dict[tuple[str, int], asyncio.Event] = {}
        self._random = random.Random(7)

    async def __call__(self, answer: Answer) -> None:
        message = answer.request.json()
        session = answer.request.header("mcp-session-id") or ""
        if message["method"] == "initialize":
            fields = [("content-type", "application/json"), ("mcp-session-id", message["params"]["me"])]
            await answer.send(result(0, {}), fields=fields)
        elif message["method"] == "notifications/cancelled":
            self._cancelled[session, message["params"]["requestId"]].set()
            await answer.send(status="202 Accepted", fields=[])
        else:
            await self._work(answer, message, session)

    async def _work(self, answer: Answer, message: dict[str, Any], session: str) -> None:
        me = message["params"]["arguments"]["me"]
        await answer.stream(self._progress(0, me), end=False)
        if message["params"]["arguments"]["waits"]:
            cancelled = self._cancelled.setdefault((session, message["id"]), asyncio.Event())
            if not session:
                await answer.gone()
                return
            await cancelled.wait()
            del self._cancelled[session, message["id"]]
            await answer.write(
                b'data: {"jsonrpc":"2.0","id":%d,"error":{"code":-32800,"message":"over"}}\n\n' % message["id"]
            )
        else:
            for _ in range(self._random.randrange(4)):
                await asyncio.sleep(0)
            await answer.write(self._progress(1, me))
            await answer.write(b"data: " + result(message["id"], {"for": me}) + b"\n\n")
        await answer.end()

    @staticmethod
    def _progress(step: int, me: str) -> bytes:
        note = notification("notifications/progress", {"progressToken": 1, "progress": step, "message": me})
        return b"data: " + note + b"\n\n"


async def data_of(connection: Connection) -> dict[str, Any]:
    """Return the message of the next event."""
    (event,) = await events_of(connection, 1)
    return json.loads(event.removeprefix(b"data: "))


async def one_client(link: Link, number: int) -> None:
    me = f"c{number}"
    choice = random.Random(number)
    in_session = number % 2 == 0
    if in_session:
        await link.post(request(0, "initialize", {"me": me}), JSON_HEADERS)
    for message_id in range(1, CALLS + 1):
        cancels = choice.random() < 0.3
        arguments = {"me": me, "waits": cancels}
        connection = await link.connect()
        if in_session:
            fields = [*HANDSHAKE, ("mcp-session-id", me)]
            await connection.start("POST", call(message_id, arguments=arguments), fields)
        else:
            body = stateless_call(message_id, arguments=arguments)
            await connection.start("POST", body, stateless("tools/call", "echo"))
        await read_head(connection.reader)
        progress = await data_of(connection)
        assert progress["params"] == {"progressToken": 1, "progress": 0, "message": me}
        if not cancels:
            assert (await data_of(connection))["params"]["message"] == me
            assert (await data_of(connection))["result"] == {"for": me, "asked": me}
        elif in_session:
            note = notification("notifications/cancelled", {"requestId": message_id})
            assert (await link.post(note, session=me)).status == 202
            assert (await data_of(connection))["error"]["code"] == -32800
        await connection.close()


async def test_every_answer_reaches_its_owner() -> None:
    async with guarded(Slow(), lets_others_go_first, names_the_asker) as link, anyio.create_task_group() as group:
        for number in range(CLIENTS):
            group.start_soon(one_client, link, number)
