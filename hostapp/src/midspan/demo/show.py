"""How the demo looks in a terminal; plain text when piped."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from midspan.demo.play import Performance, Scene

_AUDIT_FIELDS = ("timestamp", "event", "target", "status", "blocked_by", "reason", "arrived_digest")

_NEXT = """\
midspan plugins list                     what is installed and enabled
midspan plugins show policy              what a plugin adds and takes
midspan run --plugin secrets -- COMMAND  guard a server that COMMAND starts"""


def show(performance: Performance, console: Console) -> None:
    """Print the demo."""
    console.print()
    console.print("[bold]client[/] ──▶ [bold cyan]midspan[/] ──▶ [bold]server[/]   with this config:", highlight=False)
    console.print()
    for line in performance.config.rstrip().splitlines():
        console.print(f"    [dim]{escape(line)}[/]", highlight=False, soft_wrap=True)
    console.print()
    shown, hidden = ", ".join(performance.tools), ", ".join(performance.hidden)
    console.print(f"The client is shown {shown}; hidden by policy: [bold]{hidden}[/].", highlight=False)
    for number, scene in enumerate(performance.scenes, 1):
        console.print()
        _show_scene(number, scene, console)
    console.print()
    _show_audit(performance.records, console)
    console.print()
    console.print("[bold]Next[/]", highlight=False)
    for line in _NEXT.splitlines():
        console.print(f"    {escape(line)}", highlight=False, soft_wrap=True)


def _show_scene(number: int, scene: Scene, console: Console) -> None:
    mark = "[green]✓[/]" if scene.expected else "[red]✗ not as expected:[/]"
    console.print(f"{mark} [bold]{number}. {escape(scene.title)}[/]", highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    changed_out = scene.server_got is not None and scene.server_got != scene.client_sent
    changed_back = scene.server_sent is not None and scene.server_sent != scene.client_got
    table.add_row("    client sends", _call(scene.tool, scene.client_sent))
    if scene.server_got is None:
        table.add_row("    server gets", "[bold red]nothing[/]")
        table.add_row("    client gets", f"[red]{escape(scene.client_got)}[/]")
    else:
        table.add_row("    server gets", _coloured(_call(scene.tool, scene.server_got), changed_out))
        table.add_row("    server sends", escape(scene.server_sent or ""))
        table.add_row("    client gets", _coloured(escape(scene.client_got), changed_back))
    console.print(table)


def _coloured(text: str, changed: bool) -> str:
    return f"[yellow]{text}[/]" if changed else text


def _call(tool: str, arguments: dict[str, Any]) -> str:
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return escape(f"{tool}({given})")


def _show_audit(records: tuple[dict[str, Any], ...], console: Console) -> None:
    blocked = [record for record in records if record.get("status") != "success"]
    console.print(
        f"[bold]Audit[/]: {len(records)} decisions were on file before their messages left, {len(blocked)} of them a"
        " denial. Part of its line (digests, no values):",
        highlight=False,
    )
    for record in blocked[:1]:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for field in _AUDIT_FIELDS:
            table.add_row(f"    {field}", escape(str(record.get(field))))
        console.print(table)
