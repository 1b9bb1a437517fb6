"""From what the operator asked for to a chain for each server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from midspan.checking import chain_notes, config_notes
from midspan.config import Config, in_scope, load_config
from midspan.errors import OperatorError, PluginError, each_of, raise_all
from midspan.plugins._assembly import Assembly
from midspan.plugins._discovery import discover
from midspan.plugins._file import file_plugin
from midspan.plugins._info import PluginInfo
from midspan.plugins._instance import Instance, build_instance, changed_instances
from midspan.plugins._loading import load
from midspan.plugins._plugin import Plugin
from midspan.plugins._registering import register
from midspan.plugins._remotes import Remote, remote_of
from midspan.plugins._selection import ChosenInstance, RefusedInstance, Selection, select
from midspan_sdk import Chain, MemoryStore, Store

if TYPE_CHECKING:
    from midspan.locking import LockChecks

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
        before: the builder whose chains run, and whose place this one takes: its store, and the plugins that it has
            imported, whose code stays as it is until midspan is started anew.
        locked: is told what is to run before any plugin is imported, and what was built; a lock refuses what differs
            from it. Plugins are then imported from source, never from bytecode.
        remotes: whether interceptor servers join the chains; a mount that only serves interceptors has no use for them.

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
        before: Builder | None = None,
        locked: LockChecks | None = None,
        remotes: bool = True,
    ) -> None:
        self.config = config if isinstance(config, Config) else load_config(config)
        local = [file_plugin(path) for path in plugin_files]
        found = [*discover(), *local]
        _refuse_taken_ids(found, local)
        wanted = [*plugins, *(info.id for info in local)]
        self.blocked = tuple(no_plugins)
        self.selection: Selection = select(
            found, self.config.tables, enable=wanted, block=self.blocked, source=self.config.source
        )
        self._gives = tuple(gives)
        self._locked = locked
        self._verified = locked is None
        self._store = store or (MemoryStore() if before is None else before._store)
        self._plugins: dict[str, Plugin | PluginError] = {}
        self._imported: dict[str, Plugin] = {} if before is None else before._all_imported()
        self._instances: dict[str, Instance | OperatorError] = {}
        tables = self.config.settings.interceptor_servers if remotes else {}
        self._remote_tables = {name: table for name, table in tables.items() if table.enabled}
        self._remotes: dict[str, Remote | OperatorError] = {}
        self._assemblies: dict[tuple[object, ...], _Built] = {}

    @property
    def instance_names(self) -> tuple[str, ...]:
        """Names of all instances that are to run, in order."""
        return tuple(one.name for one in self.selection.wanted)

    def assembly(self, server: str | None = None, *, after: Assembly | None = None) -> Assembly:
        """Return the chain in front of a server, built when it is first asked for.

        Args:
            server: its name; None for a mount that guards no server, which gets every instance and every interceptor
                server, whatever its scope.
            after: what is in front of it, and whose place this one takes: instances whose plugin and config are the
                same go on with its sessions.

        Raises:
            OperatorError: what the operator asked for cannot be done: an unknown or unusable plugin, a wrong config, a
                need that the mount cannot give. Several such are `ProblemsError`. A guard never vanishes silently.
        """
        built, _ = self._for(server, after)
        if not isinstance(built, Assembly):
            raise_all(built)
            raise AssertionError("unreachable")
        if self._locked is not None:
            from midspan.locking import BuiltChain

            chain = BuiltChain(entries=built.chain.entries, instances=built.instances)
            self._locked.check_chains({self._locked_as(server): chain})
        return built

    def notes(self, server: str | None = None) -> tuple[OperatorError, ...]:
        """Return what the operator may have meant otherwise, also where the chain in front of the server is refused.

        Args:
            server: as of `assembly`.
        """
        return self._for(server)[1]

    def _for(self, server: str | None, after: Assembly | None = None) -> _Built:
        chosen = [one for one in self.selection.instances if server is None or in_scope(server, one.servers)]
        refused = [one for one in self.selection.refused if server is None or in_scope(server, one.servers)]
        tables = self._remote_tables.items()
        remotes = [name for name, table in tables if server is None or in_scope(server, table.servers)]
        key = (after, server is None, tuple(one.name for one in (*chosen, *refused)), tuple(remotes))
        built = self._assemblies.get(key)
        if built is None:
            self._verify()
            with self._imports():
                built = self._assemblies[key] = self._built(chosen, refused, remotes, after, records=server is not None)
        return built

    # The lock

    def _verify(self) -> None:
        """Have the lock look at what is to run, once, before any of it is imported."""
        if not self._verified and self._locked is not None:
            self._locked.check_distributions(_contenders(self.selection))
        self._verified = True

    def _imports(self) -> AbstractContextManager[None]:
        if self._locked is None:
            return nullcontext()
        from midspan.locking import locked_imports

        return locked_imports()

    def _locked_as(self, server: str | None) -> str:
        """Return the name under which the lock has the chain of a server."""
        from midspan.locking import ANY_SERVER, EVERY_PLUGIN

        scopes = [one.servers for one in self.selection.wanted if one.servers]
        if server is None:
            return EVERY_PLUGIN if scopes else ANY_SERVER
        if server in self.config.servers or any(in_scope(server, scope) for scope in scopes):
            return server
        return ANY_SERVER

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

    def remote(self, name: str) -> Remote:
        """Return an interceptor server of the config, read when it is first asked for. Contacts nothing.

        Raises:
            ConfigError: what its table refers to is not there.
        """
        found = self._remotes.get(name)
        if found is None:
            try:
                found = remote_of(name, self.config)
            except OperatorError as error:
                found = error
            self._remotes[name] = found
        if isinstance(found, OperatorError):
            raise found
        return found

    def _plugin(self, info: PluginInfo) -> Plugin:
        loaded = self._plugins.get(info.id)
        if loaded is None:
            try:
                loaded = self._imported_before(info) or load(info)
            except PluginError as error:
                loaded = error
            self._plugins[info.id] = loaded
        if isinstance(loaded, PluginError):
            raise loaded
        return loaded

    @cached_property
    def _unmet(self) -> list[OperatorError]:
        """What is wrong with the distributions that the config requires."""
        required = self.config.settings.requires
        if not required:
            return []
        from midspan.installing import unmet_requirements

        return [self.config.source.error(one.problem, "requires", one.index) for one in unmet_requirements(required)]

    @cached_property
    def _config_notes(self) -> list[OperatorError]:
        """What the operator may have meant otherwise, whatever the server."""
        return list(config_notes(self.config, self.instance_names))

    def _all_imported(self) -> dict[str, Plugin]:
        now = {plugin: one for plugin, one in self._plugins.items() if isinstance(one, Plugin)}
        return {**self._imported, **now}

    def _imported_before(self, info: PluginInfo) -> Plugin | None:
        plugin = self._imported.get(info.id)
        if plugin is not None and plugin.info.origin != info.origin:
            raise info.error(f"{plugin.info.origin} is what runs; start midspan anew to take this one")
        return plugin

    def _built(
        self,
        chosen: Sequence[ChosenInstance],
        refused: Sequence[RefusedInstance],
        remote_names: Sequence[str],
        after: Assembly | None,
        *,
        records: bool,
    ) -> _Built:
        problems = [*self._unmet, *self.selection.problems, *(one.problem for one in refused)]
        instances: list[Instance] = []
        for one in chosen:
            try:
                instances.append(self.instance(one))
            except OperatorError as error:
                problems += each_of(error)
        remotes: list[Remote] = []
        for name in remote_names:
            try:
                remotes.append(self.remote(name))
            except OperatorError as error:
                problems += each_of(error)
        observers = [observer for instance in instances for observer in instance.observers]
        settings = self.config.settings
        if records and settings.audit.required and not any(observer.durable for observer in observers):
            problems.append(self.config.source.error(_UNRECORDED, "audit", "required"))
        chain = Chain(
            observers=observers,
            gives=self._gives,
            store=self._store,
            timeout=settings.limits.chain_timeout / 1000,
            max_payload_bytes=settings.limits.max_payload,
            observer_timeout=settings.audit.timeout / 1000,
            late_sinks=True,
            succeeding=None if after is None else after.chain,
            fresh=() if after is None else changed_instances(instances, after.instances),
        )
        notes = [OperatorError(warning) for warning in self.selection.warnings]
        for number, instance in enumerate(instances):
            try:
                notes += register(chain, instance, instances[:number], self.config)
            except PluginError as error:
                problems.append(error.with_hint(instance.without))
        notes += [*self._config_notes, *chain_notes(self.config, instances, chain.entries)]
        told = tuple(notes)
        if problems:
            return tuple(problems), told
        return Assembly(chain=chain, instances=tuple(instances), notes=told, remotes=tuple(remotes)), told


def _contenders(selection: Selection) -> list[PluginInfo]:
    """Return the plugins that are to run, and all that contend for an id that is to run."""
    chosen = {one.plugin.id: one.plugin for one in selection.instances}
    contested = {one.problem.plugin for one in selection.refused if isinstance(one.problem, PluginError)}
    others = [info for info in selection.plugins if info.id in contested and info.id not in chosen]
    return [*chosen.values(), *others]


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
