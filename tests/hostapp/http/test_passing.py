"""Without interceptors HTTP passes as it comes, both ways."""

from __future__ import annotations

import asyncio
import gzip
import json

import anyio
import pytest

from tests.patience import PATIENCE

from .wire import (
    HANDSHAKE,
    JSON_HEADERS,
    Answer,
    call,
    events_of,
    gateway_to,
    read_body,
    read_chunk,
    read_head,
    relayed,
    result,
)

pytestmark = pytest.mark.anyio

AWKWARD = (
    b'{"jsonrpc": "2.0",  "id" :7, "result": {"z":1.0,"a":1152921504606846977, "n":null,"e":"\\ud83d",'
    b'"d":"\xf0\x9f\x98\x80", "_meta":{"unknown/key":[1e400]}, "dup":1,"dup":2},"extra":true}\r\n'
)


async def echo(answer: Answer) -> None:
    await answer.send(answer.request.body, fields=[("content-type", "application/json"), ("x-method", "yes")])


async def test_bodies_pass_byte_for_byte_both_ways() -> None:
    async with relayed(echo) as link:
        response = await link.post(AWKWARD)
        assert link.seen[0].body == response.body == AWKWARD


async def test_headers_pass_save_those_of_one_connection() -> None:
    async def handler(answer: Answer) -> None:
        fields = [
            ("content-type", "application/json"),
            ("mcp-session-id", "s1"),
            ("x-unknown", "a"),
            ("x-unknown", "b"),
            ("set-cookie", "a=1"),
            ("date", "then"),
            ("server", "raw"),
            ("keep-alive", "timeout=3"),
            ("x-hop", "secret"),
            ("connection", "x-hop"),
        ]
        await answer.send(b"{}", status="207 Multi", fields=fields)

    sent = [
        *HANDSHAKE,
        ("authorization", "Bearer t"),
        ("last-event-id", "9"),
        ("x-custom", "1"),
        ("x-custom", "2"),
        ("cookie", "c=1"),
        ("user-agent", "raw"),
        ("te", "trailers"),
        ("x-mine", "no"),
        ("connection", "x-mine"),
    ]
    async with relayed(handler) as link:
        response = await link.post(b"{}", sent)
        got = [field for field in link.seen[0].fields if field[0] not in ("host", "content-length")]
        assert got == sent[:-3]
        assert link.seen[0].header("host") != link.url
        assert response.status == 207
        assert [value for name, value in response.fields if name == "x-unknown"] == ["a", "b"]
        assert response.fields == [
            ("content-length", "2"),
            ("content-type", "application/json"),
            ("mcp-session-id", "s1"),
            ("x-unknown", "a"),
            ("x-unknown", "b"),
            ("set-cookie", "a=1"),
            ("date", "then"),
            ("server", "raw"),
        ]


async def test_a_client_that_says_nothing_of_itself_is_given_no_words() -> None:
    async with relayed(echo) as link:
        await link.send("POST", b"{}", [])
        assert {name for name, _ in link.seen[0].fields} == {"host", "content-length"}


async def test_cookies_of_one_client_do_not_reach_another() -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(b"{}", fields=[("set-cookie", "secret=1; Path=/")])

    async with relayed(handler) as link:
        await link.post(b"{}")
        await link.post(b"{}")
        assert link.seen[1].header("cookie") is None


@pytest.mark.parametrize(("method", "status"), [("GET", "405 Method Not Allowed"), ("DELETE", "204 No Content")])
async def test_other_methods_and_their_status_pass(method: str, status: str) -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(status=status, fields=[("allow", "POST")])

    async with relayed(handler) as link:
        response = await link.send(method, fields=[("mcp-session-id", "s")])
        assert (link.seen[0].method, link.seen[0].header("mcp-session-id")) == (method, "s")
        assert (response.status, response.header("allow")) == (int(status[:3]), "POST")


async def test_the_query_goes_behind_that_of_the_url() -> None:
    async with relayed(echo) as link:
        await link.send("POST", b"{}", path="/mcp?a=%20b&c")
        assert link.seen[0].target == "/mcp?a=%20b&c"


async def test_what_is_compressed_stays_so() -> None:
    packed = gzip.compress(b"{}")

    async def handler(answer: Answer) -> None:
        await answer.send(packed, fields=[("content-type", "application/json"), ("content-encoding", "gzip")])

    async with relayed(handler) as link:
        response = await link.post(packed, [*JSON_HEADERS, ("content-encoding", "gzip"), ("accept-encoding", "gzip")])
        assert link.seen[0].body == response.body == packed
        assert link.seen[0].header("content-encoding") == response.header("content-encoding") == "gzip"
        assert link.seen[0].header("accept-encoding") == "gzip"


async def test_a_stream_passes_as_it_comes_each_piece_at_once() -> None:
    go_on = asyncio.Event()
    pieces = [b": hi\n", b"id: 1\r\nda", b"ta: {}\r\n\r\n", b"data:x"]

    async def handler(answer: Answer) -> None:
        await answer.stream(pieces[0], end=False)
        for piece in pieces[1:]:
            await go_on.wait()
            go_on.clear()
            await answer.write(piece)
        await answer.end()

    async with relayed(handler) as link:
        connection = await link.connect()
        await connection.start("GET", fields=[("accept", "text/event-stream"), ("last-event-id", "0")])
        response = await read_head(connection.reader)
        assert (response.status, response.header("content-type")) == (200, "text/event-stream")
        for piece in pieces:
            assert await read_chunk(connection.reader) == piece
            go_on.set()
        assert await read_chunk(connection.reader) == b""


async def test_a_large_body_passes_in_pieces_both_ways() -> None:
    large = json.dumps({"x": "y" * 5_000_000}).encode()
    async with relayed(echo) as link:
        response = await link.post(large)
        assert response.body == link.seen[0].body == large


async def test_a_body_in_single_bytes_passes() -> None:
    async with relayed(echo) as link:
        connection = await link.connect()
        body = call(1)
        first = f"POST /mcp HTTP/1.1\r\nhost: {link.url}\r\ntransfer-encoding: chunked\r\n\r\n"
        for byte in first.encode() + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n":
            connection.writer.write(bytes([byte]))
            await connection.writer.drain()
        response = await read_head(connection.reader)
        assert await read_body(connection.reader, response) == body == link.seen[0].body


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_refused_and_the_connection_lives_on(chunked: bool) -> None:
    async with relayed(echo, max_message=1000) as link:
        connection = await link.connect()
        body = call(1, arguments={"x": "y" * 2000})
        if chunked:
            first = f"POST /mcp HTTP/1.1\r\nhost: {link.url}\r\ntransfer-encoding: chunked\r\n\r\n"
            connection.writer.write(first.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            response = await read_head(connection.reader)
            response.body = await read_body(connection.reader, response)
        else:
            response = await connection.post(body)
        assert response.status == 413
        assert response.json()["error"]["code"] == -32600
        assert link.seen == []
        assert (await connection.post(call(2))).status == 200


async def test_a_server_that_is_not_there_is_a_502_with_a_json_rpc_error() -> None:
    with anyio.fail_after(PATIENCE):
        async with gateway_to("http://127.0.0.1:9/mcp") as link:
            response = await link.post(call("seven"))
            assert response.status == 502
            error = response.json()
            assert (error["id"], error["error"]["code"]) == ("seven", -32603)
            assert error["error"]["message"].startswith("midspan: the server at 127.0.0.1:9 cannot be reached")


async def test_a_server_that_dies_before_it_answers_is_a_502() -> None:
    async def handler(answer: Answer) -> None:
        await answer.break_off()

    async with relayed(handler) as link:
        response = await link.post(call(3))
        assert response.status == 502
        assert response.json()["id"] == 3


async def test_a_body_that_breaks_off_breaks_off() -> None:
    async def handler(answer: Answer) -> None:
        answer.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        await answer.writer.drain()
        await answer.break_off()

    async with relayed(handler) as link:
        connection = await link.connect()
        await connection.start("POST", call(1))
        response = await read_head(connection.reader)
        with pytest.raises(asyncio.IncompleteReadError):
            await read_body(connection.reader, response)


async def test_a_stream_that_breaks_off_ends() -> None:
    async def handler(answer: Answer) -> None:
        await answer.stream(b"id: 4\ndata: {}\n\n", end=False)
        await answer.break_off()

    async with relayed(handler) as link:
        response = await link.post(call(1))
        assert response.body == b"id: 4\ndata: {}\n\n"


@pytest.mark.parametrize("answered", ["not at all", "with a stream"])
async def test_a_client_that_goes_takes_its_request_to_the_server_with_it(answered: str) -> None:
    gone = asyncio.Event()

    async def handler(answer: Answer) -> None:
        if answered == "with a stream":
            await answer.stream(b": begun\n\n", end=False)
        await answer.gone()
        gone.set()

    async with relayed(handler) as link:
        connection = await link.connect()
        await connection.start("POST", call(1))
        if answered == "with a stream":
            await read_head(connection.reader)
        else:
            await link.seen.reach(1)
        await connection.close()
        await gone.wait()


async def test_a_client_that_does_not_read_holds_the_server_back() -> None:
    block = b"x" * 65536
    written = 0

    async def handler(answer: Answer) -> None:
        nonlocal written
        answer.writer.transport.set_write_buffer_limits(high=65536)
        await answer.stream(end=False)
        while written < 4000:
            await answer.write(block)
            written += 1
        await answer.end()

    async with relayed(handler) as link:
        connection = await link.connect()
        connection.reader._limit = 1024  # pyright: ignore[reportAttributeAccessIssue] # the client's own buffer
        await connection.start("GET", fields=[])
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.2)
        assert written < 2000  # what lies in kernel buffers and one read-ahead, not 250 MB


async def test_a_challenge_for_another_url_is_refused_with_a_line_that_says_what_to_do() -> None:
    async def handler(answer: Answer) -> None:
        metadata = "https://api.example/.well-known/oauth-protected-resource"
        challenge = f'Bearer error="invalid_token", resource_metadata="{metadata}"'
        await answer.send(b'{"error":"invalid_token"}', status="401 No", fields=[("www-authenticate", challenge)])

    async with relayed(handler, allowed_hosts=["api.example"]) as link:
        refused = await link.post(call(1))
        assert refused.status == 502
        assert "Authorization header" in refused.json()["error"]["message"]
        brought = await link.post(call(1), [*HANDSHAKE, ("authorization", "Bearer old")])
        assert (brought.status, brought.body) == (401, b'{"error":"invalid_token"}')
        same = await (await link.connect()).send("POST", call(1), HANDSHAKE, host="api.example")
        assert same.status == 401
        assert same.header("www-authenticate")


async def test_a_redirect_past_the_gateway_is_refused_with_the_url_to_use() -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(status="307 Temporary Redirect", fields=[("location", "http://u:p@h/mcp/?key=secret")])

    async with relayed(handler) as link:
        response = await link.post(call(1))
        assert response.status == 502
        assert "redirects to http://h/mcp/;" in response.json()["error"]["message"]


async def test_events_arrive_whole_when_the_server_writes_them_so() -> None:
    async def handler(answer: Answer) -> None:
        await answer.stream(b"data: 1\n\n", b"data: 2\n\ndata: 3\n\n")

    async with relayed(handler) as link:
        connection = await link.connect()
        await connection.start("GET", fields=[])
        await read_head(connection.reader)
        assert await events_of(connection, 3) == [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]


async def test_many_clients_with_the_same_ids_each_get_their_own_answer() -> None:
    async def handler(answer: Answer) -> None:
        await answer.send(result(1, {"for": answer.request.header("x-client")}))

    async with relayed(handler) as link:

        async def one(number: int) -> None:
            response = await link.post(call(1), [*HANDSHAKE, ("x-client", str(number))])
            assert response.json()["result"] == {"for": str(number)}

        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)
