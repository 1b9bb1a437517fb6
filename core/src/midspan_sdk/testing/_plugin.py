"""A plugin as a host sees it: behind pluggy, with the config of one instance."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final, cast

import pluggy
from pydantic import BaseModel

from midspan_sdk import hookspecs
from midspan_sdk._authoring import Bindings, Interceptor, interceptors_of
from midspan_sdk._chain import Chain
from midspan_sdk._entries import InterceptorOverrides
from midspan_sdk._observers import Observer
from midspan_sdk._store import Store
from midspan_sdk.testing._answers import Answers, asker_of

_HOOKS: Final = tuple(name for name in hookspecs.__all__ if name.startswith("midspan_"))
EVERY_NEED: Final = ("ask", "session", "store", "tools")


def interceptors_from(
    plugin: object,
    *,
    config: BaseModel | Mapping[str, Any] | None = None,
    instance: str = "test",
    lifespan: object = None,
) -> list[Interceptor[..., Any]]:
    """Build the interceptors of a plugin as a host does.

    They get their wire names (`<instance>.<function>` unless a name was given), the config and the lifespan.

    Args:
        plugin: what the entry point names: a module or an instance, with functions marked `@hookimpl`.
        config: the `[plugins.<name>.config]` table, or the model itself. None is an empty table.
        instance: the name of the config table.
        lifespan: what handlers get as `lifespan`; `midspan_lifespan` is not entered.

    Raises:
        AssertionError: a hook is unknown, asynchronous, a wrapper or takes an unknown argument; or the plugin has no
            config model and `config` is not empty.
        pydantic.ValidationError: the config does not fit the plugin's model.
        DefinitionError: a contribution is no interceptor, or two have one name.
    """
    return Plugin(plugin, config, instance).interceptors(lifespan)


def chain_with(
    plugin: object,
    *,
    config: BaseModel | Mapping[str, Any] | None = None,
    instance: str = "test",
    lifespan: object = None,
    overrides: Mapping[str, InterceptorOverrides | dict[str, Any]] | None = None,
    observers: Iterable[Observer] | None = None,
    store: Store | None = None,
    answers: Answers | None = None,
) -> Chain:
    """Build a chain of one plugin: its interceptors and its observers. More can be added with `Chain.add`.

    Use it as `async with chain_with(plugin) as chain: await chain.execute(...)`.

    Args:
        plugin: a module or an instance, as in `interceptors_from`.
        config: its config table, or the model itself.
        instance: the name of the config table.
        lifespan: what handlers get as `lifespan`.
        overrides: policy by interceptor name.
        observers: take decision records; None are those that the plugin contributes.
        store: where handlers' `store` keeps its values; in memory by default.
        answers: what the user answers: a mapping from question to answer, or a function of the question and its schema.
            An answer is what is filled in, or `True` for a yes; `False` and None decline. A question without an answer
            fails its handler. By default nobody can be asked.

    Raises:
        UnmetNeedError: an interceptor needs `tools`, which only a host can give; or `ask`, and there are no answers.

    Beside these, raises what `interceptors_from` does.
    """
    wrapped = Plugin(plugin, config, instance)
    chain = Chain(observers=wrapped.observers() if observers is None else observers, store=store, ask=asker_of(answers))
    chain.add(*wrapped.interceptors(lifespan), overrides=overrides)
    return chain


class Plugin:
    """A plugin behind pluggy, with one instance's config."""

    def __init__(self, plugin: object, config: BaseModel | Mapping[str, Any] | None, instance: str) -> None:
        if problems := hook_problems(plugin):
            raise AssertionError(problems[0])
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        try:
            self._manager.register(plugin)
        except pluggy.PluginValidationError as error:
            raise AssertionError(str(error)) from error
        self.instance = instance
        self.model = cast("type[BaseModel] | None", self._one("midspan_config"))
        if self.model is None:
            assert not config, f"{name_of(plugin)} has no config model, so its config must be empty"
            self.config = None
        else:
            given = config if isinstance(config, BaseModel) else dict(config or {})
            self.config = self.model.model_validate(given)

    def has(self, hook: str) -> bool:
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def _one(self, hook: str, **arguments: Any) -> Any:
        return next(iter(getattr(self._manager.hook, hook)(**arguments)), None)

    def call(self, hook: str, **arguments: Any) -> Any:
        return self._one(hook, config=self.config, instance=self.instance, **arguments)

    def commands(self) -> list[object]:
        return list(self._one("midspan_commands") or ())

    def interceptors(self, lifespan: object = None) -> list[Interceptor[..., Any]]:
        bindings = Bindings(self.config, lifespan)
        contributions = self.call("midspan_interceptors") or ()
        built = [
            one.bound(
                name=None if one.explicit_name else f"{self.instance}.{one.name}",
                group=self.instance,
                bindings=bindings,
                config_model=self.model,
            )
            for contribution in contributions
            for one in interceptors_of(contribution)
        ]
        Chain(gives=EVERY_NEED).add(*built)  # refuses two of one name
        return built

    def observers(self) -> list[Observer]:
        return list(self.call("midspan_observers") or ())

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[object]:
        manager = self.call("midspan_lifespan")
        if manager is None:
            yield None
        else:
            async with manager as value:
                yield value


def name_of(plugin: object) -> str:
    return plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__name__


def hook_problems(plugin: object) -> list[str]:
    found: list[str] = []
    for name in dir(plugin):
        marked = _is_marked(plugin, name)
        if not marked and not (name.startswith("midspan_") and inspect.isroutine(getattr(plugin, name))):
            continue
        where = f"hook {name}"
        hook = getattr(plugin, name)
        if name not in _HOOKS:
            found.append(f"{where}: unknown; the hooks are {', '.join(_HOOKS)}")
        elif not marked:
            found.append(f"{where}: is not marked with @hookimpl, so that no host calls it")
        else:
            found += [f"{where}: {problem}" for problem in _shape_problems(hook, getattr(hookspecs, name))]
            options = getattr(hook, f"{hookspecs.PROJECT}_impl")
            if options["wrapper"] or options["hookwrapper"]:
                found.append(f"{where}: must not be a wrapper; each plugin contributes for itself")
    return found


def _is_marked(plugin: object, name: str) -> bool:
    return isinstance(getattr(getattr(plugin, name, None), f"{hookspecs.PROJECT}_impl", None), Mapping)


def _shape_problems(hook: Callable[..., Any], specification: Callable[..., Any]) -> list[str]:
    if inspect.iscoroutinefunction(hook) or inspect.isasyncgenfunction(hook) or inspect.isgeneratorfunction(hook):
        return ["must be a plain function; put async work into the interceptors it returns"]
    known = inspect.signature(specification).parameters
    return [
        f"takes {argument!r}; it may take {', '.join(known) or 'nothing'}"
        for argument in inspect.signature(hook).parameters
        if argument not in known
    ]
