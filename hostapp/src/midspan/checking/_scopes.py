"""Scopes that match no server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from midspan.config import unmatched
from midspan.errors import did_you_mean

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.errors import OperatorError


def unmatched_scopes(config: Config, running: Sequence[str]) -> Iterator[OperatorError]:
    """Yield each pattern of a scope that matches no server of the config, when it has any.

    Args:
        config: the operator's config.
        running: the names of the plugin instances that are to run; what is off guards nothing anyway.
    """
    known = list(config.servers)
    if not known:
        return
    scopes = [("plugins", name, table.servers) for name, table in config.plugins.items() if name in running]
    scopes += [
        ("interceptor_servers", name, table.servers)
        for name, table in config.settings.interceptor_servers.items()
        if table.enabled
    ]
    for kind, name, scope in scopes:
        for index in unmatched(scope or (), known):
            pattern = (scope or [])[index]
            hint = did_you_mean(pattern, known) or f"; the servers are {', '.join(known)}"
            problem = f"{pattern!r} matches no server of the config{hint}"
            yield config.source.error(problem, kind, name, "servers", index)
