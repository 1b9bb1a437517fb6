"""Tables of the config that do nothing, or not what they seem to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from midspan.errors import OperatorError, did_you_mean

if TYPE_CHECKING:
    from midspan.config import Config


def undecided_tables(config: Config, running: Sequence[str], blocked: Sequence[str]) -> Iterator[OperatorError]:
    """Yield each plugin table that does not say whether it is enabled.

    Args:
        config: the operator's config.
        running: the plugin instances that are to run.
        blocked: what `--no-plugin` names.
    """
    for name, table in config.tables.items():
        if table.enabled is None and name not in running and name not in blocked and table.use not in blocked:
            problem = "does not say whether it is enabled, so it is off; write `enabled = true` or `enabled = false`"
            yield config.source.error(problem, "plugins", name)


def unknown_loggers(config: Config, plugins: Sequence[str]) -> Iterator[OperatorError]:
    """Yield each key of `[log.levels]` that is neither a plugin's id nor can be the name of a logger.

    Args:
        config: the operator's config.
        plugins: the ids of all installed plugins.
    """
    known = [*plugins, *config.tables]
    for name in config.settings.log.levels:
        package = name.partition(".")[0]
        if name not in known and not (package.isidentifier() and _is_module(package)):
            hint = did_you_mean(name, known) or f"; the plugins are {', '.join(dict.fromkeys(known)) or 'none'}"
            yield config.source.error(f"no plugin has this id, and no module this name{hint}", "log", "levels", name)


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # it runs as a program
        return True
