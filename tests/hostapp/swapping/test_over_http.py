"""Over HTTP answers come again, streams stay open, and clients go away: each exchange still has one chain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan.http import listen, run_server
from midspan_sdk import Chain, mutator, validator
from tests.hostapp.http.wire import (
    HANDSHAKE,
    STATELESS_META,
    Answer,
    Connection,
    Handler,
    Message,
    call,
    events_of,
    notification,
    raw_server,
    read_head,
    request,
    result,
    stateless,
    stateless_call,
)
from tests.hostapp.relay.harness import request as program
from tests.hostapp.relay.harness import send, server_command
from tests.patience import PATIENCE

from .succession import Succession, chain_of, signing, succession

pytestmark = pytest.mark.anyio

SESSION = ("mcp-session-id", "s")


class Front:
    """A raw client of a gateway with an HTTP front."""

    def __init__(self, chains: Succession, address: tuple[str, int]) -> None:
        self.chains = chains
        self._address = address
        self._connections: list[Connection] = []

    async def connect(self) -> Connection:
        reader, writer = await asyncio.open_connection(*self._address)
        connection = Connection(reader, writer, "{}:{}".format(*self._address))
        self._connections.append(connection)
        return connection

    async def post(self, body: bytes, fields: Any = (*HANDSHAKE, SESSION)) -> Message:
        return await (await self.connect()).post(body, fields)

    def close(self) -> None:
        for connection in self._connections:
            connection.writer.close()


@asynccontextmanager
async def fronted(backend: Any, chain: Chain, **options: Any) -> AsyncGenerator[Front]:
    """Run a gateway with an HTTP front."""
    with anyio.fail_after(PATIENCE):
        async with succession(backend, chain, **options) as chains, chains.gateway:
            listener = listen("127.0.0.1", 0)
            listener.listen(16)
            stop = asyncio.Event()
            app = chains.gateway.asgi_app()
            running = asyncio.create_task(run_server(app, listener, stop=stop, stopping=chains.gateway.stop))
            front = Front(chains, listener.getsockname())
            try:
                yield front
            finally:
                front.close()
                stop.set()
                await running


@asynccontextmanager
async def before_http(handler: Handler, chain: Chain, **options: Any) -> AsyncGenerator[Front]:
    """Run a gateway between HTTP and HTTP."""
    async with raw_server(handler) as (url, _), fronted(url, chain, **options) as front:
        yield front


def event(message: bytes, number: int = 1) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (number, message)


async def resumed(front: Front) -> dict[str, Any]:
    """Take up a stream again; returns the message that it repeats."""
    fields = [*HANDSHAKE, SESSION, ("last-event-id", "1")]
    response = await (await front.connect()).send("GET", fields=fields)
    return json.loads(response.body.split(b"data: ")[1])


@pytest.mark.parametrize("first", [signing(1), ()], ids=["judged", "relayed"])
async def test_an_answer_that_is_repeated_is_its_chain_s_and_once_that_is_over_the_new_one_s(first: Any) -> None:
    hanging, go_on = asyncio.Event(), asyncio.Event()

    async def handler(answer: Answer) -> None:
        if answer.request.method == "GET":
            await answer.stream(event(result(1, {}), 2))
        elif answer.request.json()["id"] == 2:
            hanging.set()
            await go_on.wait()
            await answer.send(result(2, {}))
        else:
            await answer.stream(event(b""), event(result(1, {}), 2))

    async with before_http(handler, chain_of(*first)) as front:
        once = json.loads((await front.post(call(1))).body.split(b"data: ")[-1])
        assert once["result"] == ({"asked": 1, "signed": 1} if first else {})
        connection = await front.connect()
        await connection.start("POST", call(2), [*HANDSHAKE, SESSION])
        await hanging.wait()
        retired = await front.chains.swap(chain_of(*signing(2)))
        if first:
            assert await resumed(front) == once
        go_on.set()
        last = await read_head(connection.reader)
        assert last.status == 200
        await retired.wait()
        # With the request as it reached the server, and nothing else of what is over.
        assert (await resumed(front))["result"] == {"asked": 1 if first else None, "signed": 2}


async def test_a_stream_that_was_opened_while_nothing_acted_is_judged_from_the_swap_on() -> None:
    streaming: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    answered: list[Any] = []

    @mutator(events=["notifications/*"], phase="request", name="mark")
    def mark(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "mark": 2}

    async def handler(answer: Answer) -> None:
        if answer.request.method == "GET":
            await answer.stream(event(notification("notifications/a", {})), end=False)
            streaming.set_result(answer)
            await asyncio.Event().wait()
        answered.append(answer.request.json())
        await answer.send(status="202 Accepted")

    async with before_http(handler, Chain()) as front:
        connection = await front.connect()
        await connection.start("GET", fields=[*HANDSHAKE, SESSION])
        await read_head(connection.reader)
        stream = await streaming
        assert b"mark" not in (await events_of(connection, 1))[0]
        await stream.write(event(request("q", "ping")))
        assert b"mark" not in (await events_of(connection, 1))[0]
        retired = await front.chains.swap(chain_of(mark, *signing(2)))
        await stream.write(event(notification("notifications/b", {})))
        assert b'"mark":2' in (await events_of(connection, 1))[0]
        await stream.write(event(request("r", "ping")))
        assert b'"mark":2' in (await events_of(connection, 1))[0]
        for name in ("q", "r"):
            assert (await front.post(result(name, {}))).status == 202
        assert [message["result"] for message in answered] == [{}, {"asked": 2, "signed": 2}]
        assert retired.over


async def test_what_speaks_no_json_passes_while_nothing_acts() -> None:
    may_answer, here = asyncio.Event(), asyncio.Event()

    async def handler(answer: Answer) -> None:
        here.set()
        await may_answer.wait()
        await answer.send(b"<p>hello</p>", fields=[("content-type", "text/html")])

    async with before_http(handler, Chain()) as front:
        connection = await front.connect()
        await connection.start("POST", b"<p>hi</p>", [("content-type", "text/html")])
        await here.wait()
        await front.chains.swap(chain_of(*signing(1)))
        may_answer.set()
        assert (await read_head(connection.reader)).header("content-type") == "text/html"
        response = await front.post(b"<p>hi</p>", [("content-type", "text/html")])
        assert response.status == 415


async def test_whether_an_error_page_may_be_read_its_request_s_chain_says() -> None:
    may_answer, here = asyncio.Event(), asyncio.Event()

    @validator(events=["tools/call"], phase="both", errors=True, name="reads")
    def reads(payload: dict[str, Any]) -> None:
        return None

    async def handler(answer: Answer) -> None:
        here.set()
        await may_answer.wait()
        await answer.send(b"secret", status="500 No", fields=[("content-type", "text/plain")])

    async with before_http(handler, chain_of(reads)) as front:
        connection = await front.connect()
        await connection.start("POST", call(1), [*HANDSHAKE, SESSION])
        await here.wait()
        await front.chains.swap(Chain())
        may_answer.set()
        response = await read_head(connection.reader)
        assert response.header("content-type") == "application/json"
        assert (await front.post(call(2))).body == b"secret"


async def test_a_request_that_is_sent_once_more_while_it_is_open_stays_with_its_chain() -> None:
    marks: list[int] = []
    first, second, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(answer: Answer) -> None:
        if answer.request.json()["method"] != "tools/call":
            await answer.send(result(0, {}))
            return
        marks.append(answer.request.json()["params"]["mark"])
        (second if first.is_set() else first).set()
        await go_on.wait()
        await answer.send(result(1, {}))

    async with before_http(handler, chain_of(*signing(1))) as front:
        await front.post(request(0, "first"))  # the session is known from here on
        connections = [await front.connect() for _ in range(2)]
        await connections[0].start("POST", call(1), [*HANDSHAKE, SESSION])
        await first.wait()
        await front.chains.swap(chain_of(*signing(2)))
        await connections[1].start("POST", call(1), [*HANDSHAKE, SESSION])
        await second.wait()
        assert marks == [1, 1]
        go_on.set()
        for connection in connections:
            assert (await read_head(connection.reader)).status == 200


@pytest.mark.parametrize("fields", [(*HANDSHAKE, SESSION), stateless("tools/call", "echo")], ids=["session", "alone"])
async def test_a_client_that_goes_away_lets_go_of_the_old_chain(fields: Any) -> None:
    here = asyncio.Event()

    async def handler(answer: Answer) -> None:
        here.set()
        await asyncio.Event().wait()

    async with before_http(handler, chain_of(*signing(1))) as front:
        connection = await front.connect()
        await connection.start("POST", stateless_call(1) if fields[-1][0] == "mcp-name" else call(1), fields)
        await here.wait()
        retired = await front.chains.swap(chain_of(*signing(2)))
        assert retired.under_way == 1
        connection.writer.close()
        await retired.wait()


async def test_a_server_that_breaks_off_lets_go_of_the_old_chain() -> None:
    here, go_on = asyncio.Event(), asyncio.Event()

    async def handler(answer: Answer) -> None:
        here.set()
        await go_on.wait()
        await answer.break_off()

    async with before_http(handler, chain_of(*signing(1))) as front:
        connection = await front.connect()
        await connection.start("POST", call(1), [*HANDSHAKE, SESSION])
        await here.wait()
        retired = await front.chains.swap(chain_of(*signing(2)))
        go_on.set()
        assert (await read_head(connection.reader)).status == 502
        await retired.wait()


async def test_a_session_that_ends_lets_go_of_the_old_chain_and_of_its_state_in_both() -> None:
    here = asyncio.Event()
    ended: list[tuple[str, str]] = []

    class Noting(Chain):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name
            self.add(*signing(1))

        def end_session(self, session_id: str) -> None:
            ended.append((self.name, session_id))
            super().end_session(session_id)

    async def handler(answer: Answer) -> None:
        if answer.request.method == "GET":
            await answer.stream(event(request("q", "ping")), end=False)
            here.set()
            await asyncio.Event().wait()
        await answer.send(status="200 OK")

    async with before_http(handler, Noting("old")) as front:
        connection = await front.connect()
        await connection.start("GET", fields=[*HANDSHAKE, SESSION])
        await read_head(connection.reader)
        await here.wait()
        await events_of(connection, 1)
        retired = await front.chains.swap(Noting("new"))
        # The client never answers what the server asked.
        connection.writer.close()
        assert retired.under_way == 1
        await (await front.connect()).send("DELETE", fields=[*HANDSHAKE, SESSION])
        await retired.wait()
        assert {name for name, _ in ended} == {"old", "new"}
        assert len({session for _, session in ended}) == 1


# In front of lines


def telling(came: asyncio.Event) -> Any:
    """Return an interceptor that tells when there is a call."""

    @validator(events=["tools/call"], phase="request", name="tells")
    def tells(payload: dict[str, Any]) -> None:
        came.set()

    return tells


async def test_requests_that_share_a_connection_each_have_their_own_chain(log: Path) -> None:
    came = asyncio.Event()
    async with fronted(server_command(log), chain_of(*signing(1), telling(came))) as front:
        fields = stateless("tools/call", "go")
        params = {"name": "go", "_meta": STATELESS_META}
        connection = await front.connect()
        await connection.start("POST", program("a", "tools/call", params, ("read", 0)), fields)
        await came.wait()
        retired = await front.chains.swap(chain_of(*signing(2)))
        assert retired.under_way == 1
        other = await front.post(program("b", "tools/call", params, send(result(2, {}))), fields)
        assert other.json()["result"] == {"asked": 2, "signed": 2}
        assert retired.under_way == 1
        await front.post(program("c", "tools/call", params, send(result(1, {}), result(3, {}))), fields)
        response = await read_head(connection.reader)
        body = await connection.reader.readexactly(int(response.header("content-length") or 0))
        assert json.loads(body)["result"] == {"asked": 1, "signed": 1}
        await retired.wait()


@pytest.mark.parametrize("fields", [stateless("tools/call", "go"), stateless("subscriptions/listen")])
async def test_a_client_of_lines_that_goes_away_lets_go_of_the_old_chain(log: Path, fields: Any) -> None:
    came = asyncio.Event()
    method = dict(fields)["mcp-method"]

    @validator(events=[method], phase="both", name="tells")
    def tells(payload: dict[str, Any]) -> None:
        came.set()

    async with fronted(server_command(log), chain_of(tells)) as front:
        connection = await front.connect()
        params = {"name": "go", "_meta": STATELESS_META}
        await connection.start("POST", program(1, method, params, ("read", 0)), fields)
        await came.wait()
        retired = await front.chains.swap(chain_of(*signing(2)))
        assert retired.under_way == 1
        connection.writer.close()
        await retired.wait()


async def test_a_session_in_front_of_lines_that_ends_lets_go_of_the_old_chain(log: Path) -> None:
    came = asyncio.Event()
    async with fronted(server_command(log), chain_of(*signing(1), telling(came))) as front:
        begun = await front.post(program(0, "initialize", {"protocolVersion": "2025-11-25"}), HANDSHAKE)
        fields = [*HANDSHAKE, ("mcp-session-id", begun.header("mcp-session-id") or "")]
        connection = await front.connect()
        await connection.start("POST", program(1, "tools/call", {"name": "go"}, ("read", 0)), fields)
        await came.wait()
        retired = await front.chains.swap(chain_of(*signing(2)))
        assert retired.under_way == 1
        connection.writer.close()  # which says nothing: it may come back
        assert (await front.post(program(2, "tools/call", {"name": "go"}), fields)).json()["result"]["signed"] == 2
        assert retired.under_way == 1
        await (await front.connect()).send("DELETE", fields=fields)
        await retired.wait()
