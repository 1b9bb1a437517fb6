"""`midspan serve`: guard servers for clients that speak HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._ending import Ending, end_process, run_to_end
from midspan.cli._log_choice import LogChoice
from midspan.cli._options import log_options, plugin_options
from midspan.cli._output import print_info, print_relay_only, print_warning
from midspan.cli._server import ServerChoice, configured, server_options
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.gateway import Gateway
    from midspan.http import Front, Health
    from midspan.plugins import Assembly
    from midspan_sdk import Chain

logger = logging.getLogger("midspan.gateway")

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
    host: str,
    port: int,
    insecure: bool,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    log: LogChoice,
    choice: ServerChoice,
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
    from midspan.plugins import assemble, plugin_logs

    choice.check()
    settings = load_config(config)
    assembly = assemble(
        config=settings,
        plugins=plugins,
        no_plugins=no_plugins,
        plugin_files=plugin_files,
        gives=("session", "store", "tools", "ask"),
    )
    log.configure(plugins=plugin_logs(assembly.instances))
    for warning in assembly.warnings:
        print_warning(warning)
    gateways = _gateways(choice, settings, assembly.chain)
    _check(choice, settings, gateways)

    from midspan.http import Health, is_public, listen, url_of

    listener = listen(host, port)
    with listener:
        public = is_public(listener)
        if public and not insecure:
            raise OperatorError(
                f"--host {host}: others than this machine reach this address, and midspan does not authenticate them; "
                "add --insecure if that is meant"
            )
        health = Health()
        app = asgi_app(
            gateways, allowed_hosts=(*hosts, host), allowed_origins=origins, any_address=public, health=health
        )
        if assembly.empty:
            print_relay_only()
        lines = [f"serving {url_of(listener, path)}" for path in gateways]
        end_process(run_to_end(partial(_serve, assembly, gateways.values(), app, health, listener, lines)))


def _gateways(choice: ServerChoice, config: Config, chain: Chain) -> dict[str, Gateway]:
    """Return the gateways by the paths at which they are served."""
    from midspan.gateway import PATH

    if choice.given:
        return {PATH: choice.gateway(config, chain)}
    if not config.servers:
        raise OperatorError(
            "no server: give its command behind --, or --url, or add a table [servers.NAME] to the config"
        )
    served = {f"/servers/{name}{PATH}": configured(config, name, chain) for name in config.servers}
    return {PATH: next(iter(served.values())), **served} if len(served) == 1 else served


def _check(choice: ServerChoice, config: Config, gateways: Mapping[str, Gateway]) -> None:
    """Refuse servers that cannot be started, before any client asks for one."""
    names = [choice.server] if choice.given else list(config.servers)
    for gateway, name in zip(dict.fromkeys(gateways.values()), names, strict=True):
        try:
            gateway.check()
        except OperatorError as error:
            if name is None:
                raise
            raise config.source.error(error.message, "servers", name, "command") from None


async def _serve(
    assembly: Assembly,
    gateways: Iterable[Gateway],
    app: Front,
    health: Health,
    listener: socket.socket,
    lines: list[str],
    ending: Ending,
) -> int:
    from midspan.http import run_server

    starting = asyncio.current_task()
    distinct = list(dict.fromkeys(gateways))
    over = asyncio.Event()

    def stop() -> None:
        if health.state == "starting" and starting is not None:
            starting.cancel()
        health.state = "stopping"
        for gateway in distinct:
            gateway.stop()

    listener.listen(_BACKLOG)
    # From here on probes are answered; requests are when all is entered.
    serving = asyncio.create_task(run_server(app, listener, stop=over, stopping=stop))
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(assembly.running())
            # Left side by side: each may have servers that do not want to end.
            entered: list[Gateway] = []
            stack.push_async_callback(_leave_all, entered)
            for gateway in distinct:
                await gateway.__aenter__()
                entered.append(gateway)
            health.state = "ready"
            for line in lines:
                print_info(line)
            await serving
            ending.begin()
    finally:
        health.state = "stopping"
        over.set()
        await serving
    return 0


async def _leave_all(gateways: Iterable[Gateway]) -> None:
    """Leave all gateways at once, whether or not one of them fails."""
    results = await asyncio.gather(*(one.__aexit__(None, None, None) for one in gateways), return_exceptions=True)
    for failure in results:
        if isinstance(failure, Exception):
            logger.error("a gateway failed while it was left", exc_info=failure)
