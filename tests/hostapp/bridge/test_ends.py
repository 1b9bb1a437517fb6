"""The end of the gateway ends everything, and what is idle does nothing."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import anyio
import pytest

import midspan.bridge._session_front as session_front
from tests.hostapp.bridge.fronted import HOLD, alone, begin, fronted, initialize, listen, seen_reaches, stream
from tests.hostapp.http.wire import HANDSHAKE, JSON_HEADERS, stateless
from tests.hostapp.relay.harness import alive, gone, request, result, send, server_command, written

pytestmark = pytest.mark.anyio

LISTEN = stateless("subscriptions/listen")


async def test_all_servers_end_with_the_gateway_although_streams_are_open(log: Path, tmp_path: Path) -> None:
    pids: list[int] = []
    before = asyncio.all_tasks()
    with anyio.fail_after(15):
        async with fronted(server_command(log, stay=True)) as link:
            for number in range(3):
                file = tmp_path / str(number)
                session = await begin(link, ("tell", str(file)), send(result(0, {})))
                pids.append((await written(file))["pid"])
                await listen(link, session)
                connection = await link.connect()
                await connection.start("POST", request(1, "a", None, HOLD), [*HANDSHAKE, ("mcp-session-id", session)])
            file = tmp_path / "alone"
            acknowledged = b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}'
            steps = ("tell", str(file)), send(acknowledged.replace(b"}", b',"params":{"progressToken":1}}'))
            await stream(link, alone(1, *steps, method="subscriptions/listen", token=b"1"), LISTEN)
            pids.append((await written(file))["pid"])
            await seen_reaches(log, 7)
        assert not any(alive(pid) for pid in pids)
        while left := asyncio.all_tasks() - before - {asyncio.current_task()}:
            await asyncio.wait(left)


async def test_a_subscription_ends_in_an_orderly_way_when_the_gateway_stops(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        own = await listen(link, session)
        said = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}'
        events = await stream(link, alone(1, send(said), method="subscriptions/listen", token=b"1"), LISTEN)
        await events.next()
        link.gateway.stop()
        assert await events.rest() == []
        assert await own.rest() == []
        assert (await listen(link, session)).head.status == 503
        assert (await link.post(alone(2, method="subscriptions/listen"), LISTEN)).status == 503
        assert (await link.post(request(1, "ping"), session=session)).status == 200


async def test_nothing_is_started_after_the_end(log: Path, tmp_path: Path) -> None:
    async with fronted(log) as link:
        await link.gateway.__aexit__(None, None, None)
        response = await link.post(initialize(("tell", str(tmp_path / "it"))), JSON_HEADERS)
        assert response.status == 503
        assert (await link.post(alone(1), stateless("tools/list"))).status == 503


async def test_an_idle_session_ends_and_one_with_a_stream_does_not(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_front, "IDLE", 0.5)
    async with fronted(log) as link:
        pids: list[int] = []
        sessions: list[str] = []
        for name in ("a", "b"):
            sessions.append(await begin(link, ("tell", str(tmp_path / name)), send(result(0, {}))))
            pids.append((await written(tmp_path / name))["pid"])
        events = await listen(link, sessions[0])
        await gone(pids[1])
        assert alive(pids[0])
        await events.connection.close()
        await gone(pids[0])


async def test_an_idle_gateway_sets_no_timers(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        await link.post(alone(1), stateless("tools/list"))
        await listen(link, session)
        for _ in range(10):
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        set_at: list[float] = []
        call_at = loop.call_at

        def noting(when: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
            set_at.append(when)
            return call_at(when, *rest, **more)

        monkeypatch.setattr(loop, "call_at", noting)
        with anyio.move_on_after(0.3):
            await anyio.sleep_forever()
        assert len([when for when in set_at if math.isfinite(when)]) == 1  # the deadline above
