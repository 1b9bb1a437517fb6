"""`midspan run`: guard a server for a stdio client."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._ending import Ending, run_to_end
from midspan.cli._following import building, reloading, tell
from midspan.cli._guarding import Guarding
from midspan.cli._log_choice import LogChoice
from midspan.cli._options import log_options, plugin_options
from midspan.cli._output import print_relay_only
from midspan.cli._over_stdio import over_stdio
from midspan.cli._server import ServerChoice, server_options
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.gateway import Gateway


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
    log: LogChoice,
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
            return run_to_end(partial(_relay_only, streams, choice.named(None)))
        from midspan.config import load_config

        build = building(plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, locked=locked)
        guarding = Guarding(choice, build, load_config(config), log)
        tell(guarding.plan, choice)
        return run_to_end(partial(_relay, streams, guarding))

    over_stdio(guard)


async def _relay_only(streams: tuple[int, int], gateway: Gateway, ending: Ending) -> int:
    code = await gateway.run_stdio(streams)
    ending.begin()
    return code


async def _relay(streams: tuple[int, int], guarding: Guarding, ending: Ending) -> int:
    from midspan.plugins import Running

    (gateway,) = guarding.gateways.values()
    async with Running() as running:
        await guarding.enter(running)
        async with reloading(guarding) as follows:
            code = await gateway.run_stdio(streams, hangup_ends=not follows)
        ending.begin()
        return code
