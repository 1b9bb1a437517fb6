"""Listings: pages, and what the specification does not know yet."""

from __future__ import annotations

import pytest

from .awkward import UNKNOWN
from .ends import talking
from .pairs import Case, everywhere
from .server.asked import Asked

pytestmark = pytest.mark.anyio

LISTINGS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
TOOLS = (
    '{"tools":[{"title":"T \U0001f600","name":"t","inputSchema":{"$schema":"https://x","type":"object","$defs":{"a":'
    '{"const":1.0}},"properties":{"":{"default":null}},"x-future":[]},"outputSchema":{"type":"object","z":0},'
    '"annotations":{"readOnlyHint":true,"title":null,"future":{"z":0,"a":1e2}},"icons":[{"src":"data:,","future":1}],'
    '"execution":{"taskSupport":"optional"},"_meta":{"a/b":{}},"future":null},{"name":"","inputSchema":{}},'
    '{"inputSchema":{"type":"object"},"name":"t"}],"future":{"":null},"_meta":{"z":1.0}}'
)


@everywhere
async def test_pages_with_cursors(case: Case) -> None:
    async def pages(asked: Asked) -> None:
        cursor = asked.params.get("cursor", "")
        then = "" if cursor == "xxx" else f',"nextCursor":"{cursor}x"'
        await asked.answer(f'{{"{LISTINGS[asked.method]}":[]{then},"page":{len(cursor)}.0}}')

    async with talking(case) as ends:
        for method in LISTINGS:
            cursors: list[str | None] = [None]
            for cursor in cursors:
                params = None if cursor is None else {"cursor": cursor, "future": None}
                page = await ends.exchange(method, params, script=pages)
                if then := page.message["result"].get("nextCursor"):
                    cursors.append(then)
            assert cursors == [None, "x", "xx", "xxx"]
        assert len(ends.server.heard) == len(ends.link.sent)


@everywhere
async def test_a_cursor_that_repeats_is_the_servers_affair(case: Case) -> None:
    async with talking(case) as ends:
        for _ in range(3):
            page = await ends.exchange("tools/list", {"cursor": "again"}, result='{"tools":[],"nextCursor":"again"}')
            assert page.message["result"]["nextCursor"] == "again"
        assert ends.server.methods().count("tools/list") == 3


@everywhere
async def test_an_empty_cursor_is_one(case: Case) -> None:
    async with talking(case) as ends:
        await ends.exchange("prompts/list", {"cursor": ""}, result='{"prompts":[],"nextCursor":""}')


@everywhere
async def test_unknown_keys_of_tools_annotations_and_results(case: Case) -> None:
    async with talking(case) as ends:
        await ends.exchange("tools/list", '{"future":{"z":[null],"a":1.0},"cursor":null}', result=TOOLS, more=UNKNOWN)
