"""A chain's connection to one interceptor server: whoever owns it, calls go through here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, cast

import anyio
import anyio.abc
from mcp import Client, ClientSession

from midspan_sdk import Descriptor, PeerError
from midspan_sdk.mcp._capability import read_capability
from midspan_sdk.mcp._listing import list_interceptors
from midspan_sdk.wire import CONTEXT_KEY

logger = logging.getLogger("midspan.mcp")

ClientFactory = Callable[[], AbstractAsyncContextManager[Client | ClientSession]]
"""Makes a client that is not open yet; called again for each new connection."""

FIRST_RETRY: Final = 0.1
LONGEST_RETRY: Final = 30.0
"""Seconds between attempts to connect again: the first, doubled up to the longest."""


class Connection:
    """An open client, and what its server offers.

    Attributes:
        server: how the server is called in errors and logs.
        descriptors: its interceptors, as last listed.
        context_keys: keys of an invocation's context that it asks for.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.descriptors: tuple[Descriptor, ...] = ()
        self.context_keys: frozenset[str] = frozenset()
        self._client: Client | ClientSession | None = None

    async def client(self) -> Client | ClientSession | None:
        """Return the open client; None when the connection is lost."""
        return self._client

    def lost(self, client: Client | ClientSession) -> None:
        """Note that a call found this client closed."""

    async def adopt(self, client: Client | ClientSession) -> None:
        """List a client's interceptors and use it from now on.

        Raises:
            PeerError: the listing cannot be used; what was known before stays.
        """
        descriptors = tuple(await list_interceptors(client))
        self.descriptors = descriptors
        self.context_keys = _context_keys(client)
        self._client = client

    async def refresh(self) -> None:
        """List again.

        Raises:
            PeerError: the connection is lost, or the listing cannot be used.
        """
        client = await self.client()
        if client is None:
            raise PeerError(self.server, "the connection is closed")
        await self.adopt(client)


class SupervisedConnection(Connection):
    """A connection that one task of its own opens, keeps and opens again.

    What goes wrong in a transport ends that task's client and nothing else. Calls that were under way fail; a later
    call waits, within its own deadline, for the next connection.

    Args:
        server: how the server is called.
        factory: makes the client.
        changed: called after each new listing.
    """

    def __init__(self, server: str, factory: ClientFactory, changed: Callable[[], None]) -> None:
        super().__init__(server)
        self._factory = factory
        self._changed = changed
        self._ready = anyio.Event()
        self._dropped = anyio.Event()

    async def client(self) -> Client | ClientSession | None:
        """Return the open client, waiting for a new connection when there is none."""
        await self._ready.wait()
        return self._client

    def lost(self, client: Client | ClientSession) -> None:
        """Let the supervising task connect anew."""
        if self._client is client:
            self._client = None
            self._ready = anyio.Event()
            self._dropped.set()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Connect, and connect again whenever the connection is lost. Reports as started after the first listing.

        Raises:
            PeerError: the first connection failed.
        """
        first, pause = True, FIRST_RETRY
        while True:
            try:
                async with self._factory() as client:
                    await self.adopt(client)
                    self._dropped = anyio.Event()
                    self._ready.set()
                    if first:
                        first = False
                        task_status.started()
                    else:
                        logger.info("connected again to interceptor server %r", self.server)
                        self._changed()
                    pause = FIRST_RETRY
                    await self._dropped.wait()
            except Exception as error:
                if first:
                    raise _unreachable(self.server, error) from error
                if self._client is not None:
                    self.lost(self._client)
                logger.warning("interceptor server %r: %s", self.server, _cause(error))
            await anyio.sleep(pause)
            pause = min(pause * 2, LONGEST_RETRY)


def _context_keys(client: Client | ClientSession) -> frozenset[str]:
    keys: object = (read_capability(client.server_capabilities) or {}).get(CONTEXT_KEY)
    return frozenset(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else frozenset()  # pyright: ignore[reportUnknownVariableType] - a peer's list of anything


def _unreachable(server: str, error: Exception) -> PeerError:
    return error if isinstance(error, PeerError) else PeerError(server, f"cannot be reached: {_cause(error)}")


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return f"{type(error).__name__}: {error}"
