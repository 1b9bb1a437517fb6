"""`list_interceptors` against servers that are not ours."""

import logging
from typing import Any

import pytest
from mcp.server import Server
from mcp_types import RequestParams

from midspan_sdk import Hook, PeerError
from midspan_sdk.mcp import list_interceptors

pytestmark = pytest.mark.anyio

GOOD: dict[str, Any] = {
    "name": "good",
    "type": "validation",
    "hooks": [{"events": ["tools/call"], "phase": "request"}],
}


class ListParams(RequestParams):
    """Parameters of the fake."""

    event: Any = None
    cursor: Any = None


def peer(*pages: Any, calls: list[ListParams] | None = None, total: int | None = None) -> Server[Any]:
    """Return a server that answers with these pages, or with endless pages."""
    server = Server("peer")

    async def answer(ctx: Any, params: ListParams) -> dict[str, Any]:
        if calls is not None:
            calls.append(params)
        index = int(params.cursor or 0)
        page = pages[min(index, len(pages) - 1)]
        more = total is None and index < len(pages) - 1
        return {**page, "nextCursor": str(index + 1)} if more else page

    server.add_request_handler("interceptors/list", ListParams, answer)
    return server


def page(*descriptors: Any, **rest: Any) -> dict[str, Any]:
    return {"interceptors": list(descriptors), **rest}


async def test_all_pages_are_read_and_the_filter_goes_with_each(connect: Any) -> None:
    calls: list[ListParams] = []
    server = peer(*(page({**GOOD, "name": name}) for name in ("a", "b", "c")), calls=calls)
    async with connect(server=server) as client:
        assert [one.name for one in await list_interceptors(client, "tools/call")] == ["a", "b", "c"]
    assert [call.event for call in calls] == ["tools/call"] * 3
    assert [call.cursor for call in calls] == [None, "1", "2"]


async def test_a_repeating_cursor_is_an_error_not_a_loop(connect: Any) -> None:
    async with connect(server=peer(page(nextCursor="0"))) as client:
        with pytest.raises(PeerError, match=r"'peer'.*repeats the cursor"):
            await list_interceptors(client)


async def test_endless_pages_are_an_error(connect: Any) -> None:
    calls: list[ListParams] = []
    server = Server("peer")

    async def answer(ctx: Any, params: ListParams) -> dict[str, Any]:
        calls.append(params)
        return page(nextCursor=str(len(calls)))

    server.add_request_handler("interceptors/list", ListParams, answer)
    async with connect(server=server) as client:
        with pytest.raises(PeerError, match="does not come to an end"):
            await list_interceptors(client)
    assert len(calls) <= 200


@pytest.mark.parametrize(
    ("descriptor", "where"),
    [
        ({**GOOD, "hooks": []}, r"descriptor 'good': hooks"),
        ({**GOOD, "hooks": [{"events": ["a"], "phase": "later"}]}, r"descriptor 'good': hooks\.0\.phase"),
        ({**GOOD, "priorityHint": 2**31}, r"descriptor 'good': priorityHint"),
        ({**GOOD, "mode": "maybe"}, r"descriptor 'good': mode"),
        ({**GOOD, "name": ""}, r"descriptor number 2: name"),
        ({**GOOD, "name": "a\x00b"}, r"descriptor .*: name: contains the control character"),
        ({key: GOOD[key] for key in ("name", "hooks")}, r"descriptor 'good': type"),
        ({**GOOD, "configSchema": {"type": "string"}}, r"descriptor 'good': configSchema"),
        ({**GOOD, "name": "fine"}, r"descriptor 'fine': name: is used twice"),
        ("good", r"descriptor number 2"),
        (None, r"descriptor number 2"),
    ],
)
async def test_one_bad_descriptor_fails_the_listing_and_is_named(connect: Any, descriptor: Any, where: str) -> None:
    async with connect(server=peer(page({**GOOD, "name": "fine"}, descriptor))) as client:
        with pytest.raises(PeerError, match=where):
            await list_interceptors(client)


async def test_an_unknown_type_is_left_out_with_a_warning(connect: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with connect(server=peer(page({**GOOD, "name": "odd", "type": "oracle"}, GOOD))) as client:
        assert [one.name for one in await list_interceptors(client)] == ["good"]
    records = [record for record in caplog.records if record.name == "midspan.mcp"]
    assert [record.levelno for record in records] == [logging.WARNING]
    assert "'odd'" in records[0].getMessage()
    assert "'oracle'" in records[0].getMessage()


async def test_older_and_newer_shapes_are_read(connect: Any) -> None:
    older = {"name": "older", "type": "mutation", "hook": {"events": ["a"], "phase": "both"}, "mode": "enforce"}
    newer = {**GOOD, "name": "newer", "colour": "blue", "mode": "", "priorityHint": {"response": 3}}
    async with connect(server=peer(page(older, newer))) as client:
        first, second = await list_interceptors(client)
    assert first.hooks == (Hook(events=("a",), phase="request"), Hook(events=("a",), phase="response"))
    assert (first.mode, second.mode) == ("active", "active")
    assert second.priority("response") == 3


@pytest.mark.parametrize("result", [{}, {"interceptors": None}, {"interceptors": {"a": 1}}])
async def test_a_result_without_a_list_is_an_error(connect: Any, result: Any) -> None:
    async with connect(server=peer(result)) as client:
        with pytest.raises(PeerError, match="has no list 'interceptors'"):
            await list_interceptors(client)


async def test_a_cursor_that_is_no_string_is_an_error(connect: Any) -> None:
    async with connect(server=peer(page(nextCursor=1))) as client:
        with pytest.raises(PeerError, match="nextCursor"):
            await list_interceptors(client)


async def test_a_server_that_does_not_serve_interceptors_is_an_error(connect: Any) -> None:
    async with connect(server=Server("tools only")) as client:
        with pytest.raises(
            PeerError, match=r"'tools only': serves no interceptors: it does not know interceptors/list"
        ):
            await list_interceptors(client)


async def test_a_closed_client_is_an_error(connect: Any) -> None:
    async with connect(server=peer(page(GOOD))) as client:
        session = client.session
    for closed in (client, session):
        with pytest.raises(PeerError, match="connection is closed"):
            await list_interceptors(closed)


async def test_an_event_that_cannot_be_sent_is_refused_before_anything_is_sent(connect: Any) -> None:
    calls: list[ListParams] = []
    async with connect(server=peer(page(), calls=calls)) as client:
        with pytest.raises(ValueError, match="lone surrogate"):
            await list_interceptors(client, "\ud800")
    assert calls == []
