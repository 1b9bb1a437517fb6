"""What both eras of an HTTP front need: connections to the server, judges, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from midspan.http import Catalogs, Headers, RefusedError
from midspan.interception import ChainJudge, ConnectionContext, Regimes, learns_tools
from midspan.relay import CONNECTION_CLOSED, Backend, ConnectError, Judge, PassAll, RestartPolicy, Supervised
from midspan_sdk import Principal

logger = logging.getLogger("midspan.gateway")

T = TypeVar("T")

BackendOf = Callable[[Headers], Backend]

IDLE: Final = 3600.0
"""Seconds after which what no request uses is ended, and its server with it."""
MOST: Final = 1000
"""Connections of each era that are kept at once; each may be a process."""
_LONGEST_END: Final = 10.0
"""Seconds in which everything ends; a server that is a process is killed long before."""


class Opening:
    """Opens connections, and ends them.

    Args:
        backend: opens connections; given a request's headers, for credentials that get on.
        regimes: by which messages are decided; None relays only.
        server: the server's name.
        limit: the longest message in bytes.
        restart: whether a server that ends while it is used is started anew.
    """

    def __init__(
        self,
        backend: BackendOf,
        regimes: Regimes | None,
        server: str,
        *,
        limit: int,
        restart: RestartPolicy,
    ) -> None:
        self._backend = backend
        self._regimes = regimes
        self._server = server
        self._limit = limit
        self._restart = restart
        self._catalogs = Catalogs(idle=IDLE, most=MOST)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self) -> None:
        """Take the chain as it is now: without anything in it, the gateway relays only."""
        self._closed = False
        regimes = self._regimes
        if regimes is not None and not regimes.swappable and not regimes.current.acts:
            self._regimes = None

    def connect(self, headers: Headers, keep: Callable[[Supervised], T]) -> asyncio.Task[T]:
        """Open a connection, in a task of its own: who waits for it may be cancelled.

        Args:
            headers: of the request that it is opened for.
            keep: gets the connection at once, so that none is lost when the gateway stops meanwhile.

        Returns:
            Comes to what `keep` returns; raises `RefusedError` when there is no connection.
        """
        return self.later(self._connect(headers, keep))

    async def _connect(self, headers: Headers, keep: Callable[[Supervised], T]) -> T:
        try:
            connection = await Supervised.open(self._backend(headers), limit=self._limit, policy=self._restart)
        except ConnectError as error:
            logger.error("%s", error)
            raise RefusedError(502, CONNECTION_CLOSED, str(error)) from None
        if self._closed:
            await connection.stop()
            raise RefusedError(503, CONNECTION_CLOSED, "the gateway is stopping")
        return keep(connection)

    def judge(self, principal: Principal, session: str | None, *, alone: bool = False) -> Judge:
        """Return the judge of one conversation.

        Args:
            principal: on whose behalf the client speaks.
            session: names the state that the interceptors get; None when nothing ties this to what comes later.
            alone: whether it judges one request only, so that what is learnt of the tools is the principal's.
        """
        regimes = self._regimes
        if regimes is None:
            return PassAll()
        flow = principal.id or f"anonymous:{session or uuid.uuid4().hex}"
        context = ConnectionContext(server=self._server, principal=principal, flow=flow, session=session)
        learns = regimes.swappable or learns_tools(regimes.current.chain)
        tools = self._catalogs.of(principal.id) if alone and learns else None
        judge = ChainJudge(regimes, context, tools=tools)
        if not regimes.may_expose:
            return judge
        from midspan.exposing import ExposingJudge

        return ExposingJudge(judge, regimes)

    def end_state(self, session: str) -> None:
        """Forget what interceptors keep for a session."""
        if self._regimes is not None:
            self._regimes.end_session(session)

    def later(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do something in the background; `aclose` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Open nothing more, and wait for what is ending."""
        self._closed = True
        self._catalogs.clear()
        try:
            async with asyncio.timeout(_LONGEST_END):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            logger.error("gave up %d connections that did not end", len(self._tasks))
        finally:
            for task in self._tasks:
                task.cancel()
