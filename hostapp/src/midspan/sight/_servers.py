"""Which servers have the same chain in front of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from midspan.config import Config, in_scope
from midspan.errors import OperatorError, each_of
from midspan.plugins import Assembly, Builder
from midspan.sight._origins import Origin, config_origin

OTHER: Final = "\0"
"""Stands for the name of any other server: only wildcards match it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerGroup:
    """Servers with the same chain.

    Attributes:
        names: the servers' names; globs of scopes where the config has no servers.
        others: whether any other server has this chain too.
        assembly: the chain; None when it is refused.
        problems: why it is refused.
        notes: what the operator may have meant otherwise.
    """

    names: tuple[str, ...]
    others: bool
    assembly: Assembly | None
    problems: tuple[OperatorError, ...]
    notes: tuple[OperatorError, ...]

    @property
    def name(self) -> str:
        """A name for which the group is right, for scopes."""
        return self.names[0] if self.names else OTHER


def groups_of(builder: Builder, server: str | None = None) -> list[ServerGroup]:
    """Return the servers of the config, grouped by the chain in front of them.

    Args:
        builder: builds the chains.
        server: look at this one only, whether the config has it or not.
    """
    groups: dict[object, tuple[list[str], Assembly | None, tuple[OperatorError, ...]]] = {}
    for name in [server] if server is not None else _names(builder.config):
        assembly, problems = _built(builder, name)
        told = tuple(each.message for each in (*problems, *builder.notes(name)))
        key = (frozenset(_remote(builder.config, name)), assembly or told)
        groups.setdefault(key, ([], assembly, problems))[0].append(name)
    return [
        ServerGroup(
            names=tuple(name for name in names if name != OTHER),
            others=OTHER in names,
            assembly=assembly,
            problems=problems,
            notes=builder.notes(names[0]),
        )
        for names, assembly, problems in groups.values()
    ]


def _names(config: Config) -> Iterator[str]:
    tables = [*config.plugins.values(), *config.settings.interceptor_servers.values()]
    patterns = dict.fromkeys(pattern for table in tables for pattern in table.servers or ())
    yield from config.servers or patterns
    if patterns or not config.servers:
        yield OTHER


def _built(builder: Builder, name: str) -> tuple[Assembly | None, tuple[OperatorError, ...]]:
    try:
        return builder.assembly(name), ()
    except OperatorError as error:
        return None, each_of(error)


def _remote(config: Config, name: str) -> Iterator[str]:
    for server, table in config.settings.interceptor_servers.items():
        if table.enabled and in_scope(name, table.servers):
            yield server


def remote_servers(config: Config, name: str) -> list[tuple[str, Origin]]:
    """Return the interceptor servers whose interceptors join the chain in front of a server, each with its place."""
    return [(one, config_origin(config.source, "interceptor_servers", one)) for one in _remote(config, name)]


def instance_place(config: Config, instance: str) -> Origin | None:
    """Return the place of an instance's table; None when it has none."""
    return config_origin(config.source, "plugins", instance) if instance in config.tables else None


def left_out(builder: Builder, name: str) -> list[tuple[str, str, Origin]]:
    """Return the plugin tables that do not run in front of a server: the name, why, and the place that decides."""
    config = builder.config
    found: list[tuple[str, str, Origin]] = []
    for instance, table in config.tables.items():
        key: tuple[str, ...] = ()
        if instance in builder.instance_names:
            if in_scope(name, table.servers):
                continue
            why, key = f"for {_listed(table.servers or ())} only", ("servers",)
        elif blocked := next((one for one in builder.blocked if one in (instance, table.use)), None):
            why = f"blocked by --no-plugin {blocked}"
        elif table.enabled is False:
            why, key = "off: enabled = false", ("enabled",)
        else:
            why = "off: does not say enabled = true"
        found.append((instance, why, config_origin(config.source, "plugins", instance, *key)))
    return found


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
