"""Which server a command guards: one that is named on the command line, or those of the config."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, TypedDict, cast

import click

from midspan._web import field_names, field_value
from midspan.cli._completion import complete_file, complete_server
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.gateway import Gateway, TransportName
    from midspan.interception import Denials
    from midspan.relay import RestartWhen
    from midspan_sdk import Chain


@dataclass(frozen=True, kw_only=True)
class ServerChoice:
    """What the command line says of the server.

    Attributes:
        command: its command line; empty when it is none.
        url: its URL, or None.
        transport: of the URL; None when it is not given.
        headers: `NAME: VALUE` lines for requests to the URL.
        server: the name of its table in the config, or None.
        name: what it is called where it has no table; None when it is not given.
        restart: whether a command that ends is started anew; None when it is not given.
    """

    command: tuple[str, ...]
    url: str | None
    transport: str | None
    headers: tuple[str, ...]
    server: str | None
    name: str | None
    restart: str | None

    @property
    def given(self) -> bool:
        """Whether it names a server."""
        return bool(self.command) or self.url is not None or self.server is not None

    @property
    def called(self) -> str:
        """What interceptors know the server by, and what scopes are held against."""
        from midspan.gateway import default_name

        if self.server is not None:
            return self.server
        return self.name or default_name(self.url if self.url is not None else list(self.command))

    def check(self) -> None:
        """Refuse what does not go together.

        Raises:
            OperatorError: several servers are named, or an option belongs to another kind.
        """
        named = [bool(self.command), self.url is not None, self.server is not None]
        if sum(named) > 1:
            raise OperatorError("name one server: a command behind --, --url, or --server")
        in_config = "; for servers of the config, write it into the server's table"
        for option, given in (("--transport", self.transport is not None), ("--header", bool(self.headers))):
            if given and self.url is None:
                raise OperatorError(f"{option} belongs to --url{'' if self.command else in_config}")
        if not self.command and self.restart is not None:
            raise OperatorError(f"--restart belongs to a command behind --{'' if self.url is not None else in_config}")
        if self.name is not None and (self.server is not None or not self.given):
            raise OperatorError(
                "--name belongs to a command behind --, or to --url; a server of the config has its own"
            )
        if self.name is not None and not (self.name and self.name.isprintable()):
            raise OperatorError("--name must be a name: not empty, and printable")
        if self.url is not None and "://" not in self.url:
            # The text is not shown: where somebody took a command for a URL, there may be a secret in it.
            raise OperatorError(
                "--url: give the URL of the server, like http://localhost:8000/mcp; a command goes behind --"
            )

    def gateway(self, config: Config, server: str, chain: Chain) -> Gateway:
        """Return the gateway in front of one of the servers that are guarded: the chosen one, or one of the config.

        Raises:
            OperatorError: it cannot be one.
        """
        return self.named(chain, config) if self.given and self.server is None else configured(config, server, chain)

    def named(self, chain: Chain | None, config: Config | None = None) -> Gateway:
        """Return the gateway in front of the server that the command line itself names; with no chain it only relays.

        Raises:
            OperatorError: it cannot be one.
        """
        from midspan.gateway import MAX_MESSAGE, Gateway

        longest = MAX_MESSAGE if config is None else config.settings.limits.max_message
        followed = config is not None and config.source.path is not None
        if self.url is not None:
            transport = cast("TransportName", self.transport or "http")
            return Gateway(
                self.url,
                chain,
                transport=transport,
                headers=header_fields(self.headers),
                name=self.name,
                max_message=longest,
                swappable=followed,
                **towards_clients(config),
            )
        restart = cast("RestartWhen", self.restart or "never")
        return Gateway(
            self.command,
            chain,
            restart=restart,
            name=self.name,
            max_message=longest,
            swappable=followed,
            **towards_clients(config),
        )


def url_options(meaning: str) -> tuple[Callable[[Any], Any], ...]:
    """Return the options that name a server by its URL: the arguments `url`, `transport` and `headers`.

    Args:
        meaning: what is done with the server at the URL.
    """
    return (
        click.option("--url", metavar="URL", help=meaning),
        click.option(
            "--transport",
            type=click.Choice(["http", "sse"]),
            help="What --url speaks: http, streamable HTTP (the default), or sse, the HTTP+SSE of 2024-11-05.",
        ),
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="'NAME: VALUE'",
            help="Send this header with every request to --url; ${VARIABLE} is taken from the environment.",
        ),
    )


def server_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add what names a server, the options and `COMMAND`: the argument `choice`, a `ServerChoice`."""

    @wraps(function)
    def chosen(**given: Any) -> None:
        said = {field.name: given.pop(field.name) for field in fields(ServerChoice)}
        function(choice=ServerChoice(**said), **given)

    command: Callable[..., None] = chosen
    options = (
        *url_options("Guard the server at this URL."),
        click.option(
            "--server",
            metavar="NAME",
            help="Guard a server of the config: the one of the table [servers.NAME].",
            shell_complete=complete_server,
        ),
        click.option(
            "--name",
            metavar="NAME",
            help="What COMMAND or --url is called, for interceptors and for plugins that are for some servers only.",
        ),
        click.option(
            "--restart",
            type=click.Choice(["never", "on-failure", "always"]),
            metavar="WHEN",
            help="Start COMMAND anew when it ends while it is in use: never (the default), on-failure or always.",
        ),
        click.argument(
            "command",
            nargs=-1,
            type=click.UNPROCESSED,
            metavar="[-- COMMAND [ARGS]...]",
            shell_complete=complete_file,
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def configured(config: Config, name: str, chain: Chain) -> Gateway:
    """Return the gateway in front of a server of the config.

    Raises:
        OperatorError: there is none of that name, or what its table says cannot be used.
    """
    from midspan.config import StdioServer
    from midspan.gateway import Gateway

    server = config.server(name)
    if isinstance(server, StdioServer):
        return Gateway(
            server.command,
            chain,
            env={**os.environ, **server.env} if server.env else None,
            cwd=server.cwd,
            name=name,
            restart=server.restart,
            max_message=server.max_message,
            swappable=True,
            **towards_clients(config, name),
        )
    return Gateway(
        server.url,
        chain,
        transport=server.transport,
        headers=server.headers,
        name=name,
        max_message=server.max_message,
        swappable=True,
        **towards_clients(config, name),
    )


class TowardsClients(TypedDict, total=False):
    denials: Denials
    expose_interceptors: bool
    coerce_input_schemas: bool
    ask_timeout: float


def towards_clients(config: Config | None, server: str | None = None) -> TowardsClients:
    """Return how a gateway meets the clients of a server, as arguments of it; none where there is no config."""
    if config is None:
        return {}
    from midspan.interception import ASK_TIMEOUT, Denials

    table = config.gateway(server)
    said: TowardsClients = {
        "denials": Denials(detail=table.denial_detail, form=table.denials),
        "expose_interceptors": table.expose_interceptors,
        "coerce_input_schemas": table.coerce_input_schemas,
    }
    said["ask_timeout"] = ASK_TIMEOUT if table.ask_timeout is None else table.ask_timeout / 1000
    return said


def header_fields(lines: tuple[str, ...]) -> dict[str, str]:
    """Return what `--header` says, with variables from the environment.

    Raises:
        OperatorError: a line is no header field, or a variable is not set.
    """
    from midspan.config import expand

    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            raise OperatorError("--header wants 'NAME: VALUE', such as 'Authorization: Bearer ${TOKEN}'")
        try:
            field_names([*headers, name])
        except ValueError as error:
            raise OperatorError(f"--header {error}") from None
        try:
            headers[name] = expand(value, os.environ)
            field_value(headers[name])
        except ValueError as error:
            raise OperatorError(f"--header {name}: {error}") from None
    return headers
