"""From the options of a command to the servers that it guards, and the config that they follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from midspan.cli._guarding import Guarding
from midspan.cli._guards import scoped_away
from midspan.cli._options import lock_of
from midspan.cli._output import print_error, print_relay_only, print_warning
from midspan.cli._plan import Plan
from midspan.cli._server import ServerChoice
from midspan.errors import each_of

if TYPE_CHECKING:
    from midspan.cli._guarding import Build
    from midspan.config import Config
    from midspan.plugins import Builder


def building(*, plugins: Sequence[str], no_plugins: Sequence[str], plugin_files: Sequence[Path], locked: bool) -> Build:
    """Return what makes a builder of what the command line says of plugins, and a config."""

    def build(config: Config, before: Builder | None) -> Builder:
        from midspan.plugins import GATEWAY_GIVES, Builder

        return Builder(
            config=config,
            plugins=plugins,
            no_plugins=no_plugins,
            plugin_files=plugin_files,
            gives=GATEWAY_GIVES,
            before=before,
            locked=lock_of(config.source, locked),
        )

    return build


def tell(plan: Plan, choice: ServerChoice) -> None:
    """Print what the operator should know of a plan at the start."""
    for warning in plan.guards.warnings:
        print_warning(warning)
    unnamed = choice.given and choice.server is None and choice.name is None
    if unnamed and (away := scoped_away(plan.builder, plan.servers[0])):
        print_warning(away)
    for server, error in plan.guards.refused.items():
        for problem in each_of(error):
            print_error(f"server {server!r} is not served: {problem.message}")
    if plan.guards.empty:
        print_relay_only()


@asynccontextmanager
async def reloading(guarding: Guarding) -> AsyncGenerator[bool]:
    """Follow the config file, if there is one, while the block runs; gives whether there is one."""
    source = guarding.plan.config.source
    if source.path is None:
        yield False
        return
    from midspan.reloading import Changes, Reloader

    async with Changes() as changes:
        following = asyncio.create_task(Reloader(source.path, source, guarding, changes).run())
        try:
            yield True
        finally:
            following.cancel()
            await asyncio.wait({following})
