"""Servers that could not be started or connected to, as far as that can be told without trying."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from midspan.errors import ConfigError, OperatorError, each_of

if TYPE_CHECKING:
    from midspan.config import Config


def unusable_servers(config: Config, names: Iterable[str]) -> Iterator[OperatorError]:
    """Yield what keeps servers of the config from being guarded: variables, files, programs and folders not there.

    Args:
        config: the operator's config.
        names: the servers to look at.
    """
    for name in names:
        try:
            _check(config, name)
        except OperatorError as error:
            for each in each_of(error):
                if isinstance(each, ConfigError):
                    yield each
                else:
                    key = "command" if config.servers[name].command is not None else "url"
                    yield config.source.error(each.message, "servers", name, key)


def _check(config: Config, name: str) -> None:
    from midspan.config import StdioServer
    from midspan.gateway import Gateway

    server = config.server(name)
    if isinstance(server, StdioServer):
        env = {**os.environ, **server.env} if server.env else None
        Gateway(server.command, None, env=env, cwd=server.cwd, name=name).check()
    else:
        Gateway(server.url, None, transport=server.transport, headers=server.headers, name=name).check()
