"""`midspan interceptors`: interceptors over the wire protocol."""

from __future__ import annotations

from pathlib import Path

import click

from midspan.cli._ending import Ending, run_to_end
from midspan.cli._interceptor_server import InterceptorServer, interceptor_server_options
from midspan.cli._json_argument import METAVAR
from midspan.cli._log_choice import LogChoice
from midspan.cli._options import lock_of, log_options, plugin_options
from midspan.cli._output import print_warning
from midspan.cli._over_stdio import over_stdio


@click.group()
def interceptors() -> None:
    """Serve interceptors over the wire protocol, list and invoke them on servers."""


@interceptors.command()
@plugin_options
@log_options
def serve(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    locked: bool,
    log: LogChoice,
) -> None:
    """Serve the enabled plugins' interceptors to another host's chain, over stdio.

    The server answers `interceptors/list` and `interceptor/invoke`, in the handshake revisions of MCP and in
    2026-07-28. Who invokes them decides what a verdict leads to.
    """

    def answer(streams: tuple[int, int]) -> int:
        from midspan.config import load_config
        from midspan.plugins import Builder, plugin_logs

        settings = load_config(config)
        builder = Builder(
            config=settings,
            plugins=plugins,
            no_plugins=no_plugins,
            plugin_files=plugin_files,
            gives=("session", "store"),
            locked=lock_of(settings.source, locked),
            remotes=False,
        )
        assembly = builder.assembly()
        log.follow(settings, plugin_logs(assembly.instances))
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


@interceptors.command("list")
@click.option("--event", metavar="EVENT", help="Only those hooked to this event; a glob finds those that could match.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON array of descriptors, for programs.")
@interceptor_server_options
def list_(event: str | None, as_json: bool, server: InterceptorServer) -> None:
    """List the interceptors that a server offers, as it describes them.

    The server is COMMAND, which is started and speaks over stdio; or it is reached at --url; or it is the --server of
    the config. A chain may run them under another policy.
    """
    from midspan.cli._ask_server import list_on

    list_on(server, event=event, as_json=as_json)


@interceptors.command()
@click.argument("name")
@click.option("--event", required=True, metavar="EVENT", help="The JSON-RPC method of the message.")
@click.option(
    "--phase",
    type=click.Choice(["request", "response"]),
    default="request",
    show_default=True,
    help="Which of the two messages it is.",
)
@click.option(
    "--payload",
    required=True,
    metavar=METAVAR,
    help="The params or the result of the message: a JSON object, or the file or stdin to read it from.",
)
@click.option("--interceptor-config", metavar=METAVAR, help="A config for this invocation, in the place of its own.")
@click.option("--timeout", default="5s", show_default=True, metavar="DURATION", help="The deadline.")
@interceptor_server_options
def invoke(
    name: str,
    event: str,
    phase: str,
    payload: str,
    interceptor_config: str | None,
    timeout: str,
    server: InterceptorServer,
) -> None:
    """Invoke the interceptor NAME of a server on one message, and print its result as JSON.

    The server is named as for `midspan interceptors list`. The exit code is 0 whatever the verdict is.
    """
    from midspan.cli._ask_server import invoke_on

    invoke_on(server, name, event=event, phase=phase, payload=payload, config=interceptor_config, timeout=timeout)
