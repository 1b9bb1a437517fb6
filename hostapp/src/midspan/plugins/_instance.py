"""Building one plugin instance: config, interceptors, observers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from midspan.config import Config, PluginSettings
from midspan.errors import ConfigError
from midspan.plugins._configuring import configure
from midspan.plugins._plugin import Plugin
from midspan.plugins._policy import overrides_for
from midspan.plugins._selection import ChosenInstance
from midspan_sdk import Bindings, DecisionRecord, DefinitionError, Interceptor, InterceptorOverrides, Observer


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Instance:
    """One plugin instance, built.

    Attributes:
        name: its config table's name, or the plugin's id.
        plugin: the plugin.
        config: its validated config, or None when the plugin has no model.
        bindings: what its interceptors share: config and lifespan.
        interceptors: what it contributes, under wire names.
        overrides: the operator's policy for them, by wire name.
        observers: its observers, named after the instance.
        without: how to start without it, half a sentence for errors.
        servers: the servers that it is for, names or globs; None for all.
    """

    name: str
    plugin: Plugin
    config: BaseModel | None
    bindings: Bindings
    interceptors: tuple[Interceptor[..., Any], ...]
    overrides: dict[str, InterceptorOverrides]
    observers: tuple[Observer, ...]
    without: str
    servers: tuple[str, ...] | None = None

    def own_name(self, interceptor: str) -> str:
        """Return the name that the author gave to an interceptor, by its wire name: what the operator's tables say."""
        if any(one.name == interceptor and one.explicit_name for one in self.interceptors):
            return interceptor
        return interceptor.removeprefix(f"{self.name}.")

    def same_as(self, other: Instance) -> bool:
        """Tell whether another build of this instance may go on with what this one has open, and what it keeps."""
        mine, theirs = self.plugin.info, other.plugin.info
        return (
            self.name == other.name
            and (mine.id, mine.value, mine.distribution, mine.version)
            == (theirs.id, theirs.value, theirs.distribution, theirs.version)
            and self.config == other.config
        )


def changed_instances(instances: Sequence[Instance], before: Sequence[Instance]) -> list[str]:
    """Return the names of the instances that cannot go on with what others of their name keep."""
    return [one.name for one in instances if not any(one.same_as(other) for other in before)]


def build_instance(plugin: Plugin, chosen: ChosenInstance, config: Config) -> Instance:
    """Configure one instance and collect what it contributes.

    Raises:
        PluginError: its config, a hook, what a hook returned, or the operator's policy is not acceptable.
    """
    name = chosen.name
    if plugin.has_resolvers:
        raise plugin.info.error("midspan_resolvers is not supported yet; use a version without it", instance=name)
    model = plugin.config_model()
    validated = configure(plugin, name, model, config)
    settings = config.plugins.get(name, PluginSettings())
    bindings = Bindings(config=validated)
    own = plugin.interceptors(validated, name)
    _refuse_other_models(plugin, name, model, own)
    _refuse_doubles(plugin, name, "interceptors", [one.name for one in own])
    try:
        policies = overrides_for(own, settings, config.source, name)
        bound = tuple(_bound(one, name, bindings, model) for one in own)
    except ConfigError as error:
        raise plugin.info.error(str(error), instance=name, place=error) from error
    except DefinitionError as error:
        raise plugin.info.error(str(error), instance=name) from error
    observers = tuple(_named(observer, name) for observer in plugin.observers(validated, name))
    _refuse_doubles(plugin, name, "observers", [observer.name for observer in observers])
    return Instance(
        name=name,
        plugin=plugin,
        config=validated,
        bindings=bindings,
        interceptors=bound,
        overrides={one.name: policy for one, policy in zip(bound, policies, strict=True)},
        observers=observers,
        without=chosen.without,
        servers=chosen.servers,
    )


def _bound(
    interceptor: Interceptor[..., Any], instance: str, bindings: Bindings, model: type[BaseModel] | None
) -> Interceptor[..., Any]:
    name = None if interceptor.explicit_name else f"{instance}.{interceptor.name}"
    return interceptor.bound(name=name, group=instance, bindings=bindings, config_model=model)


def _refuse_other_models(
    plugin: Plugin, instance: str, model: type[BaseModel] | None, interceptors: Sequence[Interceptor[..., Any]]
) -> None:
    """Refuse a handler that would be given another config than it was written for."""
    for interceptor in interceptors:
        wanted = interceptor.config_model
        if wanted is None or (model is not None and issubclass(model, wanted)):
            continue
        given = f"returns {model.__name__}" if model is not None else "names no model"
        problem = f"the handler of {interceptor.name!r} takes config: {wanted.__name__}, but midspan_config {given}"
        raise plugin.info.error(problem, instance=instance)


def _refuse_doubles(plugin: Plugin, instance: str, things: str, names: Sequence[str]) -> None:
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise plugin.info.error(f"two of its {things} are called {doubled!r}; rename one", instance=instance)


class _NamedObserver:
    """An observer under a name that tells its instance, so that two instances of one plugin stay apart."""

    def __init__(self, observer: Observer, name: str) -> None:
        self.name = name
        self.durable = observer.durable
        self._observer = observer

    async def observe(self, record: DecisionRecord) -> None:
        await self._observer.observe(record)


def _named(observer: Observer, instance: str) -> Observer:
    if observer.name == instance or observer.name.startswith(f"{instance}."):
        return observer
    return _NamedObserver(observer, f"{instance}.{observer.name}")
