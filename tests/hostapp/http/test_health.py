"""`/healthz` and `/readyz`: what an orchestrator is told, and when."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan.gateway import Gateway
from midspan.http import Health, listen, run_server
from tests.hostapp.cli.commands import Running, started
from tests.patience import PATIENCE

from .wire import Answer, Connection, Seen, call, raw_server, result

pytestmark = pytest.mark.anyio


async def echo(answer: Answer) -> None:
    await answer.send(result(answer.request.json()["id"], {}))


async def connect(port: int) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    return Connection(reader, writer, f"localhost:{port}")


async def probe(port: int, path: str, **options: Any) -> tuple[int, Any]:
    """Ask on a connection of its own; return status and JSON."""
    connection = await connect(port)
    try:
        response = await connection.send(options.pop("method", "GET"), fields=[], path=path, **options)
        return response.status, json.loads(response.body) if response.body else None
    finally:
        await connection.close()


async def port_of(running: Running) -> int:
    line = await running.line(lambda line: line.startswith("midspan: serving "))
    return int(line.rpartition(":")[2].partition("/")[0])


@asynccontextmanager
async def served(health: Health | None) -> AsyncGenerator[tuple[int, Seen]]:
    """Run a gateway as an application of its own; yields its port."""
    async with raw_server(echo) as (url, seen):
        listener = listen("127.0.0.1", 0)
        listener.listen(16)
        gateway, stop = Gateway(url), asyncio.Event()
        async with gateway:
            running = asyncio.create_task(run_server(gateway.asgi_app(health=health), listener, stop=stop))
            try:
                with anyio.fail_after(PATIENCE):
                    yield listener.getsockname()[1], seen
            finally:
                stop.set()
                await running


async def test_serve_says_that_it_lives_and_is_ready_to_whatever_host_and_nothing_else() -> None:
    async with raw_server(echo) as (url, seen), started("serve", "--port", "0", "--url", url) as running:
        port = await port_of(running)
        for host in (f"127.0.0.1:{port}", "10.1.2.3", "probe.example"):
            assert await probe(port, "/healthz", host=host) == (200, {"status": "ok"})
        ready = {"status": "ready", "servers": {"guarded": 1, "refused": 0}}
        assert await probe(port, "/readyz", host="probe.example") == (200, ready)
        connection = await connect(port)
        head = await connection.send("HEAD", fields=[], path="/readyz", host="10.1.2.3")
        assert (head.status, head.header("content-type")) == (200, "application/json")
        # The connection goes on, so no body came.
        refused = await connection.send("POST", call(1), path="/healthz")
        assert (refused.status, refused.header("allow")) == (405, "GET, HEAD")
        assert (await connection.send("POST", call(1), host="evil.example")).status == 421
        assert (await connection.send("GET", fields=[], path="/healthz/x")).status == 404
        assert seen == []
        assert (await connection.post(call(1))).json()["result"] == {}
        await connection.close()
        assert await running.stop(signal.SIGTERM) == 0


SLOW_START = """
import asyncio, os
from contextlib import asynccontextmanager
from midspan_sdk import hookimpl, validator

@asynccontextmanager
async def life():
    reader, writer = await asyncio.open_unix_connection({path!r})
    try:
        await reader.read(1)
        yield None
    finally:
        writer.close()

@validator(events=["nothing"], phase="request")
def nothing(payload): return None

@hookimpl
def midspan_lifespan(): return life()

@hookimpl
def midspan_interceptors(): return [nothing]
"""


@pytest.fixture
def free_port() -> int:
    with listen("127.0.0.1", 0) as listener:
        return listener.getsockname()[1]


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "is stopped"])
async def test_it_is_not_ready_before_all_lifespans_are_entered(ends: bool, free_port: int, tmp_path: Path) -> None:
    path = tmp_path / "gate"
    (tmp_path / "slow.py").write_text(SLOW_START.format(path=str(path)), "utf-8")
    entering: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    left = asyncio.Event()

    async def gate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        entering.put_nowait(writer)
        await reader.read()
        left.set()
        writer.close()

    given = ("--port", str(free_port), "--url", "http://127.0.0.1:1/mcp", "--plugin-file", str(tmp_path / "slow.py"))
    server = await asyncio.start_unix_server(gate, path)
    async with server, started("serve", *given) as running:
        door = await entering.get()
        assert await probe(free_port, "/healthz") == (200, {"status": "ok"})
        assert await probe(free_port, "/readyz") == (503, {"status": "starting"})
        connection = await connect(free_port)
        refused = await connection.post(call(1))
        assert refused.status == 503
        assert refused.json()["error"]["message"] == "midspan: the gateway is starting"
        await connection.close()
        if not ends:
            door.write(b"x")
            await port_of(running)
            assert await probe(free_port, "/readyz") == (
                200,
                {"status": "ready", "servers": {"guarded": 1, "refused": 0}},
            )
            assert await running.stop(signal.SIGTERM) == 0
        else:
            # A stop while it starts leaves what was entered, and does not wait for the rest.
            assert await running.stop(signal.SIGTERM) == 128 + signal.SIGTERM
            assert await running.rest() == []
        await left.wait()


async def test_from_a_stop_on_it_is_not_ready_while_requests_under_way_finish() -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def slow(answer: Answer) -> None:
        arrived.set()
        await go.wait()
        await echo(answer)

    async with raw_server(slow) as (url, _), started("serve", "--port", "0", "--url", url) as running:
        port = await port_of(running)
        connection, late = await connect(port), await connect(port)
        await connection.start("POST", call(1))
        await arrived.wait()
        running.process.send_signal(signal.SIGTERM)
        while (answer := await probe(port, "/readyz"))[0] == 200:
            pass
        assert answer == (503, {"status": "stopping"})
        assert (await probe(port, "/healthz"))[0] == 200
        refused = await late.post(call(2))
        assert (refused.status, refused.json()["error"]["message"]) == (503, "midspan: the gateway is stopping")
        go.set()
        head = await connection.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        await connection.close()
        await late.close()
        assert await running.process.wait() == 0
        assert await running.rest() == []


async def test_an_embedded_gateway_has_them_only_if_asked_for() -> None:
    async with served(None) as (port, _):
        assert (await probe(port, "/healthz"))[0] == 404
    health = Health(state="ready", details=lambda: {"servers": {"guarded": 2, "refused": 1}, "status": "mine"})
    async with served(health) as (port, _):
        assert await probe(port, "/readyz") == (200, {"servers": {"guarded": 2, "refused": 1}, "status": "ready"})
        assert await probe(port, "/healthz") == (200, {"status": "ok"})
        health.state = "stopping"
        assert await probe(port, "/readyz") == (503, {"status": "stopping"})


async def test_details_that_cannot_be_told_do_not_take_it_out_of_service(caplog: pytest.LogCaptureFixture) -> None:
    async with served(Health(state="ready", details=lambda: {"x": object()})) as (port, _):
        assert await probe(port, "/readyz") == (200, {"status": "ready"})
    assert "the details of the readiness cannot be told" in caplog.text


async def test_a_server_that_runs_the_application_keeps_its_state() -> None:
    health = Health()
    sent: asyncio.Queue[Any] = asyncio.Queue()
    told: asyncio.Queue[Any] = asyncio.Queue()
    async with raw_server(echo) as (url, _):
        app = Gateway(url).asgi_app(health=health)
        running = asyncio.create_task(app({"type": "lifespan"}, told.get, sent.put))
        told.put_nowait({"type": "lifespan.startup"})
        assert (await sent.get())["type"] == "lifespan.startup.complete"
        assert health.state == "ready"
        told.put_nowait({"type": "lifespan.shutdown"})
        assert (await sent.get())["type"] == "lifespan.shutdown.complete"
        assert health.state == "stopping"
        await running
