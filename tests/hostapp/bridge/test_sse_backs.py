"""A stdio client in front of a server that speaks the HTTP+SSE transport of 2024-11-05."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import pytest

from midspan.errors import OperatorError
from midspan.gateway import Gateway
from tests.hostapp.http.wire import Answer, Fields, Handler, call, notification, raw_server, request, result
from tests.patience import PATIENCE

from .stdio_front import error, event, fronted, to_url

pytestmark = pytest.mark.anyio


class Server:
    """The server: one stream, and what is posted.

    Attributes:
        stream: set when the client has opened it.
    """

    def __init__(self, endpoint: bytes = b"/messages?session=1&x=%20", *, refuses: str | None = None) -> None:
        self.endpoint = endpoint
        self.refuses = refuses
        self.stream: Answer | None = None
        self.gone = asyncio.Event()

    async def __call__(self, answer: Answer) -> None:
        if answer.request.method == "GET":
            self.stream = answer
            await answer.stream(event(self.endpoint, event="endpoint"), end=False)
            try:
                await answer.gone()
            finally:
                self.gone.set()
        elif self.refuses is not None and b"refused" in answer.request.body:
            await answer.send(b"no", status=self.refuses, fields=())
        else:
            await answer.send(b"Accepted", status="202 Accepted", fields=())

    async def say(self, *data: bytes, **fields: object) -> None:
        """Say something on the stream."""
        assert self.stream is not None
        for one in data:
            await self.stream.write(event(one, **fields))


def legacy(server: Server, **options: Any) -> Any:
    return fronted(server, transport="sse", **options)


async def test_messages_pass_as_they_are() -> None:
    server = Server()
    exact = b'{"result": {"z":1.0,"a":1152921504606846977,"s":"\\ud800","dup":1,"dup":2},"id":1,"jsonrpc":"2.0"}'
    asked = request("s", "ping")
    async with legacy(server, headers={"X-Key": "k"}) as front:
        await front.send(call(1))
        await front.seen.reach(2)
        await server.say(b"no JSON", b"{}", b"", exact, event="message")
        await server.say(asked)
        assert [await front.receive(), await front.receive()] == [exact, asked]
        await front.send(result("s", {}))
        await front.seen.reach(3)
        assert front.seen[2].body == result("s", {})
    get, *posts = front.seen
    assert (get.method, get.target, get.header("accept")) == ("GET", "/mcp", "text/event-stream")
    assert {one.target for one in posts} == {"/messages?session=1&x=%20"}
    assert {one.header("content-type") for one in posts} == {"application/json"}
    assert {one.header("x-key") for one in front.seen} == {"k"}


async def test_an_event_in_pieces_and_on_several_lines_is_one_message() -> None:
    server = Server()
    async with legacy(server) as front:
        await front.send(call(1))
        await front.seen.reach(2)
        assert server.stream is not None
        for byte in b'data: {"jsonrpc":"2.0","id":1,\r\ndata: "result":{}}\r\n\r\n':
            await server.stream.write(bytes([byte]))
        assert await front.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("endpoint", ["messages/?id=1", "?id=1", "http://LOCALHOST:{port}/m"])
async def test_an_endpoint_is_relative_to_the_stream(endpoint: str) -> None:
    server = Server()
    async with raw_server(server) as (url, seen):
        port = url.split(":")[2].split("/")[0]
        url = f"http://localhost:{port}/mcp"
        server.endpoint = endpoint.format(port=port).encode()
        async with to_url(url, seen, transport="sse") as front:
            await front.send(notification("notifications/x"))
            await seen.reach(2)
    assert seen[1].target == {"m": "/messages/?id=1", "?": "/mcp?id=1", "h": "/m"}[endpoint[0]]


@pytest.mark.parametrize(
    "endpoint",
    [
        b"http://evil.example/messages",
        b"https://127.0.0.1/messages",
        b"//evil.example/messages",
        b"http://u:p@127.0.0.1/messages",
        b"http://127.0.0.1:1/messages",
        b"http://[::1/messages",
        b"http://127.0.0.1:port/messages",
        b"/messages with spaces",
        b"\xff",
    ],
)
async def test_an_endpoint_elsewhere_is_refused(endpoint: bytes) -> None:
    text = "names an endpoint (of another server|that is no URL to post to)"
    assert await refused_start(Server(endpoint), text) == ["GET"]


async def refused_start(handler: Handler, text: str) -> list[str]:
    """Assert that there is no start, and return the methods that the server got."""
    with anyio.fail_after(PATIENCE):
        async with raw_server(handler) as (url, seen):
            with pytest.raises(OperatorError, match=text):
                await Gateway(url, transport="sse").run_stdio(streams=(-1, -1))
            return [one.method for one in seen]


@pytest.mark.parametrize(
    ("status", "fields", "text"),
    [
        ("200 OK", [("content-type", "text/html")], r"is no SSE stream \(HTTP 200\)"),
        ("405 Method Not Allowed", [], r"is no SSE stream \(HTTP 405\)"),
        ("401 Unauthorized", [], r"does not let the client in \(HTTP 401\); give credentials with --header"),
        ("307 Temporary Redirect", [("location", "http://u:p@other/sse?key=1")], "redirects to http://other/sse; use"),
        ("200 OK", [("content-type", "text/event-stream")], "does not say where to post messages"),
    ],
)
async def test_what_is_no_such_server_stops_the_start(status: str, fields: Fields, text: str) -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(status=status, fields=fields)

    await refused_start(handler, text)


async def test_an_unreachable_server_stops_the_start() -> None:
    with pytest.raises(OperatorError, match="cannot be reached"):
        await Gateway("http://127.0.0.1:1/sse", transport="sse").run_stdio(streams=(-1, -1))


async def test_when_the_stream_dies_everybody_is_told_and_the_process_ends() -> None:
    server = Server()
    async with legacy(server) as front:
        await front.send(call(1), call("two"))
        await front.seen.reach(3)
        await server.say(notification("notifications/x"))
        assert server.stream is not None
        await server.stream.break_off()
        gone = "the server ended before it answered"
        assert await front.rest() == [
            notification("notifications/x"),
            error(1, -32000, gone),
            error("two", -32000, gone),
        ]
        assert await front.running == 1


async def test_a_request_that_the_server_does_not_take_is_an_error_and_ends_nothing() -> None:
    server = Server(refuses="400 Bad Request")
    async with legacy(server) as front:
        await front.send(notification("refused"), call("refused"))
        assert await front.receive() == error("refused", -32603, "the server refused the request (HTTP 400)")
        await server.say(result("refused", {}))  # it was answered
        await front.send(call(2))
        await front.seen.reach(4)
        await server.say(result(2, {}))
        assert await front.receive() == result(2, {})
        front.half_close()
        assert await front.running == 0


async def test_a_request_that_does_not_reach_the_server_is_an_error() -> None:
    server = Server()

    async def handler(answer: Answer) -> None:
        if b"lost" in answer.request.body:
            await answer.break_off()
        else:
            await server(answer)

    async with fronted(handler, transport="sse") as front:
        answer = json.loads(await front.ask(call("lost")))
        assert (answer["id"], answer["error"]["code"]) == ("lost", -32000)


async def test_an_answer_that_is_too_long_is_an_error() -> None:
    server = Server()
    async with legacy(server, max_message=2000) as front:
        await front.send(call(1), call(2))
        await front.seen.reach(3)
        await server.say(notification("notifications/x", {"text": "x" * 5000}), result(1, {"text": "x" * 5000}))
        answer = await front.read()
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        await server.say(result(2, {}))
        assert await front.receive() == result(2, {})


async def test_half_closed_a_client_still_gets_its_answers() -> None:
    server = Server()
    hidden = b'{"result":{"x":"%s"},"id":1,"more":{"x":"%s"}}' % (b"x" * 3000, b"x" * 3000)
    batch = b"[" + call(3) + b"," + call(4) + b"]"
    async with legacy(server) as front:
        await front.send(call(1), call(2), batch, notification("notifications/cancelled", {"requestId": 2}))
        front.half_close()
        await front.seen.reach(5)
        await server.say(b"[" + result(3, {}) + b"," + result(4, {}) + b"]", hidden)
        assert await front.rest() == [b"[" + result(3, {}) + b"," + result(4, {}) + b"]", hidden]
        assert await front.running == 0
        await server.gone.wait()


async def test_when_the_client_dies_the_stream_is_closed() -> None:
    server = Server()
    async with legacy(server) as front:
        await front.send(call(1))
        await front.seen.reach(2)
        front.die()
        assert await front.running == 0
        await server.gone.wait()


async def test_a_start_that_is_given_up_leaves_nothing_open() -> None:
    gone = asyncio.Event()
    opened = asyncio.Event()

    async def handler(answer: Answer) -> None:
        await answer.stream(b":\n\n", end=False)
        opened.set()
        await answer.gone()
        gone.set()

    with anyio.fail_after(PATIENCE):
        async with raw_server(handler) as (url, _):
            starting = asyncio.create_task(Gateway(url, transport="sse").run_stdio(streams=(-1, -1)))
            await opened.wait()
            starting.cancel()
            await asyncio.wait({starting})
            await gone.wait()
