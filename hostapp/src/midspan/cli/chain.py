"""`midspan chain`: the exact order that will run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._events import check_event
from midspan.cli._guards import unknown_to_config
from midspan.cli._options import building_options
from midspan.cli._output import echo, print_warning
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan_sdk.wire import Direction, Phase


@click.command()
@click.argument("event", required=False, metavar="[EVENT]")
@click.option("--phase", type=click.Choice(["request", "response"]), help="Draw this phase only; default: both.")
@click.option(
    "--direction",
    type=click.Choice(["sending", "receiving"]),
    help="Draw this direction only: sending is client to server. Default: the ways in which messages of EVENT go.",
)
@click.option(
    "--server", metavar="NAME", help="Draw the chain in front of this server, whether the config has it or not."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object, for programs.")
@building_options
def chain(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    event: str | None,
    phase: Phase | None,
    direction: Direction | None,
    server: str | None,
    as_json: bool,
) -> int:
    """Draw the exact order that will run, and where each value comes from. Starts nothing.

    EVENT is a JSON-RPC method, such as tools/call. Without it, all events are drawn that anything in the chain hooks,
    those with the same order together, the first few of them by name; without --server, all servers, likewise.

    A server whose chain is refused shows why; the exit code is 2 then.
    """
    from midspan.cli._chain_text import print_chains
    from midspan.plugins import GATEWAY_GIVES, Builder
    from midspan.sight import chain_view, groups_of

    if event is not None:
        check_event(event, response=phase == "response")
    builder = Builder(
        config=config, plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, gives=GATEWAY_GIVES
    )
    views = [
        chain_view(builder, group, event=event, phase=phase, direction=direction)
        for group in groups_of(builder, server)
    ]
    if as_json:
        echo(json.dumps({"chains": [view.as_json() for view in views]}, indent=2))
    else:
        print_chains(views, event)
    if unknown := unknown_to_config(builder, server):
        print_warning(unknown)
    return OperatorError.exit_code if any(view.group.problems for view in views) else 0
