"""From what the operator asked for to a chain."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midspan.config import Config, load_config
from midspan.errors import PluginError
from midspan.plugins._discovery import discover
from midspan.plugins._file import file_plugin
from midspan.plugins._info import PluginInfo
from midspan.plugins._instance import Instance, build_instance
from midspan.plugins._lifespans import enter_chain, enter_lifespan
from midspan.plugins._loading import load
from midspan.plugins._plugin import Plugin
from midspan.plugins._selection import ChosenInstance, Selection, select
from midspan_sdk import Chain, DefinitionError, Interceptor, Observer, Store

if TYPE_CHECKING:
    from midspan.locking import LockChecks


@dataclass(frozen=True, kw_only=True, slots=True)
class Assembly:
    """The enabled plugins, built into a chain.

    Attributes:
        chain: all entries and observers.
        instances: the plugin instances, in order of selection.
        warnings: one line each, for stderr.
    """

    chain: Chain
    instances: tuple[Instance, ...]
    warnings: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing acts on messages and nothing observes them."""
        return not self.chain.entries and not any(instance.observers for instance in self.instances)

    @property
    def interceptors(self) -> tuple[Interceptor[..., Any], ...]:
        """All interceptors under their wire names, with config and lifespan bound."""
        return tuple(one for instance in self.instances for one in instance.interceptors)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Chain]:
        """Enter all lifespans in order, then the chain; leave in reverse, so that the chain drains first.

        Put no cancelled scope around this block: plugins close their connections while it is left. An error of the
        block itself leaves it as it is, not wrapped in the groups of whatever tasks ran meanwhile.

        Raises:
            PluginError: a lifespan could not be entered; those before it are left.
        """
        failure = None
        async with AsyncExitStack() as stack:
            try:
                for instance in self.instances:
                    await enter_lifespan(stack, instance)
            except PluginError as error:
                failure = error
            else:
                await enter_chain(stack, self.chain)
                yield self.chain
        if failure is not None:
            raise failure


def assemble(
    *,
    config: Config | Path | None = None,
    plugins: Iterable[str] = (),
    no_plugins: Iterable[str] = (),
    plugin_files: Iterable[Path] = (),
    gives: Iterable[str] = (),
    store: Store | None = None,
    locked: LockChecks | None = None,
) -> Assembly:
    """Discover, select, load, configure and chain the enabled plugins. Imports no other.

    Args:
        config: a config that was read, or the file to read; None looks where the user keeps it.
        plugins: enabled for this run (`--plugin`): names of tables, or plugin ids.
        no_plugins: never imported (`--no-plugin`), whatever else is said.
        plugin_files: local Python files, each run as a plugin that is enabled (`--plugin-file`).
        gives: what handlers may need of the mount, of `session`, `store`, `tools`, `ask`.
        store: where `store` keeps its values.
        locked: is told what is to run before any plugin is imported, and what was built; a lock refuses what differs
            from it. Plugins are then imported from source, never from bytecode.

    Raises:
        OperatorError: what the operator asked for cannot be done: an unknown or unusable plugin, a wrong config, a
            need that the mount cannot give. A guard never vanishes silently.
    """
    config = config if isinstance(config, Config) else load_config(config)
    local = [file_plugin(path) for path in plugin_files]
    found = [*discover(), *local]
    _refuse_taken_ids(found, local)
    wanted = [*plugins, *(info.id for info in local)]
    selection = select(found, config.tables, enable=wanted, block=no_plugins)
    if locked is not None:
        locked.check_distributions(_contenders(selection))
    for problem in selection.problems:
        raise problem
    with _imports(locked):
        assembly = _built(selection, config, gives, store)
        if locked is not None:
            from midspan.locking import ANY_SERVER, BuiltChain

            chain = BuiltChain(entries=assembly.chain.entries, instances=assembly.instances)
            locked.check_chains({ANY_SERVER: chain})
    return assembly


def _contenders(selection: Selection) -> list[PluginInfo]:
    """Return the plugins that are to run, and all that contend for an id that is to run."""
    chosen = {one.plugin.id: one.plugin for one in selection.instances}
    contested = {problem.plugin for problem in selection.problems if isinstance(problem, PluginError)}
    others = [info for info in selection.plugins if info.id in contested and info.id not in chosen]
    return [*chosen.values(), *others]


def _imports(locked: LockChecks | None) -> AbstractContextManager[None]:
    if locked is None:
        return nullcontext()
    from midspan.locking import locked_imports

    return locked_imports()


def _built(selection: Selection, config: Config, gives: Iterable[str], store: Store | None) -> Assembly:
    loaded: dict[str, Plugin] = {}
    instances = [_instance(chosen, loaded, config) for chosen in selection.instances]
    chain = Chain(observers=_observers(instances), gives=gives, store=store, late_sinks=True)
    warnings = list(selection.warnings)
    for number, instance in enumerate(instances):
        try:
            _refuse_taken_names(instance, instances[:number])
            _add(chain, instance)
            warnings += _checked(chain, instance)
        except PluginError as error:
            raise error.with_hint(instance.without) from error
    return Assembly(chain=chain, instances=tuple(instances), warnings=tuple(warnings))


def _refuse_taken_ids(found: Sequence[PluginInfo], local: Sequence[PluginInfo]) -> None:
    for info in local:
        others = [other for other in found if other.id == info.id and other is not info]
        if others:
            raise info.error(f"its id is that of {others[0].origin} too; rename the file")


def _instance(chosen: ChosenInstance, loaded: dict[str, Plugin], config: Config) -> Instance:
    try:
        plugin = loaded.get(chosen.plugin.id) or load(chosen.plugin)
        loaded[chosen.plugin.id] = plugin
        return build_instance(plugin, chosen, config)
    except PluginError as error:
        raise error.with_hint(chosen.without) from error


def _observers(instances: Sequence[Instance]) -> list[Observer]:
    return [observer for instance in instances for observer in instance.observers]


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


def _checked(chain: Chain, instance: Instance) -> list[str]:
    names = {one.name for one in instance.interceptors}
    entries = [entry for entry in chain.entries if entry.name in names]
    problems = instance.plugin.problems(instance.config, instance.name, entries)
    lines = [
        (problem.severity, f"{problem.interceptor}: {problem.message}" if problem.interceptor else problem.message)
        for problem in problems
    ]
    if errors := [line for severity, line in lines if severity == "error"]:
        raise instance.plugin.info.error("; ".join(errors), instance=instance.name)
    return [str(instance.plugin.info.error(line, instance=instance.name)) for _, line in lines]
