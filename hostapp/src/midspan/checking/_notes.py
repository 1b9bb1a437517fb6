"""What is found at every start too: hardly meant, but no reason not to start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from midspan.checking._deadlines import unenforced_deadlines
from midspan.checking._doubles import doubled_instances
from midspan.checking._hooks import hooks_that_never_match
from midspan.checking._scopes import unmatched_scopes

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.errors import OperatorError
    from midspan.plugins import Instance
    from midspan_sdk import ChainEntry


def chain_notes(
    config: Config, instances: Sequence[Instance], entries: Sequence[ChainEntry]
) -> Iterator[OperatorError]:
    """Yield what is hardly meant in one chain.

    Args:
        config: the operator's config.
        instances: the plugin instances of the chain.
        entries: the chain's entries.
    """
    for instance in instances:
        names = {one.name for one in instance.interceptors}
        own = [entry for entry in entries if entry.server is None and entry.name in names]
        yield from hooks_that_never_match(config, instance, own)
        yield from unenforced_deadlines(config, instance, own)
    yield from doubled_instances(config, instances)


def config_notes(config: Config, running: Sequence[str]) -> Iterator[OperatorError]:
    """Yield what is hardly meant in the config as a whole.

    Args:
        config: the operator's config.
        running: the names of the plugin instances that are to run.
    """
    yield from unmatched_scopes(config, running)
