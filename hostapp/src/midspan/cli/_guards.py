"""The chains in front of the servers that a command guards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from midspan.config import in_scope
from midspan.errors import OperatorError, raise_all

if TYPE_CHECKING:
    from midspan.plugins import Assembly, Builder


@dataclass(frozen=True, kw_only=True)
class Guards:
    """What stands in front of each server.

    Attributes:
        assemblies: by the server's name; several servers may share one.
        refused: why a server is not served, by its name: one of its guards cannot work.
    """

    assemblies: dict[str, Assembly]
    refused: dict[str, OperatorError]

    @classmethod
    def of(cls, builder: Builder, servers: Iterable[str], *, after: Guards | None = None) -> Guards:
        """Build the chains for servers. One whose guard cannot work is refused; the others are not its business.

        Args:
            builder: builds them.
            servers: the names of the servers.
            after: what stands in front of servers right now, and is to be replaced.

        Raises:
            OperatorError: no server is left, or one that is served now would be refused.
        """
        served = {} if after is None else after.assemblies
        assemblies: dict[str, Assembly] = {}
        refused: dict[str, OperatorError] = {}
        for server in servers:
            try:
                assemblies[server] = builder.assembly(server, after=served.get(server))
            except OperatorError as error:
                if server in served:
                    raise
                refused[server] = error
        if not assemblies:
            raise_all(list(dict.fromkeys(refused.values())))
        return cls(assemblies=assemblies, refused=refused)

    def without(self, failed: Mapping[Assembly, OperatorError]) -> Guards:
        """Return these guards with the servers refused whose chain has failed.

        Raises:
            OperatorError: no server is left.
        """
        left = {name: assembly for name, assembly in self.assemblies.items() if assembly not in failed}
        if not left:
            raise_all(list(failed.values()))
        refused = {name: failed[assembly] for name, assembly in self.assemblies.items() if assembly in failed}
        return Guards(assemblies=left, refused={**self.refused, **refused})

    @property
    def distinct(self) -> Sequence[Assembly]:
        """The assemblies, each once."""
        return list(dict.fromkeys(self.assemblies.values()))

    @property
    def warnings(self) -> Sequence[str]:
        """What the operator may have meant otherwise, one line each."""
        return list(dict.fromkeys(warning for assembly in self.distinct for warning in assembly.warnings))

    @property
    def empty(self) -> bool:
        """Whether nothing acts on any message."""
        return all(assembly.empty for assembly in self.distinct)


def scoped_away(builder: Builder, server: str) -> str | None:
    """Return a line on the plugins that are not for a server which was given no name; None when there are none."""
    names = [one.name for one in builder.selection.wanted if not in_scope(server, one.servers)]
    if not names:
        return None
    tables = ", ".join(f"[plugins.{name}]" for name in names)
    return f"{tables}: not for a server called {server!r}; if it should be, name the server with --name or --server"


def unknown_to_config(builder: Builder, server: str | None) -> str | None:
    """Return a line on a `--server` that the config, which has servers, does not have; None when there is none."""
    servers = builder.config.servers
    if server is None or not servers or server in servers:
        return None
    return f"--server {server}: the config has no such server; scopes go by the name alone"
