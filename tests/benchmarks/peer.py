"""The server behind every contender of `bench_gateway.py`: one tool, whose result is as long as the call says.

    python peer.py stdio | http-raw | http-sdk

`raw` answers with as little work as can be done, so that what stands in front of it shows; `sdk` is the MCP SDK's own
server. Over HTTP one line on stderr names the port.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

KEPT_ALIVE = 600
"""Seconds that an idle connection is kept: while one contender is measured, the others' connections must not end."""


@functools.cache
def text(size: int) -> bytes:
    """Return a result of this size."""
    return b'"result":{"content":[{"type":"text","text":"' + b"x" * size + b'"}]}'


def answer(message: bytes) -> bytes | None:
    """Answer a request; None for what is none."""
    call: dict[str, Any] = json.loads(message)
    method, number = call.get("method"), call.get("id")
    if method is None or number is None:
        return None
    match method:
        case "tools/call":
            outcome = text(call["params"]["arguments"]["size"])
        case "initialize":
            version = json.dumps(call["params"]["protocolVersion"]).encode()
            server = b'"capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}'
            outcome = b'"result":{"protocolVersion":' + version + b"," + server + b"}"
        case "tools/list":
            properties = b'{"size":{"type":"integer"}}'
            outcome = (
                b'"result":{"tools":[{"name":"blob","inputSchema":{"type":"object","properties":%b}}]}' % properties
            )
        case _:
            outcome = b'"error":{"code":-32601,"message":"unknown"}'
    return b'{"jsonrpc":"2.0","id":' + json.dumps(number).encode() + b"," + outcome + b"}"


def over_stdio() -> None:
    """Answer line by line until the input ends."""
    for line in sys.stdin.buffer:
        if (data := answer(line)) is not None:
            view = memoryview(data + b"\n")
            while view:
                view = view[os.write(1, view) :]


Messages = MutableMapping[str, Any]


async def raw(
    scope: Messages, receive: Callable[[], Awaitable[Messages]], send: Callable[[Messages], Awaitable[None]]
) -> None:
    """Answer one request over ASGI."""
    body = b""
    more = scope["method"] == "POST"
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    data = answer(body) if body else None
    status = 405 if not body else 200 if data is not None else 202
    data = data or b""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    if b'"initialize"' in body:
        headers.append((b"mcp-session-id", b"raw"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def sdk() -> Any:
    """Return the application of a server made with the MCP SDK."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", log_level="ERROR")

    @server.tool(structured_output=False)
    def blob(size: int) -> str:
        return "x" * size

    del blob
    return server.streamable_http_app()


def serve(application: Any, *, lifespan: bool) -> None:
    """Serve an application on a free port until a signal comes."""
    import uvicorn

    # With its protocol named, else asyncio does not switch Nagle's algorithm off, and small answers wait for 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    print(f"serving on {listener.getsockname()[1]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        application,
        lifespan="on" if lifespan else "off",
        log_level="error",
        access_log=False,
        timeout_keep_alive=KEPT_ALIVE,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    match sys.argv[1]:
        case "stdio":
            over_stdio()
        case "http-raw":
            serve(raw, lifespan=False)
        case "http-sdk":
            serve(sdk(), lifespan=True)
        case _:
            sys.exit(__doc__)
