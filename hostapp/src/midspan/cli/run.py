"""`midspan run`: guard a stdio server for a stdio client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._options import plugin_options
from midspan.cli._output import print_warning
from midspan.cli._over_stdio import over_stdio
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.plugins import Assembly


@click.command(context_settings={"allow_interspersed_args": False})
@plugin_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGS]...")
def run(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    command: tuple[str, ...],
) -> None:
    """Start COMMAND, an MCP server that speaks over stdio, and guard it.

    Put `midspan run [OPTIONS] --` in front of the server's command in the client's config. The server gets the whole
    environment, the working directory and stderr; its exit code is passed on.
    """

    def guard(streams: tuple[int, int]) -> int:
        from midspan.plugins import assemble

        assembly = assemble(
            config=config, plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, gives=("session", "store")
        )
        for warning in assembly.warnings:
            print_warning(warning)
        # Not `asyncio.run`, which at its end joins the default executor: a plugin's hanging thread would hold the
        # gateway, and with it the client, long after the server has gone.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_relay(streams, command, assembly))

    over_stdio(guard)


async def _relay(streams: tuple[int, int], command: Sequence[str], assembly: Assembly) -> int:
    from midspan.interception import ChainJudge, ConnectionContext, local_flow, local_user
    from midspan.relay import CommandBackend, ConnectError, PassAll, run_stdio

    try:
        async with assembly.running():
            if assembly.empty:
                click.echo("midspan: relay only, no interceptor is enabled", err=True)
                return await run_stdio(CommandBackend(command), PassAll(), streams=streams)
            context = ConnectionContext(server=Path(command[0]).name, principal=local_user(), flow=local_flow())
            return await run_stdio(CommandBackend(command), ChainJudge(assembly.chain, context), streams=streams)
    except ConnectError as error:
        raise OperatorError(str(error)) from error
