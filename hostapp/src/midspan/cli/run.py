"""`midspan run`: guard a server for a stdio client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from midspan.cli._following import building, reloading, tell
from midspan.cli._guarding import Guarding
from midspan.cli._logs import LogChoice, log_options
from midspan.cli._options import plugin_options
from midspan.cli._output import print_relay_only
from midspan.cli._over_stdio import over_stdio
from midspan.cli._server import ServerChoice, server_options
from midspan.errors import OperatorError


@click.command(context_settings={"allow_interspersed_args": False})
@server_options
@plugin_options
@log_options
def run(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    locked: bool,
    choice: ServerChoice,
    logs: LogChoice,
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

        build = building(plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, locked=locked)
        guarding = Guarding(choice, build, load_config(config), logs)
        tell(guarding.plan, choice)
        return _run(_relay(streams, guarding))

    over_stdio(guard)


def _run(work: Coroutine[Any, Any, int]) -> int:
    # Not `asyncio.run`, which at its end joins the default executor: a plugin's hanging thread would hold the gateway,
    # and with it the client, long after the server has gone.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(work)


async def _relay(streams: tuple[int, int], guarding: Guarding) -> int:
    from midspan.plugins import Running

    (gateway,) = guarding.gateways.values()
    async with Running() as running:
        await guarding.enter(running)
        async with reloading(guarding) as follows:
            return await gateway.run_stdio(streams, hangup_ends=not follows)
