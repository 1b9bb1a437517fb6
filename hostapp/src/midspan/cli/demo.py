"""`midspan demo`: see it work."""

from __future__ import annotations

import io
import sys
from typing import cast

import click


@click.command()
def demo() -> None:
    """Watch the gateway allow, block and redact: a real client and a real server, no network, no config."""
    import anyio
    from rich.console import Console

    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        cast("io.TextIOWrapper", stdout).reconfigure(errors="replace")  # for a terminal that cannot show an arrow

    progress = Console(stderr=True)
    with progress.status("starting a client, a gateway and a server ..."):
        from midspan.demo.play import play
        from midspan.demo.show import show

        performance = anyio.run(play)
    show(performance, Console())
    if not all(scene.expected for scene in performance.scenes):
        sys.exit(1)
