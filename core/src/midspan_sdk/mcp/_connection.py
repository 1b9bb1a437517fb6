"""A chain's connection to one interceptor server: whoever owns it, calls go through here."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, cast

import anyio
from mcp import Client, ClientSession

from midspan_sdk import Descriptor, PeerError
from midspan_sdk.mcp._calls import call
from midspan_sdk.mcp._capability import read_capability
from midspan_sdk.mcp._in_flight import InFlight
from midspan_sdk.mcp._listing import list_interceptors
from midspan_sdk.wire import CONTEXT_KEY, LIST_METHOD, STATE_GROUPS_KEY

logger = logging.getLogger("midspan.mcp")

AnyClient = Client | ClientSession
ClientFactory = Callable[[], AbstractAsyncContextManager[AnyClient]]
"""Makes a client that is not open yet; called again for each new connection."""

CONNECT_TIMEOUT: Final = 30.0
"""Seconds for opening a connection and its first listing; a child process may have to load a lot."""
LIST_TIMEOUT: Final = 10.0
"""Seconds for a listing on an open connection."""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds for closing a connection, or for what its calls leave behind, before it is cancelled."""
FIRST_RETRY: Final = 0.1
LONGEST_RETRY: Final = 10.0
"""Seconds between attempts to connect again: the first, doubled up to the longest."""
PATIENCE: Final = 1.0
"""Calls wait for a new connection while the pauses between attempts are this short, in seconds; then they fail."""

_UNNAMED: Final = "unnamed"
_keys = count()


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a server offers.

    Attributes:
        client: through which it was asked.
        descriptors: its interceptors, in its order.
        context_keys: keys of an invocation's context that it asks for.
        state_groups: by interceptor name, whose state it shares, where the name's prefix does not say.
    """

    client: AnyClient | None = None
    descriptors: tuple[Descriptor, ...] = ()
    context_keys: frozenset[str] = frozenset()
    state_groups: Mapping[str, str] = field(default_factory=dict[str, str])


class Connection:
    """An open client that belongs to somebody else, and what its server offers.

    Args:
        label: how the operator calls the server; None takes its own name.

    Attributes:
        key: another one for each connection, also where servers have the same name.
        listing: what the server offers, as last taken over.
        in_flight: the calls under way.
        skip_bad: whether a bad descriptor is left out instead of failing the listing.
    """

    def __init__(self, label: str | None) -> None:
        self.key = next(_keys)
        self.listing = Listing()
        self.in_flight = InFlight()
        self.skip_bad = False
        self._label = label
        self._name: str | None = None
        self._client: AnyClient | None = None

    @property
    def server(self) -> str:
        """How the server is called in errors and logs."""
        return self._label or self._name or _UNNAMED

    @property
    def current(self) -> AnyClient | None:
        """The open client, or None when there is none right now."""
        return self._client

    @property
    def closed(self) -> bool:
        """Whether it ended for good."""
        return False

    async def client(self) -> AnyClient | None:
        """Return the open client; None when the connection is lost."""
        return self._client

    def lost(self, client: AnyClient) -> None:
        """Note that a call found this client closed."""

    def doubt(self, client: AnyClient) -> None:
        """Note that a call got no answer that an interceptor would give."""

    async def adopt(self, client: AnyClient) -> None:
        """Use this client, once its server is listed.

        Raises:
            PeerError: it is not open, or the listing cannot be used.
        """
        if isinstance(client, Client) and not _is_open(client):
            raise PeerError(self.server, "the client is not open; enter it, or pass a function that makes one")
        listing = await self._ask(client)
        self._client = client
        self._take_name(client)
        self.listing = listing

    async def ask(self) -> Listing:
        """List again; what was known before stays.

        Raises:
            PeerError: the connection is lost, or the listing cannot be used.
        """
        client = await self.client()
        if client is None:
            raise PeerError(self.server, "the connection is closed")
        try:
            return await self._ask(client)
        except PeerError:
            self.doubt(client)
            raise

    def close(self) -> None:
        """Begin to end what the chain started; the client stays open."""

    async def aclose(self) -> None:
        """Wait until what the chain started has ended."""
        await self.in_flight.settle(CLOSE_TIMEOUT)

    async def _ask(self, client: AnyClient) -> Listing:
        server = self._label or name_of(client) or self.server
        try:
            with anyio.fail_after(LIST_TIMEOUT):
                descriptors = tuple(await self.in_flight.run(list_interceptors(client, skip_bad=self.skip_bad)))
                settings = read_capability(client.server_capabilities) or {}
        except PeerError as error:
            raise PeerError(server, error.problem) from error
        except TimeoutError as error:
            raise PeerError(server, f"no answer to {LIST_METHOD} within {LIST_TIMEOUT:g} s") from error
        except RuntimeError as error:  # closed between the two
            raise PeerError(server, "the connection is closed") from error
        return Listing(
            client=client,
            descriptors=descriptors,
            context_keys=_context_keys(settings),
            state_groups=_state_groups(settings),
        )

    def _take_name(self, client: AnyClient) -> None:
        self._name = self._name or name_of(client)


class SupervisedConnection(Connection):
    """A connection that one task of its own opens, keeps and opens again.

    What goes wrong in a transport ends that task's client and nothing else. Calls that were under way fail; a later
    call waits, within its own deadline, for the next connection, or fails at once when the server stays away.

    Args:
        label: how the operator calls the server; None takes its own name.
        factory: makes the client.
        take: takes over each listing but the first. What it raises ends that connection.
    """

    def __init__(self, label: str | None, factory: ClientFactory, take: Callable[[Listing], None]) -> None:
        super().__init__(label)
        self._factory = factory
        self._take = take
        self._away = self._over = self._was_open = False
        self._scope: anyio.CancelScope | None = None
        self._failure: PeerError | None = None
        self._decided = anyio.Event()
        self._stop = anyio.Event()
        self._ended = anyio.Event()
        self._turned = anyio.Event()
        self._stirred = anyio.Event()

    @property
    def closed(self) -> bool:
        """Whether the supervising task has ended."""
        return self._ended.is_set()

    async def client(self) -> AnyClient | None:
        """Return the open client, waiting while a new connection is likely; None when it is not."""
        while self._client is None and not self._away:
            await self._turned.wait()
        return self._client

    def lost(self, client: AnyClient) -> None:
        """Let the supervising task connect anew."""
        if self._client is client:
            self._leave()
            self._over = True
            self._stirred.set()

    def doubt(self, client: AnyClient) -> None:
        """Let the supervising task find out whether the server still answers."""
        if self._client is client:
            self._stirred.set()

    async def opened(self) -> None:
        """Wait for the first listing.

        Raises:
            PeerError: the first connection failed; there is no other attempt.
        """
        await self._decided.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Let the supervising task end, and fail whoever waits for a connection."""
        self._stop.set()
        self._over = True
        self._stirred.set()
        if self._client is None and self._scope is not None:
            self._scope.cancel()

    async def aclose(self) -> None:
        """Close, and wait until the task has ended and its calls are collected."""
        self.close()
        with anyio.move_on_after(2 * CLOSE_TIMEOUT, shield=True):
            await self._ended.wait()
        await super().aclose()

    async def run(self) -> None:
        """Connect, and connect again whenever the connection is lost, until closed or cancelled."""
        pause = FIRST_RETRY
        try:
            while not self._stop.is_set():
                began = anyio.current_time()
                self._was_open = False
                fault = await self._live()
                if self._stop.is_set():
                    return
                if not self._decided.is_set():
                    self._failure = _unreachable(self.server, fault)
                    return
                logger.warning(
                    "interceptor server %r: %s: %s",
                    self.server,
                    "connection lost" if self._was_open else "no new connection",
                    _words(_first_of(fault)),
                )
                if self._was_open and anyio.current_time() - began > LONGEST_RETRY:
                    pause = FIRST_RETRY
                if pause > PATIENCE:
                    self._away = True
                    self._turn()
                with anyio.move_on_after(pause):
                    await self._stop.wait()
                pause = min(pause * 2, LONGEST_RETRY)
        finally:
            self._client = None
            self._away = True
            self._turn()
            if not self._decided.is_set() and self._failure is None:
                self._failure = PeerError(self.server, "the chain's block ended before it was connected")
            self._decided.set()
            self._ended.set()

    async def _live(self) -> BaseException:
        """Hold one connection from its opening to its end. Returns what ended it."""
        with anyio.CancelScope(deadline=anyio.current_time() + CONNECT_TIMEOUT) as scope:
            self._scope = scope
            try:
                async with self._factory() as client:
                    await self._open(client)
                    scope.deadline = math.inf
                    try:
                        await self._hold(client)
                    finally:
                        self._leave()
                        # A deadline for closing as well: nobody waits for a client that does not want to end.
                        scope.deadline = anyio.current_time() + CLOSE_TIMEOUT
            except Exception as error:  # noqa: BLE001 - whatever a client's transport comes to
                return error
            return PeerError(self.server, "a call found it closed")
        if self._was_open:
            return PeerError(self.server, f"not closed within {CLOSE_TIMEOUT:g} s")
        return PeerError(self.server, f"cannot be reached: no answer within {CONNECT_TIMEOUT:g} s")

    async def _open(self, client: object) -> None:
        if not isinstance(client, Client | ClientSession):
            raise TypeError(f"the factory made a {type(client).__name__}, not a client")
        listing = await self._ask(client)
        if self._decided.is_set():
            self._take(listing)
            logger.info("connected again to interceptor server %r", self.server)
        self._take_name(client)
        self.listing = listing
        self._client = client
        self._over = self._away = False
        self._was_open = True
        self._stirred = anyio.Event()
        self._turn()
        self._decided.set()

    async def _hold(self, client: AnyClient) -> None:
        while True:
            await self._stirred.wait()
            if self._over or self._stop.is_set():
                return
            self._stirred = anyio.Event()
            # Whatever it lists: a server that no longer answers this is as good as gone.
            with anyio.fail_after(LIST_TIMEOUT):
                await self.in_flight.run(call(client, LIST_METHOD, {}))

    def _leave(self) -> None:
        if self._client is not None:
            self._client = None
            self._turn()

    def _turn(self) -> None:
        turned, self._turned = self._turned, anyio.Event()
        turned.set()


def _is_open(client: Client) -> bool:
    try:
        client.session  # noqa: B018 - raises when there is none
    except RuntimeError:
        return False
    return True


def name_of(client: AnyClient) -> str | None:
    """Return what a server calls itself, or None."""
    try:
        info = client.server_info
    except RuntimeError:  # not open
        return None
    return info.name if info is not None else None


def _context_keys(settings: Mapping[str, Any]) -> frozenset[str]:
    keys = settings.get(CONTEXT_KEY)
    if not isinstance(keys, list):
        return frozenset()
    return frozenset(key for key in cast("list[object]", keys) if isinstance(key, str))


def _state_groups(settings: Mapping[str, Any]) -> dict[str, str]:
    groups = settings.get(STATE_GROUPS_KEY)
    if not isinstance(groups, dict):
        return {}
    return {name: group for name, group in cast("dict[str, object]", groups).items() if isinstance(group, str)}


def _unreachable(server: str, error: BaseException) -> PeerError:
    cause = _first_of(error)
    if isinstance(cause, PeerError):
        return cause
    failure = PeerError(server, f"cannot be reached: {_words(cause)}")
    failure.__cause__ = error
    return failure


def _first_of(error: BaseException) -> BaseException:
    # Task groups wrap what goes through them, also where it is one exception only.
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _words(error: BaseException) -> str:
    if isinstance(error, PeerError):
        return error.problem
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
