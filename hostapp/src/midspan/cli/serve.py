"""`midspan serve`: guard servers for clients that speak HTTP."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._following import building, reloading, tell
from midspan.cli._guarding import Guarding
from midspan.cli._logs import LogChoice, log_options
from midspan.cli._options import plugin_options
from midspan.cli._output import print_notice
from midspan.cli._server import ServerChoice, server_options
from midspan.errors import OperatorError

if TYPE_CHECKING:
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
@log_options
def serve(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    locked: bool,
    host: str,
    port: int,
    insecure: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    choice: ServerChoice,
    logs: LogChoice,
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

    choice.check()
    settings = load_config(config)
    build = building(plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, locked=locked)
    guarding = Guarding(choice, build, settings, logs)
    tell(guarding.plan, choice)

    from midspan.http import is_public, listen

    listener = listen(host, port)
    with listener:
        public = is_public(listener)
        if public and not insecure:
            raise OperatorError(
                f"--host {host}: others than this machine reach this address, and midspan does not authenticate them; "
                "add --insecure if that is meant"
            )
        app = asgi_app({}, allowed_hosts=(*hosts, host), allowed_origins=origins, any_address=public)
        asyncio.run(_serve(guarding, app, listener))


async def _serve(guarding: Guarding, app: Front, listener: socket.socket) -> None:
    from midspan.http import run_server, url_of
    from midspan.plugins import Running

    async with Running() as running:
        await guarding.enter(running, app)
        try:
            async with reloading(guarding):
                listener.listen(_BACKLOG)
                for path, server in guarding.plan.paths.items():
                    if server in guarding.gateways:
                        print_notice(f"serving {url_of(listener, path)}")
                await run_server(app, listener, stopping=guarding.stop)
        finally:
            await guarding.leave()
