"""Servers over streamable HTTP, which forget sessions and refuse connections when they are started anew."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import uvicorn
from mcp import Client
from remote_ways import call, server_of, until_passed

from midspan_sdk import Chain, validator
from midspan_sdk.mcp import _connection

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_is_left")]


@validator(events=["tools/call"], phase="request")
def guard(payload: dict[str, Any]) -> str | None:
    return None if "nothing" in payload else "lost a null"


class Listening(uvicorn.Server):
    """Lets the test's own signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def http_server(port: int) -> AsyncGenerator[int]:
    """Serve the guard on a port of this machine; 0 takes a free one."""
    app = server_of(guard).streamable_http_app()
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = Listening(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            await server.listening.wait()
            yield listener.getsockname()[1]
            server.should_exit = True


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_server_that_was_started_anew_is_found_again(
    mode: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_connection, "FIRST_RETRY", 0.02)
    monkeypatch.setattr(_connection, "LONGEST_RETRY", 0.1)
    monkeypatch.setattr(_connection, "PATIENCE", 0.05)
    caplog.set_level(logging.CRITICAL)
    with anyio.fail_after(20):
        async with Chain() as chain:
            async with http_server(0) as port:
                await chain.add_server(lambda: Client(f"http://127.0.0.1:{port}/mcp", mode=mode))
                assert (await call(chain)).status == "success"
            assert (await call(chain)).status == "validation_failed"  # refused, at once
            async with http_server(port):
                await until_passed(chain)
                assert (await call(chain)).status == "success"
            async with http_server(port):  # nobody called in between: it looks open and its session is forgotten
                await until_passed(chain)
