"""`midspan run`: guard a server for a stdio client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from midspan.cli._options import lock_of, plugin_options
from midspan.cli._output import print_relay_only, print_warning
from midspan.cli._over_stdio import over_stdio
from midspan.cli._server import ServerChoice, server_options
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.gateway import Gateway
    from midspan.plugins import Assembly


@click.command(context_settings={"allow_interspersed_args": False})
@server_options
@plugin_options
def run(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    locked: bool,
    choice: ServerChoice,
) -> None:
    """Guard an MCP server for the client that started this command, over stdio.

    The server is COMMAND, which is started and speaks over stdio; or it is reached at --url; or it is the --server of
    the config.

    In the client's config, put `midspan run [OPTIONS] --` in front of the server's command. The command gets the whole
    environment, the working directory and stderr; its exit code is passed on.
    """

    def guard(streams: tuple[int, int]) -> int:
        from midspan.config import find_config

        choice.check()
        if not choice.given:
            raise OperatorError("no server: give its command behind --, or --url, or --server")
        if not (plugins or no_plugins or plugin_files or locked or choice.server) and find_config(config) is None:
            # Nothing can be enabled: without pydantic and the SDK, the relay takes two thirds of the memory.
            print_relay_only()
            return _run(choice.named(None).run_stdio(streams))
        from midspan.config import load_config
        from midspan.plugins import assemble

        settings = load_config(config)
        assembly = assemble(
            config=settings,
            plugins=plugins,
            no_plugins=no_plugins,
            plugin_files=plugin_files,
            gives=("session", "store", "tools", "ask"),
            locked=lock_of(settings.source, locked),
        )
        for warning in assembly.warnings:
            print_warning(warning)
        return _run(_relay(streams, choice.gateway(settings, assembly.chain), assembly))

    over_stdio(guard)


def _run(work: Coroutine[Any, Any, int]) -> int:
    # Not `asyncio.run`, which at its end joins the default executor: a plugin's hanging thread would hold the gateway,
    # and with it the client, long after the server has gone.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(work)


async def _relay(streams: tuple[int, int], gateway: Gateway, assembly: Assembly) -> int:
    async with assembly.running():
        if assembly.empty:
            print_relay_only()
        return await gateway.run_stdio(streams)
