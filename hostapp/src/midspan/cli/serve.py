"""`midspan serve`: guard a server for clients that speak HTTP."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._options import plugin_options
from midspan.cli._output import print_warning
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.gateway import Gateway
    from midspan.http import Front
    from midspan.plugins import Assembly

_BACKLOG = 2048


@click.command()
@plugin_options
@click.option("--url", required=True, metavar="URL", help="The server, which speaks streamable HTTP.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    default=8808,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--insecure", is_flag=True, help="Listen on an address that others reach, without authentication.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Accept this name as Host, beside loopback.")
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="ORIGIN", help="Accept requests from this origin's pages."
)
def serve(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    url: str,
    host: str,
    port: int,
    insecure: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
) -> None:
    """Guard the MCP server at URL for clients that speak streamable HTTP, at http://HOST:PORT/mcp.

    Sessions, headers and status codes are the server's; the Authorization header of a client is passed on to it.
    SIGTERM and SIGINT stop the gateway. Only this machine reaches it, unless --insecure says otherwise; pages in a
    browser reach it only from the origins that are accepted.
    """
    from midspan.gateway import PATH, Gateway
    from midspan.plugins import assemble

    assembly = assemble(
        config=config, plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, gives=("session", "store")
    )
    for warning in assembly.warnings:
        print_warning(warning)
    gateway = Gateway(url, assembly.chain)

    from midspan.http import is_public, listen, url_of

    listener = listen(host, port)
    with listener:
        public = is_public(listener)
        if public and not insecure:
            raise OperatorError(
                f"--host {host}: others than this machine reach this address, and midspan does not authenticate them; "
                "add --insecure if that is meant"
            )
        app = gateway.asgi_app(allowed_hosts=(*hosts, host), allowed_origins=origins, any_address=public)
        if assembly.empty:
            click.echo("midspan: relay only, no interceptor is enabled", err=True)
        asyncio.run(_serve(assembly, gateway, app, listener, f"midspan: serving {url_of(listener, PATH)}"))


async def _serve(assembly: Assembly, gateway: Gateway, app: Front, listener: socket.socket, line: str) -> None:
    from midspan.http import run_server

    async with assembly.running(), gateway:
        listener.listen(_BACKLOG)
        click.echo(line, err=True)
        await run_server(app, listener, stopping=gateway.stop)
