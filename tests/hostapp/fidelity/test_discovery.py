"""What a server says of itself: who it is, what it can do, and which version is spoken."""

from __future__ import annotations

import pytest

from .ends import connected, talking
from .eras import Era
from .pairs import Case, everywhere, with_sessions, without_sessions

pytestmark = pytest.mark.anyio

IDENTITY = (
    '"serverInfo":{"websiteUrl":"https://example.com/?a=\\u00e9","version":"1.0","title":"T \U0001f600","name":"n",'
    '"icons":[{"theme":"dark","src":"data:,","sizes":["any"],"future":null}],"future":[1.0,1e2]},'
    '"instructions":"Do \\"this\\"\\n\\u2028and \\ud800 that.","_meta":{"io.x/y":{"z":null}}'
)
CAPABILITIES = (
    '"capabilities":{"tools":{"listChanged":true,"future":1.0},"resources":{"subscribe":true,"listChanged":false},'
    '"experimental":{"":{"y":null},"a/b":{"n":1152921504606846977}},"prompts":{},"logging":{},"completions":{},'
    '"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]},"a.b/c":{"z":1.0,"a":{}}},"future":[null]}'
)
HELLO = {
    Era.HANDSHAKE: '{%s,"protocolVersion":"2025-11-25","future":null}',
    Era.STATELESS: '{%s,"supportedVersions":["2026-07-28","2099-01-01"],"resultType":"complete","ttlMs":1.5,'
    '"cacheScope":"public","future":null}',
}
METHODS = {Era.HANDSHAKE: "initialize", Era.STATELESS: "server/discover"}


async def hears(case: Case, result: str) -> None:
    async with connected(case) as ends:
        ends.server.says(METHODS[case.era], result, ',"future":{"a":1.0}')
        answer = await ends.begin()
        ends.assert_arrived(answer, ends.server.said[0])
        ends.assert_heard(ends.server.heard[0], ends.link.sent[0])
        await ends.exchange("ping")
        assert ends.server.methods().count(METHODS[case.era]) == 1


@everywhere
async def test_server_info_and_instructions(case: Case) -> None:
    await hears(case, HELLO[case.era] % (IDENTITY + ',"capabilities":{}'))


@everywhere
async def test_capabilities_of_both_sides(case: Case) -> None:
    await hears(case, HELLO[case.era] % (CAPABILITIES + ',"serverInfo":{"name":"","version":""}'))


@with_sessions
@pytest.mark.parametrize("agreed", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
@pytest.mark.parametrize("wanted", ["the same", "2025-11-25"])
async def test_the_negotiated_version_is_the_direct_one(case: Case, wanted: str, agreed: str) -> None:
    async with connected(case) as ends:
        ends.server.says("initialize", f'{{"protocolVersion":"{agreed}","capabilities":{{}},"serverInfo":{{}}}}')
        await ends.begin(agreed if wanted == "the same" else wanted)
        assert ends.link.version == agreed
        ends.assert_heard(ends.server.heard[0], ends.link.sent[0])
        await ends.exchange("tools/list", result='{"tools":[]}')  # over HTTP the server looks at the version's header


@without_sessions
async def test_every_request_of_2026_reaches_the_server_as_one_of_2026(case: Case) -> None:
    async with talking(case) as ends:
        await ends.exchange("tools/call", {"name": "\u00e9 \U0001f600", "arguments": {}})
        await ends.exchange("resources/read", {"uri": "a://b c"})
        await ends.exchange("acme/turn", {"name": "no target"})
        assert ends.server.methods() == ["server/discover", "tools/call", "resources/read", "acme/turn"]


@without_sessions
async def test_a_server_that_knows_no_2026_says_so_itself(case: Case) -> None:
    async with connected(case) as ends:
        answer = await ends.exchange(
            "server/discover",
            error='{"code":-32022,"message":"Unsupported","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}',
            status="400 Bad Request",
        )
        assert answer.message["error"]["data"]["supported"] == ["2025-11-25"]
