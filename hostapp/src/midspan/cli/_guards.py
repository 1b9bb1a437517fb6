"""The chains in front of the servers that a command guards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from midspan.config import in_scope
from midspan.errors import OperatorError, ProblemsError, raise_all

if TYPE_CHECKING:
    from midspan.plugins import Assembly, Builder

MOUNT_GIVES = ("session", "store", "tools", "ask")
"""What a gateway gives to handlers."""


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
    def of(cls, builder: Builder, servers: Iterable[str]) -> Guards:
        """Build the chains for servers. One whose guard cannot work is refused; the others are not its business.

        Raises:
            OperatorError: no server is left.
        """
        assemblies: dict[str, Assembly] = {}
        refused: dict[str, OperatorError] = {}
        for server in servers:
            try:
                assemblies[server] = builder.assembly(server)
            except OperatorError as error:
                refused[server] = error
        if not assemblies:
            raise_all(list(dict.fromkeys(refused.values())))
        return cls(assemblies=assemblies, refused=refused)

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


def refusals(error: OperatorError) -> Sequence[str]:
    """Return the lines that say why a server is refused."""
    return [one.message for one in error.problems] if isinstance(error, ProblemsError) else [error.message]


def scoped_away(builder: Builder, server: str) -> str | None:
    """Return a line on the plugins that are not for a server which was given no name; None when there are none."""
    selection = builder.selection
    names = [one.name for one in (*selection.instances, *selection.refused) if not in_scope(server, one.servers)]
    if not names:
        return None
    tables = ", ".join(f"[plugins.{name}]" for name in names)
    return f"{tables}: not for a server called {server!r}; if it should be, name the server with --name or --server"
