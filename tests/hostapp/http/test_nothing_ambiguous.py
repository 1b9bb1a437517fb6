"""No form of an HTTP request gets a denied call to a server, and no form of an event shows a denied tool."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import anyio
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from midspan.http import listen, run_server
from tests.hostapp.interception.spellings import plain_call, spellings
from tests.hostapp.interception.ways import HTTPClient, served
from tests.interop.everything.server import make_app

from .wire import (
    HANDSHAKE,
    JSON_HEADERS,
    STATELESS_META,
    Answer,
    Connection,
    Fields,
    Message,
    head,
    raw_server,
    read_body,
    read_head,
    request,
    stateless,
)

pytestmark = pytest.mark.anyio

DENIED, ALLOWED = "test_image_content", "test_simple_text"
"""Tools of the server in `tests/interop`."""
CONFIG: Final = f"""
[plugins.policy.config]
deny = ["{DENIED}"]
"""
INTEROP: Final = Path(__file__).parents[2] / "interop"
TEE: Final = Path(__file__).parents[2] / "installed" / "tee.py"
CALL: Final = plain_call(7, DENIED, {})
GOOD: Final = plain_call(7, ALLOWED, {})
META_CALL: Final = plain_call(7, DENIED, {}, STATELESS_META)
META_GOOD: Final = plain_call(7, ALLOWED, {}, STATELESS_META)
TYPE: Final = ("content-type", "application/json")
ACCEPT: Final = ("accept", "application/json, text/event-stream")
ERA: Final = ("mcp-protocol-version", "2025-11-25")


def typed(content_type: str, *more: tuple[str, str]) -> Fields:
    """Return the headers of a request of another type."""
    return [("content-type", content_type), ACCEPT, ERA, *more]


def encoded(*codings: str) -> Fields:
    return typed("application/json", *(("content-encoding", coding) for coding in codings))


FORMS: Final[Mapping[str, tuple[Fields, bytes]]] = {
    "gzip": (encoded("gzip"), gzip.compress(CALL)),
    "gzip that nobody names": (HANDSHAKE, gzip.compress(CALL)),
    "x-gzip": (encoded("x-gzip"), gzip.compress(CALL)),
    "deflate": (encoded("deflate"), zlib.compress(CALL)),
    "gzip behind identity": (encoded("identity, gzip"), gzip.compress(CALL)),
    "gzip in a header of its own": (encoded("identity", "gzip"), gzip.compress(CALL)),
    "gzip that is none": (encoded("gzip"), CALL),
    "text": (typed("text/plain"), CALL),
    "no type": ([ACCEPT, ERA], CALL),
    "a form": (typed("application/x-www-form-urlencoded"), CALL),
    "almost JSON": (typed("application/json-rpc"), CALL),
    "two types in one": (typed("application/json, text/plain"), CALL),
    "two types": ([TYPE, ("content-type", "text/plain"), ACCEPT, ERA], CALL),
    "an event": (typed("text/event-stream"), b"data: " + CALL + b"\n\n"),
    "an event in three lines": (
        typed("text/event-stream"),
        b"data: " + CALL.replace(b",", b"\ndata: ,", 2) + b"\n\n",
    ),
    "an event in JSON": (HANDSHAKE, b"data: " + CALL + b"\n\n"),
    "several parts": (
        typed("multipart/form-data; boundary=x"),
        b"--x\r\ncontent-type: application/json\r\n\r\n" + CALL + b"\r\n--x--\r\n",
    ),
    "UTF-16": (typed("application/json; charset=utf-16"), CALL.decode().encode("utf-16")),
    "UTF-16LE": (typed("application/json; charset=utf-16le"), CALL.decode().encode("utf-16-le")),
    "UTF-7": (typed("application/json; charset=utf-7"), CALL.replace(b'"name"', b"+ACI-name+ACI-")),
    "Latin-1": (typed("application/json; charset=iso-8859-1"), CALL),
    "two charsets": (typed("application/json; charset=utf-8; charset=utf-16"), CALL),
    "UTF-8": (typed("application/json; charset=UTF-8"), CALL),
    "two versions": ([*HANDSHAKE, ("mcp-protocol-version", "2026-07-28")], CALL),
    "an override of the method": ([*HANDSHAKE, ("x-http-method-override", "GET")], CALL),
    "an upgrade": ([*HANDSHAKE, ("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")], CALL),
    "a header for another method": ([*HANDSHAKE, ("mcp-method", "ping")], CALL),
}
"""Of the handshake era: headers but for the session's, and body."""
FORMS_FOR_HTTP: Final[Mapping[str, tuple[Fields, bytes]]] = {
    "a header for another method, a good call": ([*HANDSHAKE, ("mcp-method", "ping")], GOOD),
    "a header with the denied name, a good call": ([*HANDSHAKE, ("mcp-name", DENIED)], GOOD),
}
"""The same; a server that gets no headers cannot go by them."""
STATELESS_FORMS: Final[Mapping[str, tuple[Fields, bytes]]] = {
    "as it is": (stateless("tools/call", DENIED), META_CALL),
    "another method": (stateless("ping"), META_CALL),
    "another listing": (stateless("tools/list"), META_CALL),
    "the other name": (stateless("tools/call", ALLOWED), META_CALL),
    "the denied name": (stateless("tools/call", DENIED), META_GOOD),
    "the denied name, encoded": (stateless("tools/call", "=?base64?dGVzdF9pbWFnZV9jb250ZW50?="), META_GOOD),
    "the denied name behind": ([*stateless("tools/call", ALLOWED), ("mcp-name", DENIED)], META_GOOD),
    "both names in one": (stateless("tools/call", f"{ALLOWED}, {DENIED}"), META_CALL),
    "the method twice": ([*stateless("ping"), ("mcp-method", "tools/call"), ("mcp-name", DENIED)], META_CALL),
    "no method": ([*JSON_HEADERS, ("mcp-protocol-version", "2026-07-28"), ("mcp-name", ALLOWED)], META_CALL),
    "the handshake's version": ([*JSON_HEADERS, ERA, ("mcp-method", "tools/call"), ("mcp-name", DENIED)], META_CALL),
    "no version": ([*JSON_HEADERS, ("mcp-method", "tools/call"), ("mcp-name", DENIED)], META_CALL),
    "a version in the header only": (stateless("tools/call", DENIED), CALL),
    "gzip": ([*stateless("tools/call", DENIED), ("content-encoding", "gzip")], gzip.compress(META_CALL)),
}


def chunked(body: bytes, *, size: int = 9, extension: bytes = b"") -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts) + b"0\r\n\r\n"


def framed(fields: Fields, body: bytes) -> bytes:
    return head("POST /mcp HTTP/1.1", [("host", "localhost"), *fields]) + body


def framings(session: str | None) -> Mapping[str, bytes]:
    """Return whole requests in which the end of the body is said in more than one way, or in an unusual one."""
    kept: Fields = [*HANDSHAKE, *([("mcp-session-id", session)] if session else [])]
    fields: Fields = [*kept, ("connection", "close")]
    coded, length = ("transfer-encoding", "chunked"), ("content-length", str(len(CALL)))
    behind = framed([*fields, length], CALL)
    return {
        "in chunks": framed([*fields, coded], chunked(CALL)),
        "in chunks of one byte": framed([*fields, coded], chunked(CALL, size=1)),
        "in chunks with extensions": framed([*fields, coded], chunked(CALL, extension=b";a=b")),
        "chunks and a length": framed([*fields, coded, ("content-length", "4")], chunked(CALL)),
        "a length and chunks": framed([*fields, length, coded], CALL),
        "chunked twice": framed([*fields, coded, coded], chunked(CALL)),
        "chunks of gzip": framed([*fields, ("transfer-encoding", "gzip, chunked")], chunked(gzip.compress(CALL))),
        "two lengths": framed([*fields, ("content-length", str(len(CALL) + 9)), length], CALL),
        "the same length twice": framed([*fields, length, length], CALL),
        "a length with a sign": framed([*fields, ("content-length", f"+{len(CALL)}")], CALL),
        "no length": framed(fields, CALL),
        "a length of nothing": framed([*fields, ("content-length", "0")], CALL),
        "a folded header": behind.replace(b"content-type: ", b"content-type:\r\n "),
        "a space before the colon": behind.replace(b"content-length:", b"content-length :"),
        "line feeds only": framed([*fields, length], b"").replace(b"\r\n", b"\n") + CALL,
        "behind a good one that is longer than it says": framed(
            [*kept, ("content-length", str(len(GOOD)))], GOOD + b"\r\n" + behind
        ),
    }


class Back:
    """The messages that reached the server."""

    def __init__(self, log: Callable[[], Sequence[bytes]]) -> None:
        self._log = log

    def calls(self) -> list[str]:
        """Return the tools that were called, and fail on what no strict reader can read."""
        messages: list[Any] = [json.loads(body) for body in self._log()]
        assert all(isinstance(message, dict) for message in messages)
        return [message["params"]["name"] for message in messages if message["method"] == "tools/call"]


class Logged:
    """The server's application, with every body in a list."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()

        async def noted() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            if message["type"] == "http.request" and not message.get("more_body", False) and body:
                self.bodies.append(bytes(body))
            return message

        await self._app(scope, noted, send)


@asynccontextmanager
async def in_front_of_a_url(config: Path, folder: Path) -> AsyncGenerator[tuple[int, Back]]:
    app = make_app()
    logged = Logged(app)
    listener = listen("127.0.0.1", 0)
    listener.listen(64)
    stop = asyncio.Event()
    async with app.router.lifespan_context(app):
        running = asyncio.create_task(run_server(logged, listener, stop=stop))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        async with served("--config", str(config), "--plugin", "policy", "--url", url) as port:
            yield port, Back(lambda: logged.bodies)
        stop.set()
        await running


@asynccontextmanager
async def in_front_of_a_command(config: Path, folder: Path) -> AsyncGenerator[tuple[int, Back]]:
    log = folder / "asked"
    command = [sys.executable, "-I", "-S", str(TEE), str(log), sys.executable, "-m", "everything", "stdio"]
    async with served("--config", str(config), "--plugin", "policy", "--", *command, cwd=INTEROP) as port:
        yield port, Back(lambda: log.read_bytes().splitlines())


FRONTS: Final = {"url": in_front_of_a_url, "command": in_front_of_a_command}


def is_refused(response: Message) -> bool:
    """Tell whether nothing but a refusal is in a response; or nothing at all, as for a notification."""
    if response.status >= 400 or (response.status == 202 and not response.body):
        return True
    text = response.body.decode()
    data = "".join(line[5:] for line in text.splitlines() if line.startswith("data:"))
    found: Any = json.loads(data or text)
    messages = cast("list[Any]", found) if isinstance(found, list) else [found]
    return all("error" in one or one["result"].get("isError") is True for one in messages)


class Attacker:
    """A raw client of one front.

    Attributes:
        good: how many good calls it made.
    """

    def __init__(self, client: HTTPClient) -> None:
        self._client = client
        self.good = 0
        self._connection: Connection | None = None

    async def open(self) -> None:
        await self._client.open()

    @property
    def session(self) -> str | None:
        return self._client.session

    async def post(self, body: bytes, fields: Fields, *, session: bool = True) -> Message:
        if session and self.session is not None:
            fields = [*fields, ("mcp-session-id", self.session)]
        if self._connection is None:
            self._connection = await self._client.connect()
        response = await self._connection.send("POST", body, fields)
        if response.header("connection") == "close":
            self._connection = None
        return response

    async def write(self, whole: bytes) -> list[Message]:
        """Send bytes on a connection of their own, which the gateway closes, and return all responses."""
        connection = await self._client.connect()
        connection.writer.write(whole)
        responses: list[Message] = []
        try:
            while True:
                response = await read_head(connection.reader)
                response.body = await read_body(connection.reader, response)
                responses.append(response)
        except (asyncio.IncompleteReadError, ConnectionError):
            await connection.close()
        return responses

    async def works(self) -> None:
        """Assert that a good call works, in one era and the next time in the other."""
        if self.good % 2:
            response = await self.post(GOOD, HANDSHAKE)
        else:
            response = await self.post(META_GOOD, stateless("tools/call", ALLOWED), session=False)
        assert response.status == 200
        assert b"A simple text." in response.body
        self.good += 1


async def attacks(attacker: Attacker, forms: Mapping[str, tuple[Fields, bytes]]) -> AsyncGenerator[None]:
    """Make all attempts; yields after each, when it was refused."""
    for name, body in spellings(DENIED, ALLOWED).items():
        response = await attacker.post(body, HANDSHAKE)
        assert is_refused(response), name
        yield
    for name, body in spellings(DENIED, ALLOWED, meta=STATELESS_META).items():
        response = await attacker.post(body, stateless("tools/call", DENIED), session=False)
        assert is_refused(response), name
        yield
    for name, (fields, body) in forms.items():
        response = await attacker.post(body, fields)
        assert is_refused(response), name
        yield
    for name, (fields, body) in STATELESS_FORMS.items():
        assert is_refused(await attacker.post(body, fields, session=False)), name
        yield
    for name, whole in framings(attacker.session).items():
        responses = await attacker.write(whole)
        if name.startswith("behind"):
            assert b"A simple text." in responses.pop(0).body
            attacker.good += 1
        assert responses, name
        assert all(map(is_refused, responses)), name
        yield


@pytest.mark.parametrize("front", FRONTS)
async def test_no_form_of_a_denied_call_reaches_the_server(tmp_path: Path, front: str) -> None:
    config = tmp_path / "midspan.toml"
    config.write_text(CONFIG)
    with anyio.fail_after(60):
        async with FRONTS[front](config, tmp_path) as (port, back):
            client = HTTPClient("handshake", port)
            attacker = Attacker(client)
            try:
                await client.open()
                forms = {**FORMS, **(FORMS_FOR_HTTP if front == "url" else {})}
                async for _ in attacks(attacker, forms):
                    await attacker.works()
                assert back.calls() == [ALLOWED] * attacker.good
            finally:
                client.close_all()


KEPT: Final = b'{"name":"%s","inputSchema":{"type":"object"}}' % ALLOWED.encode()
_LINES: Final = (
    b'{"jsonrpc":"2.0","id":%d,"result":',
    b'{"tools":[' + KEPT.replace(ALLOWED.encode(), DENIED.encode()) + b",",
    KEPT + b"]}}",
)
LISTING: Final = b"".join(_LINES)
IN_LINES: Final = b"\n".join(b"data: " + line for line in _LINES)
STREAMS: Final[Mapping[str, bytes]] = {
    "three lines": IN_LINES + b"\n\n",
    "three lines of a named event": b"event: message\nid: 4\n" + IN_LINES + b"\n\n",
    "carriage returns": IN_LINES.replace(b"\n", b"\r") + b"\r\r",
    "both": IN_LINES.replace(b"\n", b"\r\n") + b"\r\n\r\n",
    "no spaces": IN_LINES.replace(b"data: ", b"data:") + b"\n\n",
    "comments between": IN_LINES.replace(b"\n", b"\n: data: {}\n") + b"\n\n",
    "an id and a name between": IN_LINES.replace(b"\n", b"\nid: 1\nevent: x\n", 1).replace(b"x", b"message", 1)
    + b"\n\n",
    "empty lines of data": b"data\n" + IN_LINES.replace(b"\n", b"\ndata:\n") + b"\ndata\n\n",
    "a BOM in front": b"\xef\xbb\xbf" + IN_LINES + b"\n\n",
    "a name that is no message": b"event: other\n" + IN_LINES + b"\n\n",
}
"""Streams whose only event a client takes for a listing, or for nothing."""
BROKEN: Final[Mapping[str, bytes]] = {
    "a line ends in a name": b"data: " + LISTING.replace(b"image", b"image\ndata: ") + b"\n\n",
    "a batch in three lines": b"data: [\n" + IN_LINES + b"\ndata: ]\n\n",
    "two names over two lines": b"data: " + LISTING.replace(b'{"name"', b'{"name":"x",\ndata: "name"', 1) + b"\n\n",
    "NaN over two lines": b"data: " + LISTING.replace(b'"result"', b'"x":\ndata: NaN,"result"') + b"\n\n",
    "nested over two lines": b"data: "
    + LISTING.replace(b'"tools"', b'"x":' + b"[" * 5000 + b"\ndata: " + b"]" * 5000 + b',"tools"')
    + b"\n\n",
    "a BOM in the data": b"data: \xef\xbb\xbf" + LISTING + b"\n\n",
    "two messages in one event": IN_LINES + b"\n" + IN_LINES + b"\n\n",
}
"""Streams whose only event two clients may read differently, or one as nothing."""


async def test_an_event_over_several_lines_shows_no_denied_tool(tmp_path: Path) -> None:
    config = tmp_path / "midspan.toml"
    config.write_text(CONFIG)
    streams = {**STREAMS, **BROKEN}

    async def list_tools(answer: Answer) -> None:
        message: dict[str, Any] = answer.request.json()
        if "id" not in message:
            await answer.send(status="202 Accepted", fields=[])
            return
        if message["method"] == "ping":
            await answer.send(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % message["id"])
            return
        await answer.stream(streams[message["params"]["cursor"]].replace(b"%d", b"%d" % message["id"]))

    with anyio.fail_after(60):
        async with (
            raw_server(list_tools) as (url, _),
            served("--config", str(config), "--plugin", "policy", "--url", url) as port,
        ):
            client = HTTPClient("handshake", port)
            connection = await client.connect()
            for number, name in enumerate(streams):
                response = await connection.post(request(number, "tools/list", {"cursor": name}), HANDSHAKE)
                assert b"image" not in response.body, name
                assert (KEPT in response.body) == (name in STREAMS), name
                assert (await connection.post(request(99, "ping"), HANDSHAKE)).json()["result"] == {}, name
            client.close_all()
