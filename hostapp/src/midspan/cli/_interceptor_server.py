"""Which interceptor server a command asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from midspan._web import shown_url, url_fault
from midspan.cli._options import config_option
from midspan.cli._server import ServerChoice, header_fields, url_options
from midspan.errors import OperatorError, did_you_mean

if TYPE_CHECKING:
    from midspan.config import RemoteServer, StdioServer


@dataclass(frozen=True, kw_only=True)
class InterceptorServer:
    """What the command line says of the server.

    Attributes:
        choice: a command, a URL, or the name of a table.
        config: the config file that `--config` names, or None.
    """

    choice: ServerChoice
    config: Path | None

    @property
    def name(self) -> str | None:
        """The name of its table, or None."""
        return self.choice.server

    def resolved(self) -> StdioServer | RemoteServer:
        """Return how it is reached.

        Raises:
            OperatorError: it is not named once, or what names it cannot be used.
        """
        choice = self.choice
        choice.check()
        if not choice.given:
            raise OperatorError("no interceptor server: give its command behind --, or --url, or --server")
        if choice.server is not None:
            return _configured(choice.server, self.config)
        from midspan.config import RemoteServer, StdioServer
        from midspan.gateway import MAX_MESSAGE

        if choice.url is None:
            return StdioServer(command=choice.command, env={}, cwd=None, restart="never", max_message=MAX_MESSAGE)
        if url_fault(choice.url) is not None:
            raise OperatorError(
                f"--url: cannot connect to {shown_url(choice.url)!r}: give an http or https URL, without "
                "credentials and fragment, like http://localhost:8000/mcp"
            )
        return RemoteServer(
            url=choice.url,
            transport=cast("Literal['http', 'sse']", choice.transport or "http"),
            headers=header_fields(choice.headers),
            max_message=MAX_MESSAGE,
        )


def _configured(name: str, file: Path | None) -> StdioServer | RemoteServer:
    from midspan.config import load_config

    config = load_config(file)
    tables = config.settings.interceptor_servers
    if name not in tables:
        hint = did_you_mean(name, tables) or f"; add a table [interceptor_servers.{name}]"
        raise config.source.error(f"there is no interceptor server {name!r}{hint}")
    return tables[name].resolved(source=config.source, place=("interceptor_servers", name))


def interceptor_server_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add what names an interceptor server, the options and `COMMAND`: the argument `server`."""

    @wraps(function)
    def chosen(
        *,
        command: tuple[str, ...],
        url: str | None,
        transport: str | None,
        headers: tuple[str, ...],
        server_name: str | None,
        config: Path | None,
        **given: Any,
    ) -> None:
        choice = ServerChoice(
            command=command, url=url, transport=transport, headers=headers, server=server_name, name=None, restart=None
        )
        function(server=InterceptorServer(choice=choice, config=config), **given)

    result: Callable[..., None] = chosen
    options = (
        *url_options("Ask the server at this URL."),
        click.option(
            "--server",
            "server_name",
            metavar="NAME",
            help="Ask a server of the config: the one of the table [interceptor_servers.NAME].",
        ),
        config_option,
        click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARGS]...]"),
    )
    for option in reversed(options):
        result = option(result)
    return result
