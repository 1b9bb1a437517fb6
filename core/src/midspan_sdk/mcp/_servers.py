"""The interceptor servers of a chain: which entries they bring, and what becomes of those when a listing changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import anyio.abc
from mcp import Client, ClientSession
from pydantic import ValidationError

from midspan_sdk import (
    ChainEntry,
    ChainError,
    Descriptor,
    DuplicateInterceptorError,
    InterceptorOverrides,
    UnknownNameError,
)
from midspan_sdk._authoring import definition_error
from midspan_sdk._entries import overrides_from, with_policy
from midspan_sdk._model import faulty_fields
from midspan_sdk._steps import Step
from midspan_sdk.mcp._connection import AnyClient, ClientFactory, Connection, Listing, SupervisedConnection
from midspan_sdk.mcp._session_step import MissingStep, SessionStep

logger = logging.getLogger("midspan.mcp")

Alias = str | Mapping[str, str] | None
Overrides = Mapping[str, InterceptorOverrides | dict[str, Any]] | None


class ServerEntries:
    """The entries that one server brings.

    Args:
        client_or_factory: an open client, or what makes one.
        place: where its entries stand among those of other servers; lower comes first.
        alias: a prefix (`central` makes `central.<name>`), or names by the server's names.
        label: how the server is called; by default a prefix, else its own name.
        policy: for all entries, as far as their kinds take it.
        overrides: policy by name in the chain; wins, field by field.
        take: takes over a listing of a later connection. What it raises ends that connection.
        skip_bad: leave bad descriptors out instead of refusing the server.

    Attributes:
        connection: to the server.
        place: as above.

    Raises:
        ChainError: an alias is no name, or a policy for all has `hooks` or is not acceptable.
    """

    def __init__(
        self,
        client_or_factory: AnyClient | ClientFactory,
        *,
        place: int,
        alias: Alias,
        label: str | None,
        policy: InterceptorOverrides | dict[str, Any] | None,
        overrides: Overrides,
        take: Callable[[ServerEntries, Listing], None],
        skip_bad: bool = False,
    ) -> None:
        self._source = client_or_factory
        self.place = place
        self._alias = _checked(alias)
        self._label = label or (alias if isinstance(alias, str) else None)
        self._policy = _for_all(policy)
        self._overrides = dict(overrides or {})
        self._take = take
        self._skip_bad = skip_bad
        self._steps: dict[str, Step] = {}
        self.connection = self._new_connection()

    def _new_connection(self) -> Connection:
        if isinstance(self._source, Client | ClientSession):
            connection = Connection(self._label)
        else:
            connection = SupervisedConnection(self._label, self._source, lambda listing: self._take(self, listing))
        connection.skip_bad = self._skip_bad
        return connection

    async def open(self, group: anyio.abc.TaskGroup | None) -> None:
        """Connect, and list the server's interceptors.

        Args:
            group: where the task runs that keeps a factory's connection.

        Raises:
            PeerError: the server cannot be reached, or its listing cannot be used.
            ChainError: a factory without a task group.
        """
        connection = self.connection = self._new_connection()
        if isinstance(self._source, Client | ClientSession):
            await connection.adopt(self._source)
        elif isinstance(connection, SupervisedConnection):
            if group is None:
                raise ChainError("a factory's connection lives as long as the chain: use `async with chain:`")
            group.start_soon(connection.run)
            try:
                await connection.opened()
            except BaseException:
                await connection.aclose()
                raise

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its entries, in order."""
        return tuple(self._steps)

    @property
    def closed(self) -> bool:
        """Whether the chain ended the connection, so that it must be opened again."""
        return self.connection.closed

    def steps(self, listing: Listing, present: Mapping[str, Step]) -> dict[str, Step]:
        """Return the entries of a listing, and failing ones for those that it lost. Changes nothing.

        Args:
            listing: of this server.
            present: all steps of the chain.

        Raises:
            DuplicateInterceptorError: a name is taken; names both servers.
            DefinitionError: an override is not acceptable.
            UnknownNameError: an override or an alias names nothing of this server.
        """
        found: dict[str, Step] = {}
        for descriptor in listing.descriptors:
            name = self._name_of(descriptor)
            entry = self._entry(name, descriptor)
            if name in found:
                raise DuplicateInterceptorError(
                    name, f"two interceptors of server {entry.server!r} get this name; change the alias", field="name"
                )
            if name in present and name not in self._steps:
                raise DuplicateInterceptorError(name, _both(present[name].entry, entry), field="name")
            found[name] = SessionStep(entry, self.connection, listing)
        self._check_names("overrides", self._overrides, {*found, *self._steps})
        if isinstance(self._alias, Mapping):
            known = {step.entry.descriptor.name for step in (*found.values(), *self._steps.values())}
            self._check_names("alias", self._alias, known)
        for name, step in self._steps.items():
            if name not in found:
                found[name] = MissingStep(step.entry, self.connection, listing)
        return found

    def keep(self, listing: Listing, steps: dict[str, Step]) -> None:
        """Take over what `steps` returned."""
        for name, step in steps.items():
            if isinstance(step, MissingStep) and not isinstance(self._steps.get(name), MissingStep):
                extra = {"interceptor": name}
                logger.error("interceptor server %r no longer offers %r", self.connection.server, name, extra=extra)
        self.connection.listing = listing
        self._steps = steps

    def _check_names(self, what: str, given: Mapping[str, object], known: set[str]) -> None:
        if unknown := sorted(given.keys() - known):
            offered = ", ".join(sorted(known)) or "none"
            problem = f"{what}: names {unknown[0]!r}; server {self.connection.server!r} offers {offered}"
            raise UnknownNameError(unknown[0], sorted(known), problem)

    def _name_of(self, descriptor: Descriptor) -> str:
        if isinstance(self._alias, str):
            return f"{self._alias}.{descriptor.name}"
        return (self._alias or {}).get(descriptor.name, descriptor.name)

    def _entry(self, name: str, descriptor: Descriptor) -> ChainEntry:
        try:
            own = overrides_from(self._overrides.get(name))
        except ValidationError as error:
            raise definition_error(name, error) from error
        overrides = with_policy(own, self._policy, descriptor.type)
        return ChainEntry(descriptor, overrides=overrides, server=self.connection.server, name=name)


def _checked(alias: Alias) -> Alias:
    for name in (alias,) if isinstance(alias, str) else (alias or {}).values():
        if not name or not name.isprintable():
            raise ChainError(f"alias: {name!r} is not a name: empty, or with characters that cannot be printed")
    return alias


def _for_all(policy: InterceptorOverrides | dict[str, Any] | None) -> InterceptorOverrides:
    try:
        found = overrides_from(policy)
    except ValidationError as error:
        raise ChainError(f"policy: does not fit: {faulty_fields(error, whole='policy')}") from error
    if found.hooks is not None:
        raise ChainError("policy: takes no hooks, each interceptor has its own; narrow them in overrides")
    return found


def _both(present: ChainEntry, added: ChainEntry) -> str:
    def where(entry: ChainEntry) -> str:
        return f"server {entry.server!r}" if entry.server is not None else "this process"

    return f"is on {where(present)} and on {where(added)}; give one of them an alias"
