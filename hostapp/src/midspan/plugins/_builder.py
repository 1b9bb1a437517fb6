"""From what the operator asked for to a chain for each server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from midspan.checking import chain_notes, config_notes
from midspan.config import Config, in_scope, load_config
from midspan.errors import OperatorError, PluginError, each_of, raise_all
from midspan.plugins._assembly import Assembly
from midspan.plugins._discovery import discover
from midspan.plugins._file import file_plugin
from midspan.plugins._info import PluginInfo
from midspan.plugins._instance import Instance, build_instance
from midspan.plugins._loading import load
from midspan.plugins._plugin import Plugin
from midspan.plugins._selection import ChosenInstance, RefusedInstance, Selection, select
from midspan_sdk import Chain, DefinitionError, MemoryStore, Store

_UNRECORDED: Final = (
    "no durable observer of decisions is enabled here; enable one, such as the plugin `audit`, or remove `required`"
)


_Built = tuple[Assembly | tuple[OperatorError, ...], tuple[OperatorError, ...]]
"""A chain, or why there is none; and the notes on it."""


class Builder:
    """Discovers and selects plugins; loads, configures and chains those that a server needs. Imports no other.

    An instance is built once, also when several servers share it. One that cannot be built refuses the servers that it
    is for, and no other.

    Args:
        config: a config that was read, or the file to read; None looks where the user keeps it.
        plugins: enabled for this run (`--plugin`): names of tables, or plugin ids.
        no_plugins: never imported (`--no-plugin`), whatever else is said.
        plugin_files: local Python files, each run as a plugin that is enabled (`--plugin-file`).
        gives: what handlers may need of the mount, of `session`, `store`, `tools`, `ask`.
        store: where `store` keeps its values; shared by all servers.

    Attributes:
        config: the config.
        selection: which plugins run, and why others do not.
        blocked: what `no_plugins` names.

    Raises:
        OperatorError: the config is wrong, or a plugin file is none.
    """

    def __init__(
        self,
        *,
        config: Config | Path | None = None,
        plugins: Iterable[str] = (),
        no_plugins: Iterable[str] = (),
        plugin_files: Iterable[Path] = (),
        gives: Iterable[str] = (),
        store: Store | None = None,
    ) -> None:
        self.config = config if isinstance(config, Config) else load_config(config)
        local = [file_plugin(path) for path in plugin_files]
        found = [*discover(), *local]
        _refuse_taken_ids(found, local)
        wanted = [*plugins, *(info.id for info in local)]
        self.blocked = tuple(no_plugins)
        self.selection: Selection = select(found, self.config.tables, enable=wanted, block=self.blocked)
        self._gives = tuple(gives)
        self._store = store or MemoryStore()
        self._plugins: dict[str, Plugin | PluginError] = {}
        self._instances: dict[str, Instance | OperatorError] = {}
        self._assemblies: dict[tuple[str, ...], _Built] = {}

    @property
    def instance_names(self) -> tuple[str, ...]:
        """Names of all instances that are to run, in order."""
        return tuple(one.name for one in (*self.selection.instances, *self.selection.refused))

    def assembly(self, server: str | None = None) -> Assembly:
        """Return the chain in front of a server, built when it is first asked for.

        Args:
            server: its name; None for a mount that guards no server, which gets every instance, whatever its scope.

        Raises:
            OperatorError: what the operator asked for cannot be done: an unknown or unusable plugin, a wrong config, a
                need that the mount cannot give. Several such are `ProblemsError`. A guard never vanishes silently.
        """
        built, _ = self._for(server)
        if isinstance(built, Assembly):
            return built
        raise_all(built)
        raise AssertionError("unreachable")

    def notes(self, server: str | None = None) -> tuple[OperatorError, ...]:
        """Return what the operator may have meant otherwise, also where the chain in front of the server is refused.

        Args:
            server: as of `assembly`.
        """
        return self._for(server)[1]

    def _for(self, server: str | None) -> _Built:
        chosen = [one for one in self.selection.instances if server is None or in_scope(server, one.servers)]
        refused = [one for one in self.selection.refused if server is None or in_scope(server, one.servers)]
        key = tuple(one.name for one in (*chosen, *refused))
        built = self._assemblies.get(key)
        if built is None:
            built = self._assemblies[key] = self._built(chosen, refused)
        return built

    def instance(self, chosen: ChosenInstance) -> Instance:
        """Return an instance, built when it is first asked for.

        Raises:
            OperatorError: it cannot be built; says how to start without it.
        """
        built = self._instances.get(chosen.name)
        if built is None:
            try:
                built = build_instance(self._plugin(chosen.plugin), chosen, self.config)
            except OperatorError as error:
                built = _hinted(error, chosen.without)
            self._instances[chosen.name] = built
        if isinstance(built, OperatorError):
            raise built
        return built

    def _plugin(self, info: PluginInfo) -> Plugin:
        loaded = self._plugins.get(info.id)
        if loaded is None:
            try:
                loaded = load(info)
            except PluginError as error:
                loaded = error
            self._plugins[info.id] = loaded
        if isinstance(loaded, PluginError):
            raise loaded
        return loaded

    def _built(self, chosen: Sequence[ChosenInstance], refused: Sequence[RefusedInstance]) -> _Built:
        problems = [*self.selection.problems, *(one.problem for one in refused)]
        instances: list[Instance] = []
        for one in chosen:
            try:
                instances.append(self.instance(one))
            except OperatorError as error:
                problems += each_of(error)
        observers = [observer for instance in instances for observer in instance.observers]
        settings = self.config.settings
        if settings.audit.required and not any(observer.durable for observer in observers):
            problems.append(self.config.source.error(_UNRECORDED, "audit", "required"))
        chain = Chain(
            observers=observers,
            gives=self._gives,
            store=self._store,
            timeout=settings.limits.chain_timeout / 1000,
            max_payload_bytes=settings.limits.max_payload,
            observer_timeout=settings.audit.timeout / 1000,
            late_sinks=True,
        )
        notes = [OperatorError(warning) for warning in self.selection.warnings]
        for number, instance in enumerate(instances):
            try:
                _refuse_taken_names(instance, instances[:number])
                _add(chain, instance)
                notes += _checked(chain, instance)
            except PluginError as error:
                problems.append(error.with_hint(instance.without))
        notes += [*config_notes(self.config, self.instance_names), *chain_notes(self.config, instances, chain.entries)]
        told = tuple(notes)
        return tuple(problems) if problems else Assembly(chain=chain, instances=tuple(instances), notes=told), told


def assemble(
    *,
    config: Config | Path | None = None,
    plugins: Iterable[str] = (),
    no_plugins: Iterable[str] = (),
    plugin_files: Iterable[Path] = (),
    gives: Iterable[str] = (),
    store: Store | None = None,
    server: str | None = None,
) -> Assembly:
    """Discover, select, load, configure and chain the enabled plugins that are for a server.

    Args:
        config: as of `Builder`, like the next five.
        plugins: see there.
        no_plugins: see there.
        plugin_files: see there.
        gives: see there.
        store: see there.
        server: the server's name; None for every instance, whatever its scope.

    Raises:
        OperatorError: see `Builder` and `Builder.assembly`.
    """
    builder = Builder(
        config=config, plugins=plugins, no_plugins=no_plugins, plugin_files=plugin_files, gives=gives, store=store
    )
    return builder.assembly(server)


def _hinted(error: OperatorError, hint: str) -> OperatorError:
    hinted = [one.with_hint(hint) if isinstance(one, PluginError) else one for one in each_of(error)]
    try:
        raise_all(hinted)
    except OperatorError as told:
        told.__cause__ = error.__cause__
        return told
    raise AssertionError("unreachable")


def _refuse_taken_ids(found: Sequence[PluginInfo], local: Sequence[PluginInfo]) -> None:
    for info in local:
        others = [other for other in found if other.id == info.id and other is not info]
        if others:
            raise info.error(f"its id is that of {others[0].origin} too; rename the file")


def _refuse_taken_names(instance: Instance, earlier: Sequence[Instance]) -> None:
    """Refuse a wire name that an earlier instance has: names that authors gave are not put after the instance's."""
    owners = {one.name: other.name for other in earlier for one in other.interceptors}
    for name in instance.overrides:
        if name in owners:
            problem = f"its interceptor {name!r} has the same name as one of {owners[name]!r}; enable one of the two"
            raise instance.plugin.info.error(problem, instance=instance.name)


def _add(chain: Chain, instance: Instance) -> None:
    try:
        chain.add(*instance.interceptors, overrides=instance.overrides)
    except DefinitionError as error:
        raise instance.plugin.info.error(str(error), instance=instance.name) from error


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
