"""The awkward server over streamable HTTP. It is strict about headers, since the specification is."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from tests.hostapp.fidelity.eras import VERSION_KEY, Era, dig
from tests.hostapp.http.wire import Answer, Fields, Message, raw_server

from .asked import Asked, Peer
from .server import Server

_TARGETS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_MISMATCH = -32020


class _Response:
    """Speaks in the response to one request: as JSON if it can, else as a stream of events."""

    def __init__(self, answer: Answer, server: Server, fields: Fields = ()) -> None:
        self._answer = answer
        self._form = server.form
        self._fields = fields
        self._started = False

    async def start(self) -> None:
        """Begin a stream."""
        if not self._started:
            self._started = True
            await self._answer.stream(fields=self._fields, end=False)

    async def send(self, message: bytes, *, last: bool = False, status: str = "200 OK") -> None:
        """Write the whole body, or an event."""
        if last and not self._started and (self._form == "json" or status != "200 OK"):
            self._started = True
            await self._answer.send(
                message, status=status, fields=[("content-type", "application/json"), *self._fields]
            )
            return
        await self.start()
        event = b"event: message\ndata: " + message + b"\n\n"
        if self._form == "single bytes":
            for place in range(len(event)):
                await self._answer.write(event[place : place + 1])
        else:
            await self._answer.write(event)
        if last:
            await self._answer.end()

    async def end(self) -> None:
        """End the stream."""
        await self.start()
        await self._answer.end()


class _Endpoint:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._sessions: dict[str, Peer] = {}

    async def __call__(self, answer: Answer) -> None:
        request = answer.request
        if request.method == "GET":
            await self._listen(answer)
        elif request.method == "DELETE":
            peer = self._sessions.pop(request.header("mcp-session-id") or "", None)
            await answer.send(status="204 No Content" if peer else "404 Not Found", fields=[])
        else:
            await self._post(answer)

    async def _listen(self, answer: Answer) -> None:
        peer = self._sessions.get(answer.request.header("mcp-session-id") or "")
        if peer is None:
            await answer.send(status="405 Method Not Allowed", fields=[])
            return
        stream = _Response(answer, self._server)
        await stream.start()
        peer.listens_at(stream)
        await answer.gone()

    async def _post(self, answer: Answer) -> None:
        message = json.loads(answer.request.body)
        headers = dict(answer.request.fields)
        if fault := self._fault(answer.request, message):
            self._server.complaints.append(fault)
            error = {"code": _MISMATCH, "message": fault}
            body = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
            await answer.send(json.dumps(body).encode(), status="400 Bad Request")
            return
        peer, fields = self._peer(message, headers)
        response = _Response(answer, self._server, fields)
        asked = self._server.hear(answer.request.body, peer, response, headers)
        if asked is None:
            await answer.send(status="202 Accepted", fields=[])
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_gone, answer, asked)
            await self._server.act(asked)
            group.cancel_scope.cancel()

    def _peer(self, message: dict[str, Any], headers: Mapping[str, str]) -> tuple[Peer, Fields]:
        if message.get("method") == "initialize":
            session = f"session-{len(self._sessions)}"
            self._sessions[session] = self._server.new_peer()
            return self._sessions[session], [("mcp-session-id", session)]
        return self._sessions.get(headers.get("mcp-session-id", "")) or self._server.new_peer(), ()

    async def _until_gone(self, answer: Answer, asked: Asked) -> None:
        await answer.gone()
        self._server.cancel(asked)

    def _fault(self, request: Message, message: dict[str, Any]) -> str | None:
        """Tell what is wrong with the headers."""
        method = message.get("method")
        if method == "initialize":
            return None
        said = request.header("mcp-protocol-version")
        if method == "server/discover" or said == Era.STATELESS or dig(message, "params", "_meta", VERSION_KEY):
            return _fault_of_stateless(request, message)
        peer = self._sessions.get(request.header("mcp-session-id") or "")
        if peer is None:
            return f"no such session: {request.fields}"
        if said != peer.version and (said is not None or (peer.version or "") >= "2025-06-18"):
            return f"the version {said}, where {peer.version} was agreed"
        return None


def _fault_of_stateless(request: Message, message: dict[str, Any]) -> str | None:
    method = message.get("method")
    target = dig(message, "params", _TARGETS[method]) if method in _TARGETS else None
    expected = {"mcp-method": method, "mcp-name": target}
    if "id" in message:
        expected["mcp-protocol-version"] = dig(message, "params", "_meta", VERSION_KEY)
    for header, value in expected.items():
        if (found := _decoded(request.header(header))) != value:
            return f"{header} is {found!a}, and the body says {value!a}"
    if request.header("mcp-session-id") is not None:
        return "a session, where there are none"
    return None


def _decoded(value: str | None) -> str | None:
    if value is not None and value.startswith("=?base64?"):
        return base64.b64decode(value.removeprefix("=?base64?").removesuffix("?=")).decode()
    return value


@asynccontextmanager
async def serve_http(server: Server) -> AsyncGenerator[str]:
    """Serve; yields the URL."""
    async with raw_server(server.watched(_Endpoint(server))) as (url, _):
        yield url
