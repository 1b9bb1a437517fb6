"""`midspan serve`: guard servers for clients that speak HTTP."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._ending import Ending, end_process, run_to_end
from midspan.cli._following import building, reloading, tell
from midspan.cli._guarding import Guarding
from midspan.cli._log_choice import LogChoice
from midspan.cli._options import log_options, plugin_options
from midspan.cli._output import print_info
from midspan.cli._server import ServerChoice, server_options
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.http import Front, Health

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
    log: LogChoice,
) -> None:
    """Guard MCP servers for clients that speak streamable HTTP, at http://HOST:PORT/mcp.

    The server is COMMAND, which is started for each session and speaks over stdio; or it is reached at --url; or it is
    the --server of the config. Without any of these, all servers of the config are served, at /servers/NAME/mcp; a
    single one also at /mcp.

    In front of a --url that speaks streamable HTTP, sessions, headers and status codes are the server's, and the
    Authorization header of a client is passed on to it.

    Only this machine reaches the gateway, unless --insecure says otherwise; pages in a browser reach it only from the
    origins that are accepted. SIGTERM and SIGINT stop it. Probes ask at /healthz and /readyz.
    """
    from midspan.config import load_config
    from midspan.gateway import asgi_app

    choice.check()
    settings = load_config(config)
    build = building(plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, locked=locked)
    guarding = Guarding(choice, build, settings, log)
    tell(guarding.plan, choice)

    from midspan.http import Health, is_public, listen

    listener = listen(host, port)
    with listener:
        public = is_public(listener)
        if public and not insecure:
            raise OperatorError(
                f"--host {host}: others than this machine reach this address, and midspan does not authenticate them; "
                "add --insecure if that is meant"
            )
        health = Health(details=lambda: {"servers": guarding.counts})
        app = asgi_app({}, allowed_hosts=(*hosts, host), allowed_origins=origins, any_address=public, health=health)
        end_process(run_to_end(partial(_serve, guarding, app, health, listener)))


async def _serve(guarding: Guarding, app: Front, health: Health, listener: socket.socket, ending: Ending) -> int:
    from midspan.http import run_server, url_of
    from midspan.plugins import Running

    starting = asyncio.current_task()
    over = asyncio.Event()

    def stop() -> None:
        if health.state == "starting" and starting is not None:
            starting.cancel()
        health.state = "stopping"
        guarding.stop()

    listener.listen(_BACKLOG)
    # From here on probes are answered; requests are when all is entered.
    serving = asyncio.create_task(run_server(app, listener, stop=over, stopping=stop))
    try:
        async with Running() as running:
            await guarding.enter(running, app)
            try:
                async with reloading(guarding):
                    health.state = "ready"
                    for path, server in guarding.plan.paths.items():
                        if server in guarding.gateways:
                            print_info(f"serving {url_of(listener, path)}")
                    await serving
                    ending.begin()
            finally:
                await guarding.leave()
    finally:
        health.state = "stopping"
        over.set()
        await serving
    return 0
