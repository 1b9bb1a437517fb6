"""The interceptor servers of a chain: which entries they bring, and what becomes of those when a listing changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mcp import Client, ClientSession
from pydantic import ValidationError

from midspan_sdk import ChainEntry, ChainError, Descriptor, DuplicateInterceptorError, InterceptorOverrides
from midspan_sdk._authoring import definition_error
from midspan_sdk._entries import overrides_from
from midspan_sdk._steps import Step
from midspan_sdk.mcp._connection import ClientFactory, Connection, SupervisedConnection
from midspan_sdk.mcp._session_step import MissingStep, SessionStep

logger = logging.getLogger("midspan.mcp")

Alias = str | Mapping[str, str] | None
Overrides = Mapping[str, InterceptorOverrides | dict[str, Any]]


class ServerEntries:
    """The entries that one server brings.

    Args:
        connection: to the server.
        alias: a prefix (`central` makes `central.<name>`), or names by the server's names.
        overrides: policy by name in the chain.
    """

    def __init__(self, connection: Connection, *, alias: Alias, overrides: Overrides | None) -> None:
        self.connection = connection
        self._alias = alias
        self._overrides = dict(overrides or {})
        self._last: dict[str, Step] = {}

    def steps(self) -> dict[str, Step]:
        """Return the entries of the latest listing, and failing ones for those that it lost.

        Raises:
            DefinitionError: an override is not acceptable.
            ChainError: an override names no entry of this server.
        """
        found: dict[str, Step] = {}
        for descriptor in self.connection.descriptors:
            name = self._name_of(descriptor)
            if name in found:
                raise DuplicateInterceptorError(name, f"two interceptors of {self.connection.server!r} get this alias")
            found[name] = SessionStep(self._entry(name, descriptor), self.connection)
        if unknown := sorted(self._overrides.keys() - found.keys() - self._last.keys()):
            offered = ", ".join(found) or "none"
            raise ChainError(f"overrides name {unknown[0]!r}; server {self.connection.server!r} offers {offered}")
        for name, step in self._last.items():
            if name not in found:
                logger.error("interceptor server %r no longer offers %r", self.connection.server, name)
                found[name] = MissingStep(step.entry, self.connection)
        self._last = found
        return found

    def _name_of(self, descriptor: Descriptor) -> str:
        if isinstance(self._alias, str):
            return f"{self._alias}.{descriptor.name}"
        return (self._alias or {}).get(descriptor.name, descriptor.name)

    def _entry(self, name: str, descriptor: Descriptor) -> ChainEntry:
        try:
            overrides = overrides_from(self._overrides.get(name))
        except ValidationError as error:
            raise definition_error(name, error) from error
        return ChainEntry(descriptor, overrides=overrides, server=self.connection.server, name=name)


def server_label(client: object, alias: Alias) -> str:
    """Return what a server is called: its alias, or what it says it is."""
    if isinstance(alias, str):
        return alias
    if isinstance(client, Client | ClientSession):
        info = client.server_info
        return info.name if info is not None else "unnamed"
    return "server"


async def connection_for(
    client_or_factory: Client | ClientSession | ClientFactory,
    *,
    server: str,
    start: Callable[..., Any] | None,
    changed: Callable[[], None],
) -> Connection:
    """Return a connection whose first listing is done.

    Args:
        client_or_factory: an open client, or what makes one.
        server: how the server is called.
        start: starts a supervising task and waits for its first listing; needed for a factory.
        changed: called after each later listing.

    Raises:
        PeerError: the server cannot be reached, or its listing cannot be used.
        ChainError: a factory outside of the chain's block.
    """
    if isinstance(client_or_factory, Client | ClientSession):
        connection = Connection(server)
        await connection.adopt(client_or_factory)
        return connection
    if start is None:
        raise ChainError("a factory's connection lives as long as the chain: use `async with chain:`")
    supervised = SupervisedConnection(server, client_or_factory, changed)
    await start(supervised.run)
    return supervised
