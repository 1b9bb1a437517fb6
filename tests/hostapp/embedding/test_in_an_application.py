"""The gateway as an ASGI application, mounted in another one or run by a server; in raw HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

from midspan import Gateway
from midspan.http import listen, run_server
from midspan_sdk import Chain, validator
from tests.hostapp.http.wire import Answer, Connection, call, raw_server, result
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio


async def answers(answer: Answer) -> None:
    await answer.send(result(answer.request.json()["id"], {}))


@validator(events=["tools/call"], phase="request")
def no_rm(payload: dict[str, Any]) -> str | None:
    return "no rm" if payload["name"] == "rm" else None


@asynccontextmanager
async def served(app: Any) -> AsyncGenerator[Connection]:
    """Serve an application, without its lifespan; yields a connection to it."""
    listener = listen("127.0.0.1", 0)
    listener.listen(16)
    stop = asyncio.Event()
    port = listener.getsockname()[1]
    running = asyncio.create_task(run_server(app, listener, stop=stop))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer, f"localhost:{port}")
    finally:
        writer.close()
        stop.set()
        await running


@pytest.mark.parametrize(
    ("prefix", "path", "dialled"), [("", "/mcp", "/mcp"), ("/guarded", "/mcp", "/guarded/mcp"), ("/mcp", "/", "/mcp/")]
)
async def test_it_can_be_mounted_in_another_application(prefix: str, path: str, dialled: str) -> None:
    chain = Chain()
    chain.add(no_rm)
    with anyio.fail_after(PATIENCE):
        async with raw_server(answers) as (url, _), chain, Gateway(url, chain) as gateway:
            app = Starlette(routes=[Mount(prefix or "/", app=gateway.asgi_app(path))])
            async with served(app) as connection:
                assert (await connection.send("POST", call(1), path=dialled)).json()["result"] == {}
                assert (await connection.send("POST", call(2, "rm"), path=dialled)).json()["result"]["isError"]
                assert (await connection.send("POST", call(3), path="/elsewhere")).status == 404


async def test_middleware_of_the_application_around_it_works_on_it() -> None:
    async def large(answer: Answer) -> None:
        await answer.send(result(1, {"x": "y" * 5000}))

    with anyio.fail_after(PATIENCE):
        async with raw_server(large) as (url, _), Gateway(url) as gateway:
            app = Starlette(routes=[Mount("/", app=gateway.asgi_app())], middleware=[Middleware(GZipMiddleware)])
            async with served(app) as connection:
                response = await connection.send("POST", call(1), [("accept-encoding", "gzip")])
                assert response.header("content-encoding") == "gzip"


async def test_a_server_that_runs_it_starts_and_stops_the_gateway() -> None:
    sent: list[str] = []
    incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async with raw_server(answers) as (url, _):
        await Gateway(url).asgi_app()({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_without_the_block_a_request_is_a_500_that_the_log_explains(caplog: pytest.LogCaptureFixture) -> None:
    with anyio.fail_after(PATIENCE):
        async with raw_server(answers) as (url, _), served(Gateway(url).asgi_app()) as connection:
            assert (await connection.send("POST", call(1))).status == 500
    assert "use `async with gateway:`" in caplog.text


async def test_a_chain_that_is_empty_only_relays() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","id":1}'

    async def echo(answer: Answer) -> None:
        await answer.send(answer.request.body)

    with anyio.fail_after(PATIENCE):
        async with (
            raw_server(echo) as (url, _),
            Chain() as chain,
            Gateway(url, chain) as gateway,
            served(gateway.asgi_app()) as connection,
        ):
            assert (await connection.send("POST", body)).body == body
