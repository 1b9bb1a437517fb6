"""`[interceptor_servers.<name>]`: servers whose interceptors join a chain when it is entered."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import anyio

from midspan.config import Config, ConfigSource, InterceptorServerTable, RemoteServer, StdioServer
from midspan.errors import ConfigError, InterceptorServerError, OperatorError, ProblemsError, did_you_mean, raise_all
from midspan.plugins._policy import TAKEN_BY, hooks, priority_hint, takers
from midspan.remote import shown
from midspan_sdk import (
    Chain,
    ChainEntry,
    DefinitionError,
    DuplicateInterceptorError,
    InterceptorOverrides,
    PeerError,
    UnknownNameError,
)

logger = logging.getLogger("midspan.plugins")

_KEYS = {
    "mode": "mode",
    "fail_open": "fail_open",
    "priority_hint": "priority",
    "timeout_ms": "timeout",
    "may_answer": "may_answer",
    "hooks": "hooks",
}
"""Keys of the file by the fields of overrides."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Remote:
    """An interceptor server that joins a chain. Nothing is contacted before the chain is entered.

    Attributes:
        name: of its table.
        shown: its program without arguments, or its URL without query and credentials.
        server: how it is reached.
        prefix: what stands before the names of its interceptors in the chain; empty, or its name and a dot.
        policy: of all its interceptors, as far as their kinds take it.
        overrides: policy by the interceptors' names on the server; wins, key by key.
        servers: the servers that it is for, names or globs; None for all.
    """

    name: str
    shown: str
    server: StdioServer | RemoteServer = field(repr=False)
    prefix: str
    policy: InterceptorOverrides
    overrides: dict[str, InterceptorOverrides]
    servers: tuple[str, ...] | None
    source: ConfigSource = field(repr=False)

    @property
    def place(self) -> tuple[str, ...]:
        """The keys of its table."""
        return ("interceptor_servers", self.name)

    def error(self, problem: str) -> InterceptorServerError:
        """Return an error that names the server, and says how to start without it."""
        return InterceptorServerError(problem, server=self.name, shown=self.shown)


def remote_of(name: str, config: Config) -> Remote:
    """Return what a table describes, its variables replaced and its files read.

    Raises:
        ConfigError: that cannot be done; names the file and the key.
    """
    table = config.settings.interceptor_servers[name]
    server = table.resolved(source=config.source, place=("interceptor_servers", name))
    server = replace(server, max_message=config.settings.limits.max_message)
    return Remote(
        name=name,
        shown=shown(server),
        server=server,
        prefix=f"{name}." if table.prefix else "",
        policy=_policy(table),
        overrides={
            one: InterceptorOverrides(
                mode=own.mode,
                fail_open=own.fail_open,
                priority_hint=priority_hint(own.priority),
                timeout_ms=own.timeout,
                hooks=None if own.hooks is None else tuple(hooks(own.hooks)),
                may_answer=own.may_answer,
            )
            for one, own in table.interceptors.items()
        },
        servers=None if table.servers is None else tuple(table.servers),
        source=config.source,
    )


def _policy(table: InterceptorServerTable) -> InterceptorOverrides:
    return InterceptorOverrides(
        mode=table.mode,
        fail_open=table.fail_open,
        priority_hint=priority_hint(table.priority),
        timeout_ms=table.timeout,
        may_answer=table.may_answer,
    )


async def join_all(joining: Sequence[tuple[Chain, Sequence[Remote]]]) -> None:
    """Connect to interceptor servers, side by side, and add what they offer to the chains, in order.

    Those that have joined a chain in an earlier block are connected to by the chain itself.

    Args:
        joining: chains that are entered, and the servers that join each.

    Raises:
        OperatorError: a server cannot be reached, its listing cannot be used, or its table does not fit it; several
            such are `ProblemsError`. Others may have joined.
    """
    problems: dict[int, OperatorError] = {}

    async def join(number: int, chain: Chain, remote: Remote) -> None:
        try:
            await _join(chain, remote)
        except OperatorError as error:
            problems[number] = error

    pairs = [(chain, remote) for chain, remotes in joining for remote in remotes if not _has_joined(chain, remote)]
    if pairs:
        async with anyio.create_task_group() as group:
            for number, (chain, remote) in enumerate(pairs):
                group.start_soon(join, number, chain, remote)
    found = [problems[number] for number in sorted(problems)]
    if len(found) > 1:
        raise ProblemsError(found, hint="; ".join(one.message for one in found[1:]))
    raise_all(found)


def _has_joined(chain: Chain, remote: Remote) -> bool:
    return any(entry.server == remote.name for entry in chain.entries)


async def _join(chain: Chain, remote: Remote) -> None:
    from midspan.remote import client_factory  # the MCP SDK: a second, for those only that have such a server

    try:
        await chain.add_server(
            client_factory(remote.server, remote.name),
            policy=remote.policy,
            overrides={f"{remote.prefix}{name}": policy for name, policy in remote.overrides.items()},
            alias=remote.name if remote.prefix else None,
            label=remote.name,
        )
    except PeerError as error:
        raise remote.error(error.problem) from error
    except UnknownNameError as error:
        raise _unknown(remote, error) from error
    except DuplicateInterceptorError as error:
        raise _taken(remote, error) from error
    except DefinitionError as error:
        own = ("interceptors", error.interceptor.removeprefix(remote.prefix))
        key = () if error.field is None else (_KEYS.get(error.field, error.field),)
        raise remote.source.error(error.problem, *remote.place, *own, *key) from error
    entries = [entry for entry in chain.entries if entry.server == remote.name]
    if not entries:
        logger.warning("interceptor server %r (%s) offers no interceptor", remote.name, remote.shown)
    raise_all(list(_idle_keys(remote, entries)))


def _unknown(remote: Remote, error: UnknownNameError) -> ConfigError:
    name = error.name.removeprefix(remote.prefix)
    known = [one.removeprefix(remote.prefix) for one in error.known]
    nearest = did_you_mean(name, known) or f"; it offers {', '.join(known) or 'none'}"
    return remote.source.error(f"the server offers no such interceptor{nearest}", *remote.place, "interceptors", name)


def _taken(remote: Remote, error: DuplicateInterceptorError) -> ConfigError:
    problem = f"its interceptor {error.interceptor!r} has the name of another in the chain; "
    if remote.prefix:
        return remote.source.error(f"{problem}give this table another name", *remote.place)
    problem += "leave `prefix = false` out, or disable one of the two"
    return remote.source.error(problem, *remote.place, "prefix")


def _idle_keys(remote: Remote, entries: Sequence[ChainEntry]) -> Iterator[ConfigError]:
    """Refuse a policy that no interceptor of the server takes: its operator believes that it does something."""
    kinds = {entry.descriptor.noun for entry in entries}
    for name, key in _KEYS.items() if kinds else ():
        if getattr(remote.policy, name) is not None and not kinds.intersection(TAKEN_BY[key]):
            problem = f"no interceptor of this server takes it, only {takers(key)} do"
            yield remote.source.error(problem, *remote.place, key)
