"""The plugin instances in front of a server, built into a chain."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from midspan.errors import OperatorError
from midspan.plugins._instance import Instance
from midspan.plugins._remotes import Remote
from midspan.plugins._running import Running
from midspan_sdk import Chain, Interceptor


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Assembly:
    """The enabled plugins that are for a server, built into a chain.

    Attributes:
        chain: all entries and observers.
        instances: the plugin instances, in order of selection.
        notes: what the operator may have meant otherwise.
        remotes: the interceptor servers that join the chain when it is entered, in the order of the file.
    """

    chain: Chain
    instances: tuple[Instance, ...]
    notes: tuple[OperatorError, ...]
    remotes: tuple[Remote, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes, one line each, for stderr."""
        return tuple(dict.fromkeys(note.message for note in self.notes))

    @property
    def empty(self) -> bool:
        """Whether nothing acts on messages and nothing observes them."""
        return not (self.chain.entries or self.remotes) and not any(instance.observers for instance in self.instances)

    @property
    def interceptors(self) -> tuple[Interceptor[..., Any], ...]:
        """All interceptors of plugins under their wire names, with config and lifespan bound."""
        return tuple(one for instance in self.instances for one in instance.interceptors)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Chain]:
        """Enter all lifespans in order, then the chain; leave in reverse, so that the chain drains first.

        An error of the block itself leaves it as it is, not wrapped in the groups of whatever tasks ran meanwhile.

        Raises:
            OperatorError: a lifespan could not be entered, or an interceptor server could not join; what was entered
                before is left.
        """
        async with Running() as running:
            await running.enter([self])
            yield self.chain
