"""Putting a plugin instance's interceptors into a chain."""

from __future__ import annotations

from collections.abc import Sequence

from midspan.config import Config
from midspan.errors import ConfigError, PluginError
from midspan.plugins._instance import Instance
from midspan_sdk import Chain, DefinitionError


def register(chain: Chain, instance: Instance, earlier: Sequence[Instance], config: Config) -> list[PluginError]:
    """Add what an instance contributes to a chain, and let the plugin check what it came to.

    Args:
        chain: gets the interceptors.
        instance: whose.
        earlier: the instances that are in the chain already.
        config: where its policy stands, for errors.

    Returns:
        What the plugin warns of.

    Raises:
        PluginError: a name is taken, the policy does not fit, or the plugin finds an error.
    """
    _refuse_taken_names(instance, earlier, config)
    _add(chain, instance, config)
    return _checked(chain, instance)


def _refuse_taken_names(instance: Instance, earlier: Sequence[Instance], config: Config) -> None:
    """Refuse a wire name that an earlier instance has: names that authors gave are not put after the instance's."""
    owners = {one.name: other.name for other in earlier for one in other.interceptors}
    for name in instance.overrides:
        if name in owners:
            problem = f"its interceptor {name!r} has the same name as one of {owners[name]!r}; enable one of the two"
            place = config.source.error(problem, "plugins", instance.name) if instance.name in config.tables else None
            raise instance.plugin.info.error(str(place or problem), instance=instance.name, place=place)


def _add(chain: Chain, instance: Instance, config: Config) -> None:
    try:
        chain.add(*instance.interceptors, overrides=instance.overrides)
    except DefinitionError as error:
        place = _place(error, instance, config)
        raise instance.plugin.info.error(str(place or error), instance=instance.name, place=place) from error


def _place(error: DefinitionError, instance: Instance, config: Config) -> ConfigError | None:
    """Return where an override stands that cannot be registered; None when it is the plugin's own."""
    own = error.interceptor.removeprefix(f"{instance.name}.")
    settings = config.plugins.get(instance.name)
    if settings is None or own not in settings.interceptors or error.field != "hooks":
        return None
    return config.source.error(error.problem, "plugins", instance.name, "interceptors", own, error.field)


def _checked(chain: Chain, instance: Instance) -> list[PluginError]:
    names = {one.name for one in instance.interceptors}
    entries = [entry for entry in chain.entries if entry.name in names]
    problems = instance.plugin.problems(instance.config, instance.name, entries)
    lines = [
        (problem.severity, f"{problem.interceptor}: {problem.message}" if problem.interceptor else problem.message)
        for problem in problems
    ]
    if errors := [line for severity, line in lines if severity == "error"]:
        raise instance.plugin.info.error("; ".join(errors), instance=instance.name)
    return [instance.plugin.info.error(line, instance=instance.name) for _, line in lines]
