"""A server for `bench_http.py`: one tool, whose result is as long as the call says.

    python http_peer.py sdk|raw

`sdk` is the MCP SDK's own server; `raw` answers JSON with as little work as an ASGI application can do. One line on
stderr names the port.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn


def sdk() -> Any:
    """Return the application of a server made with the MCP SDK."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", log_level="ERROR")

    @server.tool()
    def blob(size: int) -> str:
        return "x" * size

    del blob
    return server.streamable_http_app()


Messages = MutableMapping[str, Any]


async def raw(
    scope: Messages, receive: Callable[[], Awaitable[Messages]], send: Callable[[Messages], Awaitable[None]]
) -> None:
    """Answer any call."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    call = json.loads(body)
    text = "x" * call.get("params", {}).get("arguments", {}).get("size", 0)
    answer = {"jsonrpc": "2.0", "id": call.get("id"), "result": {"content": [{"type": "text", "text": text}]}}
    data = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    if call.get("method") == "initialize":
        headers.append((b"mcp-session-id", b"raw"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def main() -> None:
    """Serve until a signal stops it."""
    kind = sys.argv[1]
    # With its protocol named, else asyncio does not switch Nagle's algorithm off, and small answers wait for 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    print(f"peer: {listener.getsockname()[1]}", file=sys.stderr, flush=True)
    lifespan = "on" if kind == "sdk" else "off"
    config = uvicorn.Config(sdk() if kind == "sdk" else raw, lifespan=lifespan, log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
