"""`midspan interceptors`: interceptors over the wire protocol."""

from __future__ import annotations

from pathlib import Path

import click

from midspan.cli._ending import Ending, run_to_end
from midspan.cli._log_choice import LogChoice
from midspan.cli._options import log_options, plugin_options
from midspan.cli._output import print_warning
from midspan.cli._over_stdio import over_stdio


@click.group()
def interceptors() -> None:
    """Serve interceptors over the wire protocol."""


@interceptors.command()
@plugin_options
@log_options
def serve(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    log: LogChoice,
) -> None:
    """Serve the enabled plugins' interceptors to another host's chain, over stdio.

    The server answers `interceptors/list` and `interceptor/invoke`, in the handshake revisions of MCP and in
    2026-07-28. Who invokes them decides what a verdict leads to.
    """

    def answer(streams: tuple[int, int]) -> int:
        from midspan.plugins import assemble, plugin_logs

        assembly = assemble(
            config=config, plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, gives=("session", "store")
        )
        log.configure(plugins=plugin_logs(assembly.instances))
        # Imported after the plugins: the MCP SDK takes a second, and the operator's mistakes are told before.
        from midspan.serve import interceptor_server, serve_stdio, unused_observers

        server = interceptor_server(assembly)
        for warning in (*assembly.warnings, *unused_observers(assembly)):
            print_warning(warning)

        async def run(ending: Ending) -> int:
            async with assembly.running():
                await serve_stdio(server, streams)
                ending.begin()
            return 0

        return run_to_end(run)

    over_stdio(answer)
