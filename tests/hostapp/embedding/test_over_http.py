"""`Gateway.asgi_app` in front of server objects and transports, with the SDK's own client."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from fastapi import FastAPI
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from starlette.applications import Starlette
from starlette.routing import Mount

from midspan import Gateway
from midspan_sdk import Chain, DecisionRecord
from tests.patience import PATIENCE

from .sample import ERAS, at_url, chain_of, copies, listening, no_rm, sample_server, story

pytestmark = pytest.mark.anyio


def refused(words: str) -> AbstractContextManager[Any]:
    """Expect that a client cannot begin; it tells so out of its task groups."""
    return pytest.RaisesGroup(pytest.RaisesExc(MCPError, match=words), flatten_subgroups=True)


Application = Callable[[Gateway], Any]


def running(gateway: Gateway) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Return a lifespan in which the gateway runs, as the page on embedding shows it."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        async with gateway:
            yield

    return lifespan


def in_starlette(gateway: Gateway) -> Any:
    return Starlette(routes=[Mount("/guarded", app=gateway.asgi_app())], lifespan=running(gateway))


def in_fastapi(gateway: Gateway) -> Any:
    app = FastAPI(lifespan=running(gateway))
    app.mount("/guarded", gateway.asgi_app())
    return app


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("interceptors", [(), (copies,)], ids=["relayed", "judged"])
@pytest.mark.parametrize("application", [in_starlette, in_fastapi])
async def test_a_server_object_mounted_in_an_application_is_the_same_as_in_memory(
    application: Application, interceptors: Any, mode: str
) -> None:
    direct = await story(sample_server(), mode)
    with anyio.fail_after(PATIENCE):
        async with chain_of(*interceptors) as chain:
            app = application(Gateway(sample_server(), chain))
            for _ in range(2):  # an application may be started more than once
                async with app.router.lifespan_context(app), listening(app) as address:
                    assert await story(f"{address}/guarded/mcp", mode) == direct


@pytest.mark.parametrize("mode", ERAS)
async def test_a_denied_tool_of_a_server_object_does_not_run(mode: str) -> None:
    async with (
        chain_of(no_rm) as chain,
        at_url(Gateway(sample_server(), chain)) as url,
        Client(url, mode=mode) as client,
    ):
        assert (await client.call_tool("rm", {})).is_error
        assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error


@pytest.mark.parametrize("mode", ERAS)
async def test_an_answer_that_is_no_text_is_an_error_and_the_server_goes_on(mode: str) -> None:
    async with at_url(Gateway(sample_server())) as url, Client(url, mode=mode) as client:
        with pytest.raises(MCPError, match="the answer cannot be written as JSON"):
            await client.call_tool("torn", {})
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


SERVER = """
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("behind")

@server.tool()
def pid() -> int:
    return os.getpid()

server.run()
"""


def to_command() -> AbstractAsyncContextManager[Any]:
    return stdio_client(StdioServerParameters(command=sys.executable, args=["-c", SERVER]))


async def pid_behind(client: Client) -> int:
    content = (await client.call_tool("pid", {})).structured_content
    assert content is not None
    return content["result"]


async def test_a_function_gives_a_transport_to_each_session() -> None:
    async with (
        at_url(Gateway(to_command)) as url,
        Client(url, mode="legacy") as one,
        Client(url, mode="legacy") as other,
    ):
        assert await pid_behind(one) == await pid_behind(one) != await pid_behind(other)


async def test_clients_of_2026_07_28_share_the_one_transport() -> None:
    async with (
        at_url(Gateway(to_command())) as url,
        Client(url, mode="2026-07-28") as one,
        Client(url, mode="2026-07-28") as other,
    ):
        assert await pid_behind(one) == await pid_behind(other)


async def test_a_second_session_over_one_transport_is_refused_with_the_reason() -> None:
    async with at_url(Gateway(to_command())) as url, Client(url, mode="legacy") as client:
        before = await pid_behind(client)
        with refused("serves one connection; give a function that returns a new one"):
            async with Client(url, mode="legacy"):
                raise AssertionError
        assert await pid_behind(client) == before


async def test_outside_of_the_block_a_request_is_a_500_that_the_log_explains(caplog: pytest.LogCaptureFixture) -> None:
    gateway = Gateway(sample_server())
    with anyio.fail_after(PATIENCE):
        async with listening(gateway.asgi_app()) as address:
            with refused("the request could not be relayed"):
                async with Client(f"{address}/mcp", mode="legacy"):
                    raise AssertionError
    assert "use `async with gateway:`" in caplog.text


class Notes:
    """Observes all that is decided on."""

    name = "notes"
    durable = True

    def __init__(self) -> None:
        self.records: list[DecisionRecord] = []

    async def observe(self, record: DecisionRecord) -> None:
        self.records.append(record)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("events", [["tools/call"], ["tools/c*", "nothing/*"]])
async def test_events_say_what_the_chain_decides_on(events: list[str], mode: str) -> None:
    notes = Notes()  # observers alone act too
    async with Chain(observers=[notes]) as chain:
        gateway = Gateway(sample_server(), chain, events=events)
        async with at_url(gateway) as url, Client(url, mode=mode) as client:
            await client.list_tools()
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.read_resource("memo://one")
    assert [(record.event, record.phase) for record in notes.records] == [
        ("tools/call", "request"),
        ("tools/call", "response"),
    ]


async def test_events_without_calls_leave_an_observer_its_events() -> None:
    notes = Notes()
    async with Chain(observers=[notes]) as chain:
        gateway = Gateway(sample_server(), chain, events=["resources/read"])
        async with at_url(gateway) as url, Client(url) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.read_resource("memo://one")
    assert {record.event for record in notes.records} == {"resources/read"}
