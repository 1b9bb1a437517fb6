"""The ASGI application: who may come in, and which endpoint serves a path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

from midspan.http._client import Client, Receive, Scope, Send
from midspan.http._guard import Guard
from midspan.http._health import Health, HealthState
from midspan.relay import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

logger = logging.getLogger("midspan.gateway")

_POLICY_VIOLATION: Final = 1008


class Endpoint(Protocol):
    """Serves the requests of one path."""

    async def serve(self, client: Client) -> None:
        """Answer one request."""
        ...


class Front:
    """An ASGI application, to be run by a server or mounted in another application.

    Args:
        endpoints: by path, relative to where the application is mounted.
        guard: checks Host and Origin.
        running: entered when a server starts the application by itself, left when it stops; an application that it is
            mounted in does not tell it, so there whoever mounts it enters the gateway.
        health: answers `/healthz` and `/readyz`, for which the guard does not count. Unless it is `ready`, endpoints
            are refused with 503. A server that starts the application by itself makes it so, else its owner does.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        guard: Guard,
        *,
        running: AbstractAsyncContextManager[Any] | None = None,
        health: Health | None = None,
    ) -> None:
        self._mounted = {path: _Mounted(endpoint) for path, endpoint in endpoints.items()}
        self._guard = guard
        self._running = running
        self._health = health
        self._under_way = _UnderWay()

    @property
    def under_way(self) -> int:
        """How many requests of endpoints have no complete answer yet."""
        return self._under_way.count

    async def idle(self) -> None:
        """Wait until none is under way."""
        while self._under_way.count:
            await self._under_way.none.wait()

    def put(self, path: str, endpoint: Endpoint) -> None:
        """Serve a path, in the place of what served it, whose requests under way go on."""
        self._mounted[path] = _Mounted(endpoint)

    def drop(self, path: str) -> asyncio.Event:
        """Serve a path no more. Return what is set when no request is under way there."""
        return self._mounted.pop(path).under_way.none

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI 3 has it."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = Client(scope, receive, send)
        path = _path_of(scope)
        try:
            if self._health is not None and await self._health.serve(client, path):
                return
            # All fields, since a field that Connection names does not get on but counts here.
            refusal = self._guard.check(scope["headers"])
            mounted = self._mounted.get(path)
            if refusal is not None:
                logger.warning("refused a request: %s", refusal.reason)
                await client.refuse(refusal.status, INVALID_REQUEST, refusal.reason)
            elif self._health is not None and self._health.state != "ready":
                await client.refuse(503, CONNECTION_CLOSED, f"the gateway is {self._health.state}")
            elif mounted is None:
                await client.refuse(404, INVALID_REQUEST, "nothing is served here")
            else:
                with self._under_way, mounted.under_way:
                    await mounted.endpoint.serve(client)
        except Exception:
            logger.exception("a request could not be relayed")
            if not client.started:
                await client.refuse(500, INTERNAL_ERROR, "the request could not be relayed")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            if self._running is not None:
                await self._running.__aenter__()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        self._be("ready")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._be("stopping")
        if self._running is not None:
            await self._running.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})

    def _be(self, state: HealthState) -> None:
        if self._health is not None:
            self._health.state = state


class _UnderWay:
    """Counts what is under way.

    Attributes:
        count: how many there are.
        none: set while there are none.
    """

    def __init__(self) -> None:
        self.count = 0
        self.none = asyncio.Event()
        self.none.set()

    def __enter__(self) -> None:
        self.count += 1
        self.none.clear()

    def __exit__(self, *error: object) -> None:
        self.count -= 1
        if not self.count:
            self.none.set()


class _Mounted:
    """An endpoint, and its requests under way."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.under_way = _UnderWay()


def _path_of(scope: Scope) -> str:
    """Return the path relative to where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if root and path.startswith(root) else path
