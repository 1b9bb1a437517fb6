"""`midspan serve`: guard servers for clients that speak HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._guards import MOUNT_GIVES, Guards, refusals, scoped_away
from midspan.cli._options import plugin_options
from midspan.cli._output import print_error, print_relay_only, print_warning
from midspan.cli._server import ServerChoice, server_options
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.gateway import Gateway
    from midspan.http import Front

_BACKLOG = 2048


@click.command(context_settings={"allow_interspersed_args": False})
@server_options
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port",
    default=8808,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--insecure", is_flag=True, help="Listen on an address that others reach, without authentication.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Accept this name as Host, beside loopback.")
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="ORIGIN", help="Accept requests from this origin's pages."
)
@plugin_options
def serve(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    host: str,
    port: int,
    insecure: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    choice: ServerChoice,
) -> None:
    """Guard MCP servers for clients that speak streamable HTTP, at http://HOST:PORT/mcp.

    The server is COMMAND, which is started for each session and speaks over stdio; or it is reached at --url; or it is
    the --server of the config. Without any of these, all servers of the config are served, at /servers/NAME/mcp; a
    single one also at /mcp.

    In front of a --url that speaks streamable HTTP, sessions, headers and status codes are the server's, and the
    Authorization header of a client is passed on to it.

    Only this machine reaches the gateway, unless --insecure says otherwise; pages in a browser reach it only from the
    origins that are accepted. SIGTERM and SIGINT stop it.
    """
    from midspan.config import load_config
    from midspan.gateway import asgi_app
    from midspan.plugins import Builder

    choice.check()
    settings = load_config(config)
    builder = Builder(
        config=settings, plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, gives=MOUNT_GIVES
    )
    servers = _servers(choice, settings)
    guards = Guards.of(builder, servers)
    for warning in guards.warnings:
        print_warning(warning)
    if choice.given and choice.server is None and choice.name is None and (away := scoped_away(builder, servers[0])):
        print_warning(away)
    for server, error in guards.refused.items():
        for line in refusals(error):
            print_error(f"server {server!r} is not served: {line}")
    gateways = {name: choice.gateway(settings, name, assembly.chain) for name, assembly in guards.assemblies.items()}
    _check(choice, settings, gateways)

    from midspan.http import is_public, listen, url_of

    listener = listen(host, port)
    with listener:
        public = is_public(listener)
        if public and not insecure:
            raise OperatorError(
                f"--host {host}: others than this machine reach this address, and midspan does not authenticate them; "
                "add --insecure if that is meant"
            )
        paths = _paths(choice, servers)
        app = asgi_app(
            {path: gateways[server] for path, server in paths.items() if server in gateways},
            refused={path: str(guards.refused[server]) for path, server in paths.items() if server in guards.refused},
            allowed_hosts=(*hosts, host),
            allowed_origins=origins,
            any_address=public,
        )
        if guards.empty:
            print_relay_only()
        lines = [f"midspan: serving {url_of(listener, path)}" for path, server in paths.items() if server in gateways]
        asyncio.run(_serve(guards, gateways.values(), app, listener, lines))


def _servers(choice: ServerChoice, config: Config) -> list[str]:
    """Return the names of the servers to guard."""
    if choice.given:
        if choice.server is not None:
            config.server(choice.server)
        return [choice.called]
    if not config.servers:
        raise OperatorError(
            "no server: give its command behind --, or --url, or add a table [servers.NAME] to the config"
        )
    return list(config.servers)


def _paths(choice: ServerChoice, servers: Sequence[str]) -> dict[str, str]:
    """Return which server is served at which path."""
    from midspan.gateway import PATH

    if choice.given:
        return {PATH: servers[0]}
    paths = {f"/servers/{name}{PATH}": name for name in servers}
    return {PATH: servers[0], **paths} if len(servers) == 1 else paths


def _check(choice: ServerChoice, config: Config, gateways: Mapping[str, Gateway]) -> None:
    """Refuse servers that cannot be started, before any client asks for one."""
    for name, gateway in gateways.items():
        try:
            gateway.check()
        except OperatorError as error:
            if choice.given and choice.server is None:
                raise
            raise config.source.error(error.message, "servers", name, "command") from None


async def _serve(
    guards: Guards, gateways: Iterable[Gateway], app: Front, listener: socket.socket, lines: list[str]
) -> None:
    from midspan.http import run_server
    from midspan.plugins import Running

    def stop() -> None:
        for gateway in gateways:
            gateway.stop()

    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(Running())
        await running.enter(guards.distinct)
        for gateway in dict.fromkeys(gateways):
            await stack.enter_async_context(gateway)
        listener.listen(_BACKLOG)
        for line in lines:
            click.echo(line, err=True)
        await run_server(app, listener, stopping=stop)
