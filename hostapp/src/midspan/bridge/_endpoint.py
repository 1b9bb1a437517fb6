"""The endpoint of an HTTP front whose server is reached over lines: a command, an older transport, a server object."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Self

from midspan.bridge._alone import AloneFront
from midspan.bridge._opening import BackendOf, Opening
from midspan.bridge._reading import read_message
from midspan.bridge._session_front import Answering, SessionFront
from midspan.http import Budget, Client, ClientGoneError, RefusedError, Reservation, id_in, is_stateless
from midspan.interception import Regimes
from midspan.relay import INVALID_REQUEST, NEVER, RestartPolicy

logger = logging.getLogger("midspan.gateway")

_BUDGETS: Final = 4
_METHODS: Final = ("GET", "POST", "DELETE")


class BridgeEndpoint:
    """Serves HTTP clients; use it as an async context manager.

    A session of the handshake revisions has a connection to the server of its own. Requests of 2026-07-28 share one for
    each principal.

    Args:
        backend: opens connections; given a request's headers, for credentials that get on.
        regimes: by which messages are decided; None relays only.
        server: the server's name.
        max_message: the longest message in bytes.
        restart: whether a server that ends during a session is started anew.
    """

    def __init__(
        self,
        backend: BackendOf,
        regimes: Regimes | None,
        server: str,
        *,
        max_message: int,
        restart: RestartPolicy = NEVER,
    ) -> None:
        self._limit = max_message
        self._budget = Budget(_BUDGETS * max_message)
        self._opening = Opening(backend, regimes, server, limit=max_message, restart=restart)
        self._sessions = SessionFront(self._opening)
        self._alone = AloneFront(self._opening)
        self._entered = False

    async def __aenter__(self) -> Self:
        """Make ready. No server is started yet."""
        self._entered = True
        self._opening.start()
        self._sessions.start()
        self._alone.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all sessions and their servers."""
        self._sessions.close()
        self._alone.close()
        await self._opening.aclose()

    def stop(self) -> None:
        """End the streams that are open for what a server may want to say; requests go on."""
        self._sessions.stop()
        self._alone.stop()

    async def serve(self, client: Client) -> None:
        """Answer one request."""
        if not self._entered:  # nobody would end the servers that are started
            raise RuntimeError("the gateway is not running: use `async with gateway:`")
        if client.method not in _METHODS:
            await client.answer(405, headers=[(b"allow", ", ".join(_METHODS).encode())])
            return
        message_id = None
        with Reservation() as room:
            try:
                body = await client.body(self._limit, self._budget, room)
                message_id = id_in(body)
                answering = await self._take(client, body)
                # An answer may take for ever; until then nothing here keeps the request, nor room for it.
                del body
                room.__exit__(None, None, None)
                await answering()
            except ClientGoneError:
                pass
            except RefusedError as refused:
                logger.warning("refused a request: %s", refused.reason)
                if not client.started:
                    await client.refuse(refused.status, refused.code, refused.reason, message_id)

    async def _take(self, client: Client, body: bytes) -> Answering:
        """Hand a request on. Return what writes the response."""
        if client.method != "POST":
            if body:
                raise RefusedError(400, INVALID_REQUEST, f"a {client.method} request takes no body")
            if is_stateless(client.headers):
                return self._alone.not_allowed(client)
            return self._sessions.take_empty(client)
        message, line = read_message(client, body)
        if is_stateless(client.headers):
            return await self._alone.take(client, message, line)
        return await self._sessions.take(client, message, line)
