"""The catalogue of tools and the checks that stand on it, over HTTP: per session, or per principal without sessions."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer

from midspan.http import Catalogs
from midspan.interception import OUTPUT_RULE, VERDICT_KEY
from midspan_sdk import Chain, ToolCatalog, mutator, validator
from tests.patience import PATIENCE

from .wire import (
    HANDSHAKE,
    JSON_HEADERS,
    STATELESS_META,
    Answer,
    Fields,
    Link,
    call,
    gateway_to,
    guarded,
    notification,
    request,
    result,
    stateless,
    stateless_call,
)

pytestmark = pytest.mark.anyio

GIVES = ("session", "store", "tools", "ask")
LIST, CALL = "tools/list", "tools/call"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Looking:
    """A validator that keeps the names in the catalogue when a tool is called."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    @validator(events=[CALL], phase="request")
    def look(self, tools: ToolCatalog) -> None:
        self.seen.append(sorted(tools))


@mutator(events=[CALL], phase="response")
def spoil(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "structuredContent": {"n": "***"}}


async def server(answer: Answer) -> None:
    """List the tools that a client's cursor names, or those of its credentials; give out sessions."""
    message = answer.request.json()
    fields = [("content-type", "application/json")]
    if message.get("method") == "initialize":
        session = f"s{message['id']}"
        await answer.send(result(message["id"], {}), fields=[*fields, ("mcp-session-id", session)])
        return
    if message.get("method") == LIST:
        names = [message["params"].get("cursor") or answer.request.header("authorization") or "anybody"]
        tools = [{"name": name, "inputSchema": {"type": "object"}, "outputSchema": SCHEMA} for name in names]
        await answer.send(result(message["id"], {"tools": tools}), fields=fields)
        return
    body = result(message["id"], {"content": [], "structuredContent": {"n": 1}})
    if message["params"]["arguments"].get("stream"):
        await answer.stream(b"data: " + body + b"\n\n")
    else:
        await answer.send(body, fields=fields)


async def begin(link: Link, number: int) -> str:
    """Begin a session."""
    params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    session = (await link.post(request(number, "initialize", params), JSON_HEADERS)).header("mcp-session-id")
    assert session is not None
    return session


def stateless_list() -> bytes:
    return request(1, LIST, {"_meta": STATELESS_META})


def by(name: str, fields: Fields) -> Fields:
    return [*fields, ("authorization", name)]


def is_withheld(answer: Any) -> bool:
    withheld = answer["result"].get("isError") is True
    if withheld:
        assert answer["result"]["_meta"][VERDICT_KEY]["rule"] == OUTPUT_RULE
        assert "Do not retry" in answer["result"]["content"][0]["text"]
    return withheld


async def test_each_session_has_a_catalogue_of_its_own() -> None:
    guard = Looking()
    async with guarded(server, guard.look) as link:
        one, other = await begin(link, 1), await begin(link, 2)
        await link.post(request(1, LIST, {"cursor": "a"}), session=one)
        await link.post(request(1, LIST, {"cursor": "b"}), session=other)
        await link.post(call(2), session=one)
        await link.post(call(2), session=other)
        await link.post(call(2), session=one)
    assert guard.seen == [["a"], ["b"], ["a"]]


async def test_without_sessions_each_principal_has_one_and_all_who_present_nothing_share_theirs() -> None:
    guard = Looking()
    async with guarded(server, guard.look) as link:
        for who in ("ann", "bob"):
            await link.post(stateless_list(), by(who, stateless(LIST)))
        for who in ("ann", "bob", "eve"):
            await link.post(stateless_call(2), by(who, stateless(CALL, "echo")))
        await link.post(stateless_call(2), stateless(CALL, "echo"))
        await link.post(stateless_list(), stateless(LIST))
        await link.post(stateless_call(2), stateless(CALL, "echo"))
    assert guard.seen == [["ann"], ["bob"], [], [], ["anybody"]]


async def test_requests_of_servers_that_give_out_no_sessions_share_their_principals() -> None:
    guard = Looking()
    async with guarded(server, guard.look) as link:
        await link.post(request(1, LIST, {}), by("ann", HANDSHAKE))
        await link.post(call(2), by("ann", HANDSHAKE))
        await link.post(call(2), HANDSHAKE)
    assert guard.seen == [["ann"], []]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_result_that_a_mutator_broke_is_withheld_in_both_eras(stream: bool) -> None:
    arguments = {"stream": stream}

    def found(body: bytes) -> Any:
        return json.loads(body.partition(b"data: ")[2] if stream else body)

    async with guarded(server, spoil) as link:
        session = await begin(link, 1)
        await link.post(request(1, LIST, {"cursor": "echo"}), session=session)
        answer = found((await link.post(call(2, arguments=arguments), session=session)).body)
        assert is_withheld(answer)
        assert "resultType" not in answer["result"]
        fields = by("echo", stateless(CALL, "echo"))
        # Nobody knows what the tool promises before its client does.
        assert not is_withheld(found((await link.post(stateless_call(2, arguments=arguments), fields)).body))
        await link.post(stateless_list(), by("echo", stateless(LIST)))
        answer = found((await link.post(stateless_call(2, arguments=arguments), fields)).body)
        assert is_withheld(answer)
        assert answer["result"]["resultType"] == "complete"


async def test_one_clients_listing_says_nothing_of_anothers_tools() -> None:
    async with guarded(server, spoil) as link:
        await link.post(stateless_list(), by("echo", stateless(LIST)))
        answer = await link.post(stateless_call(2), by("bob", stateless(CALL, "echo")))
        assert not is_withheld(answer.json())


async def test_a_chain_that_needs_no_tools_remembers_none() -> None:
    @validator(events=[CALL], phase="both")
    def look(payload: dict[str, Any]) -> None:
        return None

    async with guarded(server, look) as link:
        await link.post(stateless_list(), stateless(LIST))
        kept = link.gateway._endpoint._conversations._catalogs  # pyright: ignore # what costs memory
        assert (len(kept._kept), kept.size) == (0, 0)  # pyright: ignore


async def test_servers_own_listings_get_schemas_when_the_operator_wants_it() -> None:
    async def bare(answer: Answer) -> None:
        await answer.send(result(answer.request.json()["id"], {"tools": [{"name": "a"}], "n": 1}))

    async with guarded(bare, coerce_input_schemas=True) as link:
        answer = await link.post(request(1, LIST))
        assert answer.json()["result"] == {"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "n": 1}
    async with guarded(bare) as link:
        assert (await link.post(request(1, LIST))).json()["result"] == {"tools": [{"name": "a"}], "n": 1}


# A server that is reached over lines


def behind() -> MCPServer:
    """Return a server with one tool that promises a number."""
    made = MCPServer("behind")

    @made.tool()
    def echo() -> int:
        """Return a number."""
        return 1

    del echo
    return made


@asynccontextmanager
async def bridged(*interceptors: object, **options: Any) -> AsyncGenerator[Link]:
    """Run the gateway in front of a server object."""
    chain = Chain(gives=GIVES)
    chain.add(*interceptors)
    with anyio.fail_after(PATIENCE):
        async with chain, gateway_to(behind(), chain, **options) as link:  # pyright: ignore[reportArgumentType] - any backend
            yield link


@mutator(events=[CALL], phase="response")
def to_text(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "structuredContent": {"result": "***"}}


async def test_a_bridge_keeps_catalogues_by_session_and_by_principal() -> None:
    guard = Looking()
    async with bridged(guard, to_text) as link:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        sessions: list[str] = []
        for number in range(2):
            session = (await link.post(request(number, "initialize", params), JSON_HEADERS)).header("mcp-session-id")
            assert session is not None
            await link.post(notification("notifications/initialized"), session=session)
            sessions.append(session)
        await link.post(request(1, LIST), session=sessions[0])
        withheld = [is_withheld(_answer(await link.post(call(2), session=session))) for session in sessions]
        await link.post(stateless_list(), by("ann", stateless(LIST)))
        for who in ("ann", "bob"):
            answer = await link.post(stateless_call(2), by(who, stateless(CALL, "echo")))
            withheld.append(is_withheld(_answer(answer)))
    assert guard.seen == [["echo"], [], ["echo"], []]
    assert withheld == [True, False, True, False]


def _answer(response: Any) -> Any:
    body: bytes = response.body
    return json.loads(body) if body.startswith(b"{") else json.loads(body.partition(b"data: ")[2].partition(b"\n")[0])


# Bounds


def page(name: str, size: int = 100) -> dict[str, Any]:
    return {"tools": [{"name": name, "description": "x" * size}]}


async def test_what_all_principals_listings_take_is_bounded() -> None:
    catalogs = Catalogs(most_bytes=1000)
    for who in ("a", "b", "c"):
        listing = page(who, 400)
        catalogs.of(who).learn(None, listing, listing)
    assert catalogs.size <= 1000
    assert [sorted(catalogs.of(who).listed) for who in ("b", "c")] == [["b"], ["c"]]
    assert not catalogs.of("a").listed
    catalogs.clear()
    assert catalogs.size == 0


async def test_the_only_principal_keeps_what_is_larger_than_the_bound() -> None:
    catalogs = Catalogs(most_bytes=10)
    listing = page("a")
    catalogs.of(None).learn(None, listing, listing)
    assert list(catalogs.of(None).listed) == ["a"]
    catalogs.clear()


async def test_a_forgotten_catalogue_counts_no_more() -> None:
    catalogs = Catalogs(most=1)
    held = catalogs.of("a")
    listing = page("a")
    held.learn(None, listing, listing)
    catalogs.of("b")
    assert catalogs.size == 0
    larger = page("a", 1000)
    held.learn(None, larger, larger)
    assert catalogs.size == 0
    catalogs.clear()
