"""`midspan check`: everything that is wrong, at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from midspan.cli._guards import unknown_to_config
from midspan.cli._options import building_options
from midspan.cli._output import echo, print_warning
from midspan.errors import OperatorError, one_line

if TYPE_CHECKING:
    from midspan.checking import Checked, Finding

_COLOURS = {"error": "red", "warning": "yellow"}


@click.command()
@click.option("--server", metavar="NAME", help="Check what is for this server, of the config or not.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object, for programs.")
@building_options
def check(
    config: Path | None,
    plugins: tuple[str, ...],
    no_plugins: tuple[str, ...],
    plugin_files: tuple[Path, ...],
    server: str | None,
    as_json: bool,
) -> int:
    """Load everything, start nothing, and print all that is wrong, a line each.

    Errors stop a start; warnings are what you may have meant otherwise. The exit code is 0 when there is neither.
    """
    from midspan.checking import check, unread
    from midspan.plugins import GATEWAY_GIVES, Builder

    try:
        builder = Builder(
            config=config, plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, gives=GATEWAY_GIVES
        )
    except OperatorError as error:
        checked = unread(error)
        more = "; the rest is checked when this can be read"
    else:
        checked = check(builder, server)
        more = ""
        if unknown := unknown_to_config(builder, server):
            print_warning(unknown)
    if as_json:
        _print_json(checked)
    else:
        for finding in checked.findings:
            _print_finding(finding)
        echo(_summary(checked, more))
    return OperatorError.exit_code if checked.findings else 0


def _print_finding(finding: Finding) -> None:
    severity = click.style(f"{finding.severity}:", fg=_COLOURS[finding.severity], bold=True)
    where = f"{click.style(f'{finding.where}:', bold=True)} " if finding.where else ""
    stops = f" (stops {', '.join(finding.servers)})" if finding.servers else ""
    echo(f"{where}{severity} {one_line(finding.problem)}{click.style(stops, dim=True) if stops else ''}")


def _print_json(checked: Checked) -> None:
    told = {
        "problems": [finding.as_json() for finding in checked.findings],
        "plugins": checked.plugins,
        "interceptors": checked.interceptors,
        "servers": list(checked.servers),
    }
    echo(json.dumps(told, indent=2))


def _summary(checked: Checked, more: str) -> str:
    severities = [finding.severity for finding in checked.findings]
    if not severities:
        runs = f"{_counted(checked.plugins, 'plugin')} with {_counted(checked.interceptors, 'interceptor')}"
        before = f" in front of {_counted(len(checked.servers), 'server')}" if checked.servers else ""
        return f"{click.style('All is well:', fg='green', bold=True)} {runs}{before}. Nothing was started."
    counts = [
        _counted(severities.count(severity), severity) for severity in ("error", "warning") if severity in severities
    ]
    colour = _COLOURS["error" if "error" in severities else "warning"]
    found = click.style(f"Found {' and '.join(counts)}", fg=colour, bold=True)
    return f"{found}{more}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
