"""A client whose connection breaks comes back for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostapp.bridge.fronted import Events, begin, fronted, listen, progress, stream, telling
from tests.hostapp.http.wire import HANDSHAKE, JSON_HEADERS, Link, notification
from tests.hostapp.relay.harness import request, result, send, written

pytestmark = pytest.mark.anyio

LOG = notification("notifications/message", {"level": "info", "data": "x"})
OLD = [*JSON_HEADERS, ("mcp-protocol-version", "2025-06-18")]


async def broken(link: Link, session: str, tmp_path: Path) -> Events:
    """Return a stream that broke after its first message; three more came since."""
    body = request(
        1,
        "a",
        {"_meta": {"progressToken": "t"}},
        send(progress("t", "one")),
        ("read", 1),
        send(progress("t", "two"), LOG, result(1, {"late": True})),
        ("tell", str(tmp_path / "said")),
    )
    events = await stream(link, body, session=session)
    assert (await events.next())["params"]["message"] == "one"
    await events.connection.close()
    await link.post(notification("notifications/x"), session=session)
    await written(tmp_path / "said")
    return events


async def test_the_rest_comes_exactly_once(log: Path, tmp_path: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        events = await broken(link, session, tmp_path)
        resumed = await listen(link, session, events.last_id)
        assert [one.get("method", one.get("id")) for one in await resumed.rest()] == [
            "notifications/progress",
            "notifications/message",
            1,
        ]
        assert await (await listen(link, session, resumed.last_id)).rest() == []
        again = await listen(link, session, events.last_id)
        assert len(await again.rest()) == 3
        assert (await link.post(request(1, "ping"), session=session)).json()["result"] == {}


async def test_a_stream_is_taken_over_while_it_goes_on(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        steps = send(progress("t", "one")), ("read", 1), send(progress("t", "two"), result(1, {}))
        events = await stream(link, request(1, "a", {"_meta": {"progressToken": "t"}}, *steps), session=session)
        assert (await events.next())["params"]["message"] == "one"
        resumed = await listen(link, session, events.last_id)
        assert await events.rest() == []  # one reader at a time
        await link.post(notification("notifications/x"), session=session)
        assert len(await resumed.rest()) == 2


async def test_the_own_stream_of_a_session_is_resumed_too(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        events = await listen(link, session)
        await link.post(telling({"method": "notifications/x"}, send(LOG, LOG)), session=session)
        assert await events.raw() == LOG
        await events.connection.close()
        resumed = await listen(link, session, "0-1")
        assert await resumed.raw() == LOG
        assert resumed.last_id == "0-2"


@pytest.mark.parametrize("last_id", ["x", "7", "7-1", "-", "1-x", "9" * 5000 + "-1", "²-1"])
async def test_there_is_nothing_to_go_on_from_at_an_unknown_event(log: Path, last_id: str) -> None:
    async with fronted(log) as link:
        refused = await listen(link, await begin(link), last_id)
        assert refused.head.status == 400


async def test_streams_begin_with_an_event_for_clients_that_can_read_it(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        events = await stream(link, request(1, "a", None, send(LOG, result(1, {}))), session=session)
        assert len(await events.rest()) == 2
        assert events.primed
        assert events.last_id == "2-2"
        assert len(await (await listen(link, session, "2-0")).rest()) == 2
        old = await stream(link, request(2, "a", None, send(LOG, result(2, {}))), OLD, session=session)
        assert len(await old.rest()) == 2
        assert not old.primed
        assert old.last_id == "3-2"


async def test_old_streams_are_forgotten(log: Path) -> None:
    async with fronted(log) as link:
        session = await begin(link)
        connection = await link.connect()
        for number in range(1, 70):
            response = await connection.post(
                request(number, "a", None, send(LOG, result(number, {}))), HANDSHAKE, session=session
            )
            assert response.header("content-type") == "text/event-stream"
        assert (await listen(link, session, "2-1")).head.status == 400
        assert len(await (await listen(link, session, "60-1")).rest()) == 1
