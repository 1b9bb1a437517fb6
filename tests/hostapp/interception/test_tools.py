"""Handlers that take `tools` see what the client was shown, and nothing is read for those that do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from midspan_sdk import Answer, ToolCatalog, UnmetNeedError, deny, mutator, sink, validator
from midspan_sdk.mcp import InterceptorsExtension
from tests.hostapp.relay.harness import Link, guarded, notification, request, result, send

pytestmark = pytest.mark.anyio

LIST, CALL = "tools/list", "tools/call"
ERAS = pytest.mark.parametrize("meta", [None, {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}])


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


class Looking:
    """A validator that says what it sees in the catalogue when a tool is called."""

    def __init__(self, look: Callable[[ToolCatalog], object] = sorted) -> None:
        self.seen: list[Any] = []
        self._look = look

    @validator(events=[CALL], phase="request")
    def look(self, tools: ToolCatalog) -> None:
        self.seen.append(self._look(tools))


async def listed(
    link: Link, tools: Sequence[Any], *, cursor: str | None = None, following: str | None = None, meta: Any = None
) -> Any:
    """List the tools: the server shows these."""
    params: dict[str, Any] = {"cursor": cursor} if cursor is not None else {}
    page: dict[str, Any] = {"tools": list(tools)}
    if following is not None:
        page["nextCursor"] = following
    if meta is not None:
        params["_meta"] = meta
        page |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    return await link.call("list", LIST, params, send(result("list", page)))


async def call(link: Link, name: str = "a", meta: Any = None) -> Any:
    return await link.call("call", CALL, {"name": name} | ({"_meta": meta} if meta else {}))


@ERAS
async def test_a_handler_sees_the_tools_that_were_listed_and_none_before(log: Path, meta: Any) -> None:
    guard = Looking(lambda tools: {name: tools.get(name) for name in tools})
    async with guarded(log, guard.look) as link:
        await call(link, meta=meta)
        await listed(link, [tool("a", annotations={"readOnlyHint": True}), tool("b")], meta=meta)
        await call(link, meta=meta)
    assert guard.seen == [{}, {"a": tool("a", annotations={"readOnlyHint": True}), "b": tool("b")}]


async def test_it_sees_them_as_the_client_does(log: Path) -> None:
    @mutator(events=[LIST], phase="response")
    def hide(payload: dict[str, Any]) -> dict[str, Any]:
        kept = [{**one, "title": "T"} for one in payload["tools"] if one["name"] != "b"]
        return {**payload, "tools": kept}

    guard = Looking(lambda tools: {name: tools.get(name) for name in tools})
    async with guarded(log, hide, guard.look) as link:
        await listed(link, [tool("a"), tool("b")])
        await call(link)
    assert guard.seen == [{"a": tool("a", title="T")}]


async def test_a_listing_that_only_the_catalogue_reads_passes_byte_for_byte(log: Path) -> None:
    line = b'{"id": "list",  "jsonrpc":"2.0","result":{"tools":[{"name":"a","n":1.0,"inputSchema":{}}],"x":"\\u0041"}}'
    guard = Looking(lambda tools: tools.get("a"))
    async with guarded(log, guard.look) as link:
        await link.send(request("list", LIST, None, send(line)))
        assert await link.receive() == line
        await call(link)
    assert guard.seen == [{"name": "a", "n": 1.0, "inputSchema": {}}]


async def test_what_two_readers_could_read_differently_passes_and_is_not_learnt(log: Path) -> None:
    line = b'{"id":"list","jsonrpc":"2.0","result":{"tools":[{"name":"a","name":"b"}]}}'
    guard = Looking()
    async with guarded(log, guard.look) as link:
        await link.send(request("list", LIST, None, send(line)))
        assert await link.receive() == line
        await call(link)
    assert guard.seen == [[]]


async def test_pages_add_up_and_what_is_gone_goes_with_the_last_page(log: Path) -> None:
    guard = Looking()
    async with guarded(log, guard.look) as link:
        await listed(link, [tool("old"), tool("a")])
        await listed(link, [tool("a")], following="2")
        await call(link)
        await listed(link, [tool("b")], cursor="2", following="3")
        await call(link)
        await listed(link, [tool("c")], cursor="3")
        await call(link)
    assert guard.seen == [["a", "old"], ["a", "b", "old"], ["a", "b", "c"]]


async def test_a_page_of_an_unknown_listing_only_adds(log: Path) -> None:
    guard = Looking()
    async with guarded(log, guard.look) as link:
        await listed(link, [tool("a")])
        await listed(link, [tool("b")], cursor="of an older listing")
        await call(link)
    assert guard.seen == [["a", "b"]]


async def test_two_listings_at_once_do_not_mix(log: Path) -> None:
    guard = Looking()
    async with guarded(log, guard.look) as link:
        await listed(link, [tool("a")], following="one-2")
        await listed(link, [tool("a"), tool("x")], following="two-2")
        await listed(link, [tool("b")], cursor="one-2")
        await call(link)
        await listed(link, [tool("y")], cursor="two-2")
        await call(link)
    assert guard.seen == [["a", "b", "x"], ["a", "x", "y"]]


async def test_a_listing_that_was_given_up_keeps_nothing(log: Path) -> None:
    guard = Looking()
    async with guarded(log, guard.look) as link:
        await listed(link, [tool("old")], following="2")
        await listed(link, [tool("a")])
        await call(link)
        await listed(link, [tool("b")], cursor="2")
        await call(link)
    assert guard.seen == [["a"], ["a", "b"]]


async def test_a_changed_list_keeps_the_old_tools_until_it_is_listed(log: Path) -> None:
    guard = Looking()
    async with guarded(log, guard.look) as link:
        await listed(link, [tool("a")])
        changed = notification("notifications/tools/list_changed")
        await link.call(7, CALL, {"name": "a"}, send(changed))
        await call(link)
        await listed(link, [tool("b")])
        await call(link)
    assert guard.seen == [["a"], ["a"], ["b"]]


async def test_of_a_tool_that_is_listed_twice_the_last_counts(log: Path) -> None:
    guard = Looking(lambda tools: tools.get("a"))
    async with guarded(log, guard.look) as link:
        await listed(link, [tool("a", title="1"), tool("a", title="2")])
        await call(link)
    assert guard.seen == [tool("a", title="2")]


@pytest.mark.parametrize("tools", [None, "a", [1, None, {"name": 1}, {}]])
async def test_a_listing_that_is_none_teaches_nothing(log: Path, tools: Any) -> None:
    guard = Looking()
    async with guarded(log, guard.look) as link:
        await link.call("list", LIST, None, send(result("list", {"tools": tools})))
        await call(link)
    assert guard.seen == [[]]


async def test_a_listing_that_did_not_reach_the_client_is_not_learnt(log: Path) -> None:
    @validator(events=[LIST], phase="response")
    def no(payload: dict[str, Any]) -> str | None:
        return "no" if len(payload["tools"]) == 2 else None

    guard = Looking()
    async with guarded(log, no, guard.look) as link:
        await listed(link, [tool("a")])
        await listed(link, [tool("a"), tool("b")])
        await call(link)
    assert guard.seen == [["a"]]


async def test_an_interceptors_own_listing_is_learnt_too(log: Path) -> None:
    @mutator(events=[LIST], phase="request")
    def answer(payload: dict[str, Any]) -> Answer:
        return Answer({"tools": [{"name": "mine"}]})

    guard = Looking(lambda tools: tools.get("mine"))
    async with guarded(log, answer, guard.look) as link:
        await link.call(1, LIST)
        await call(link)
    assert guard.seen == [{"name": "mine", "inputSchema": {"type": "object"}}]


async def test_a_handler_cannot_change_the_catalogue(log: Path) -> None:
    @validator(events=[CALL], phase="request", name="one")
    def spoil(tools: ToolCatalog) -> None:
        found = cast("dict[str, Any]", tools.get("a"))
        found["inputSchema"]["type"] = "spoilt"
        found["more"] = 1

    guard = Looking(lambda tools: tools.get("a"))
    async with guarded(log, spoil, guard.look) as link:
        await listed(link, [tool("a")])
        await call(link)
        await call(link)
    assert guard.seen == [tool("a"), tool("a")]


async def test_the_catalogue_does_not_change_while_a_message_is_judged(log: Path) -> None:
    kept: list[ToolCatalog] = []

    @sink(events=[CALL], phase="request")
    def keep(tools: ToolCatalog) -> None:
        kept.append(tools)

    async with guarded(log, keep) as link:
        await listed(link, [tool("a")])
        await call(link)
        await listed(link, [tool("b")])
        await call(link)
    assert [sorted(tools) for tools in kept] == [["a"], ["b"]]
    assert [len(tools) for tools in kept] == [1, 1]


async def test_a_policy_can_deny_by_what_a_tool_says_of_itself(log: Path) -> None:
    @validator(events=[CALL], phase="request")
    async def only_readers(payload: dict[str, Any], tools: ToolCatalog) -> Any:
        found = tools.get(payload["name"])
        if found is None or not found.get("annotations", {}).get("readOnlyHint"):
            return deny("no reader", info={"rule": "readers"})
        return None

    async with guarded(log, only_readers) as link:
        await listed(link, [tool("a", annotations={"readOnlyHint": True}), tool("b")])
        assert (await call(link, "a"))["result"] == {}
        assert (await call(link, "b"))["result"]["isError"] is True
        assert (await call(link, "c"))["result"]["isError"] is True


async def test_what_a_catalogue_remembers_is_bounded(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    guard = Looking(len)
    huge = "x" * (3 * 1024 * 1024)
    async with guarded(log, guard.look) as link:
        lines = [json.dumps(tool(name, description=huge)) for name in "abcd"]
        line = f'{{"jsonrpc":"2.0","id":"list","result":{{"tools":[{",".join(lines)}]}}}}'
        await link.send(request("list", LIST, None, send(line)))
        assert len(await link.receive()) == len(line)
        await call(link)
    assert guard.seen == [2]
    assert "2 tools of a listing are not remembered" in caplog.text


async def test_a_server_of_interceptors_cannot_give_a_catalogue() -> None:
    with pytest.raises(UnmetNeedError, match="needs the catalogue of tools, which this mount does not keep"):
        InterceptorsExtension(Looking())
