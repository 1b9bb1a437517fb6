"""What a config says of the servers to guard, built and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from midspan.cli._guards import Guards
from midspan.cli._server import ServerChoice
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.config import Config, RemoteServer, StdioServer
    from midspan.gateway import Gateway
    from midspan.plugins import Builder


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a config says, built and checked; nothing of it runs yet.

    Attributes:
        config: the config.
        builder: built the guards.
        servers: names of the servers, in order.
        paths: which server is at which path, where they are served over HTTP.
        tables: what the config says of each server that it has a table for, secrets read.
        guards: the chains.
        gateways: new gateways by the server's name.
    """

    config: Config
    builder: Builder
    servers: Sequence[str]
    paths: Mapping[str, str]
    tables: Mapping[str, StdioServer | RemoteServer]
    guards: Guards
    gateways: Mapping[str, Gateway]

    def refusal(self, server: str) -> str | None:
        """Return why a server is refused, or None."""
        error = self.guards.refused.get(server)
        return None if error is None else error.message


def servers_of(choice: ServerChoice, config: Config) -> list[str]:
    """Return the names of the servers to guard.

    Raises:
        OperatorError: there is none.
    """
    if choice.given:
        if choice.server is not None:
            config.server(choice.server)
        return [choice.called]
    if not config.servers:
        raise OperatorError(
            "no server: give its command behind --, or --url, or add a table [servers.NAME] to the config"
        )
    return list(config.servers)


def paths_of(choice: ServerChoice, servers: Sequence[str], before: Plan | None) -> dict[str, str]:
    """Return which server is served at which path."""
    from midspan.gateway import PATH

    if choice.given:
        return {PATH: servers[0]}
    alone = (servers[0] if len(servers) == 1 else None) if before is None else before.paths.get(PATH)
    # Clients know a server by its path, so a server that joins later takes none away.
    paths = {PATH: alone} if alone is not None and alone in servers else {}
    return {**paths, **{f"/servers/{name}{PATH}": name for name in servers}}
