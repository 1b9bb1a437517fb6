"""Which plugins run: what is installed, what the config says, what the command line says.

Installed is not enabled: no dependency of a dependency gets onto the wire by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from midspan.config import ConfigSource, PluginTable
from midspan.errors import OperatorError, PluginError, did_you_mean
from midspan.plugins._compatibility import canonical
from midspan.plugins._info import PluginInfo

NO_TABLE = PluginTable()


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenInstance:
    """A plugin instance that is to run.

    Attributes:
        name: its config table's name, or the plugin's id when it has no table.
        plugin: the plugin.
        without: how to start without it, half a sentence for errors.
        servers: the servers that it is for, names or globs; None for all.
    """

    name: str
    plugin: PluginInfo
    without: str
    servers: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedInstance:
    """A plugin instance that is to run and has no plugin that could.

    Attributes:
        name: its config table's name, or the plugin's id.
        problem: why.
        servers: as of `ChosenInstance`.
    """

    name: str
    problem: OperatorError
    servers: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What was decided.

    Attributes:
        plugins: all plugins, each in its state.
        instances: those that are to run, in order: tables as in the file, then `--plugin`.
        refused: those that are to run and cannot.
        problems: what stops a start for every server.
        warnings: what the operator may have meant otherwise.
    """

    plugins: tuple[PluginInfo, ...]
    instances: tuple[ChosenInstance, ...]
    refused: tuple[RefusedInstance, ...]
    problems: tuple[OperatorError, ...]
    warnings: tuple[str, ...]

    @property
    def wanted(self) -> tuple[ChosenInstance | RefusedInstance, ...]:
        """All instances that are to run, those that can first."""
        return (*self.instances, *self.refused)

    @property
    def all_problems(self) -> tuple[OperatorError, ...]:
        """What stops a start for every server, or for some."""
        return (*self.problems, *(one.problem for one in self.refused))


def select(
    found: Sequence[PluginInfo],
    tables: Mapping[str, PluginTable],
    *,
    enable: Iterable[str] = (),
    block: Iterable[str] = (),
    source: ConfigSource | None = None,
) -> Selection:
    """Decide which plugins run.

    Args:
        found: the installed plugins, and plugin files.
        tables: the config's plugin tables.
        enable: for this run (`--plugin`): the name of a table, else the id of a plugin, which enables all tables of
            that plugin, or runs it with an empty config when it has none.
        block: never to be imported (`--no-plugin`), whatever else is said: ids and names of tables.
        source: the file that the tables stand in, for errors.
    """
    return _Decision(found, tables, tuple(dict.fromkeys(enable)), tuple(dict.fromkeys(block)), source).selection()


def owner_of(found: Sequence[PluginInfo], tables: Mapping[str, PluginTable], plugin: str) -> PluginInfo:
    """Return the plugin that an id means.

    Raises:
        PluginError: nobody, or more than one distribution, owns the id; the owner is not the one that the config pins;
            or it cannot be loaded.
    """
    return _Decision(found, tables, (), ()).owner(plugin)


class _Decision:
    def __init__(
        self,
        found: Sequence[PluginInfo],
        tables: Mapping[str, PluginTable],
        enable: tuple[str, ...],
        block: tuple[str, ...],
        source: ConfigSource | None = None,
    ) -> None:
        self._found = found
        self._tables = tables
        self._enable = enable
        self._block = block
        self._source = source
        self._ids = {info.id for info in found}

    def _plugin_of(self, instance: str) -> str:
        return self._tables.get(instance, NO_TABLE).use or instance

    def _is_blocked(self, instance: str) -> bool:
        return instance in self._block or self._plugin_of(instance) in self._block

    def selection(self) -> Selection:
        wanted = [name for name in self._wanted() if not self._is_blocked(name)]
        instances: list[ChosenInstance] = []
        refused: list[RefusedInstance] = []
        for name in wanted:
            servers = self._tables.get(name, NO_TABLE).servers
            try:
                owner = self.owner(self._plugin_of(name))
            except PluginError as error:
                problem = self._located(error, name).with_hint(self._without(name))
                refused.append(RefusedInstance(name=name, problem=problem, servers=servers))
            else:
                without = self._without(name, owner)
                instances.append(ChosenInstance(name=name, plugin=owner, without=without, servers=servers))
        return Selection(
            plugins=tuple(self._in_state(info, wanted) for info in self._found),
            instances=tuple(instances),
            refused=tuple(refused),
            problems=tuple(self._unknown_blocks()),
            warnings=tuple(self._warnings(wanted)),
        )

    def _located(self, error: PluginError, instance: str) -> PluginError:
        """Say where in the file the table is that asks for a plugin."""
        table = self._tables.get(instance)
        if table is None or self._source is None:
            return error
        keys = ("plugins", instance)
        if table.distribution is not None and self._plugin_of(instance) in self._ids:
            keys = (*keys, "distribution")
        elif table.use is not None:
            keys = (*keys, "use")
        located = self._source.error(error.problem, *keys)
        named = error.problem if error.origin is None else f"{error.origin}: {error.problem}"
        return error.with_problem(str(located), place=self._source.error(named, *keys))

    def _wanted(self) -> list[str]:
        names = [name for name, table in self._tables.items() if table.enabled]
        for name in self._enable:
            if name in self._tables:
                names.append(name)
            else:
                users = [table for table in self._tables if self._plugin_of(table) == name]
                names.extend(users or [name])
        return list(dict.fromkeys(names))

    def _unknown_blocks(self) -> Iterable[OperatorError]:
        # A mistyped block would leave on what the operator wants off.
        known = self._ids | self._tables.keys()
        for name in self._block:
            if name not in known:
                yield OperatorError(f"--no-plugin {name}: no plugin has that name{did_you_mean(name, known)}")

    def _without(self, instance: str, plugin: PluginInfo | None = None) -> str:
        if plugin is not None and plugin.file is not None:
            return "to start without it, leave out --plugin-file"
        table = (
            f", or `enabled = false` in [plugins.{instance}]" if self._tables.get(instance, NO_TABLE).enabled else ""
        )
        return f"to start without it: --no-plugin {instance}{table}"

    def owner(self, plugin: str) -> PluginInfo:
        candidates = [info for info in self._found if info.id == plugin]
        if not candidates:
            raise PluginError(plugin, f"no installed plugin has this id{self._where_to_get(plugin)}")
        pin = self._pin(plugin)
        owners = candidates if pin is None else [info for info in candidates if _brought_by(info, pin)]
        if not owners:
            others = " and ".join(info.origin for info in candidates)
            raise PluginError(plugin, f"the config pins it to {pin}, but it is brought by {others}")
        if len(owners) > 1:
            raise PluginError(plugin, _duplicates(owners, plugin))
        if owners[0].state in ("broken", "incompatible"):
            raise owners[0].error(owners[0].reason or owners[0].state)
        return owners[0]

    def _where_to_get(self, plugin: str) -> str:
        known = self._ids | self._tables.keys()
        return (
            did_you_mean(plugin, known - {plugin})
            or f"; `midspan plugins install midspan-{plugin}` if there is such a package"
        )

    def _pin(self, plugin: str) -> str | None:
        pins = {
            canonical(table.distribution): table.distribution
            for name, table in self._tables.items()
            if table.distribution and self._plugin_of(name) == plugin
        }
        if len(pins) > 1:
            raise PluginError(plugin, f"the config pins it to {' and to '.join(sorted(pins.values()))}; pin it once")
        return next(iter(pins.values()), None)

    def _in_state(self, info: PluginInfo, wanted: Sequence[str]) -> PluginInfo:
        if info.state != "available":
            return info
        if contested := self._contested(info):
            return info.in_state("duplicate", contested)
        running = [name for name in wanted if self._plugin_of(name) == info.id]
        if running:
            return info.in_state("enabled", None if running == [info.id] else f"as {', '.join(running)}")
        tables = [name for name in self._tables if self._plugin_of(name) == info.id]
        if blocked := [name for name in self._block if name == info.id or name in tables]:
            return info.in_state("blocked", f"--no-plugin {blocked[0]}")
        if tables:
            return info.in_state(
                "disabled", f"no `enabled = true` in {', '.join(f'[plugins.{name}]' for name in tables)}"
            )
        return info

    def _contested(self, info: PluginInfo) -> str | None:
        rivals = [other for other in self._found if other.id == info.id and other is not info]
        try:
            pin = self._pin(info.id)
        except PluginError as error:
            return error.problem
        if pin is not None and not _brought_by(info, pin):
            return f"the config pins this id to {pin}"
        rivals = [other for other in rivals if pin is None or _brought_by(other, pin)]
        return _duplicates([info, *rivals], info.id) if rivals else None

    def _warnings(self, wanted: Sequence[str]) -> Iterable[str]:
        for name, table in self._tables.items():
            if table.enabled is None and name not in wanted and not self._is_blocked(name):
                yield f"[plugins.{name}] does not say `enabled = true`: it is off"


def _brought_by(info: PluginInfo, distribution: str) -> bool:
    return info.distribution is not None and canonical(info.distribution) == canonical(distribution)


def _duplicates(owners: Sequence[PluginInfo], plugin: str) -> str:
    names = sorted({info.origin for info in owners})
    if len(names) == 1:
        return f"{names[0]} declares this id {len(owners)} times; its author has to choose one"
    installed = [info for info in owners if info.distribution is not None]
    if len(installed) < len(owners):
        return f"{' and '.join(names)} have the same id; rename the file"
    pin = f'`distribution = "{installed[0].distribution}"` in [plugins.{plugin}]'
    return f"{' and '.join(names)} bring the same id; uninstall one, or choose with {pin}"
