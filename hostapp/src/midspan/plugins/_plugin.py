"""A loaded plugin, as the rest of the host sees it: typed hooks, each checked for what it returned."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from pydantic import BaseModel

from midspan.plugins._hookchecks import is_function
from midspan.plugins._info import PluginInfo
from midspan.plugins._manager import Hooks
from midspan_sdk import ChainEntry, Command, DefinitionError, Interceptor, Observer, Problem, interceptors_of


class Plugin:
    """A plugin that was imported and whose hooks are acceptable.

    Every method raises `PluginError` when the plugin raises, or returns what the hook may not return.

    Attributes:
        info: who it is.
    """

    def __init__(self, info: PluginInfo, loaded: object) -> None:
        self.info = info
        self._hooks = Hooks(info, loaded)

    def config_model(self) -> type[BaseModel] | None:
        """Return the model of its config table, or None when it has no config."""
        if "midspan_config" not in self._hooks:
            return None
        model = self._hooks.call("midspan_config")
        if model is None or (inspect.isclass(model) and issubclass(model, BaseModel)):
            return model
        hint = "return the class itself" if isinstance(model, BaseModel) else "return a pydantic model class, or None"
        raise self.info.error(f"midspan_config returned {_what(model)}; {hint}")

    def interceptors(self, config: BaseModel | None, instance: str) -> list[Interceptor[..., Any]]:
        """Return what it contributes to one instance, under the names that its author gave."""
        contributions = self._list("midspan_interceptors", "interceptors", config=config, instance=instance)
        found: list[Interceptor[..., Any]] = []
        for contribution in contributions:
            if problem := _no_contribution(contribution):
                raise self.info.error(f"midspan_interceptors returned {problem}", instance=instance)
            try:
                found.extend(interceptors_of(contribution))
            except DefinitionError as error:
                raise self.info.error(f"midspan_interceptors: {error}", instance=instance) from error
        return found

    def observers(self, config: BaseModel | None, instance: str) -> list[Observer]:
        """Return the observers of one instance."""
        observers = self._list("midspan_observers", "observers", config=config, instance=instance)
        for observer in observers:
            if problem := _no_observer(observer):
                raise self.info.error(f"midspan_observers returned {problem}", instance=instance)
        return cast("list[Observer]", observers)

    def lifespan(self, config: BaseModel | None, instance: str) -> AbstractAsyncContextManager[Any] | None:
        """Return the lifespan of one instance, not entered, or None when it has none."""
        if "midspan_lifespan" not in self._hooks:
            return None
        manager = self._hooks.call("midspan_lifespan", config=config, instance=instance)
        if isinstance(manager, AbstractAsyncContextManager):
            return cast("AbstractAsyncContextManager[Any]", manager)
        raise self.info.error(
            f"midspan_lifespan returned {_what(manager)}; return an async context manager", instance=instance
        )

    def problems(self, config: BaseModel | None, instance: str, entries: Sequence[ChainEntry]) -> list[Problem]:
        """Return what the plugin finds wrong with one instance as it is configured."""
        given = tuple(entries)
        problems = self._list("midspan_checks", "problems", config=config, instance=instance, entries=given)
        return [self._of(Problem, problem, "midspan_checks", instance) for problem in problems]

    def commands(self) -> list[Command]:
        """Return its sub-commands of `midspan <id>`."""
        commands = self._list("midspan_commands", "commands")
        return [self._of(Command, command, "midspan_commands", None) for command in commands]

    @property
    def has_resolvers(self) -> bool:
        """Whether it wants to name further interceptor servers."""
        return "midspan_resolvers" in self._hooks

    def _list(self, hook: str, things: str, **arguments: Any) -> list[object]:
        if hook not in self._hooks:
            return []
        result = self._hooks.call(hook, **arguments)
        if isinstance(result, list | tuple):
            return list(cast("Sequence[object]", result))
        problem = f"{hook} returned {_what(result)}; return a list of {things}"
        raise self.info.error(problem, instance=arguments.get("instance"))

    def _of(self, kind: type[Any], value: object, hook: str, instance: str | None) -> Any:
        if isinstance(value, kind):
            return value
        raise self.info.error(
            f"{hook} returned a list with {_what(value)} in it; list midspan_sdk.{kind.__name__} only",
            instance=instance,
        )


def _what(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, Interceptor):
        return f"the interceptor {cast('Interceptor[..., Any]', value).name!r} itself"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if is_function(value):
        return f"the function {value.__name__!r}"
    return f"an object of type {type(value).__name__}"


def _no_contribution(value: object) -> str | None:
    """Say why a member of the list cannot be an interceptor, where the SDK's own words would not help."""
    inside = f"a list with {_what(value)} in it"
    if inspect.isclass(value):
        return f"{inside}; put an instance of it there"
    if is_function(value):
        return f"{inside}; decorate it with @validator, @mutator or @sink"
    if value is None or isinstance(value, str | bytes | int | list | tuple | dict):
        return f"{inside}; list interceptors, or objects with decorated methods"
    return None


def _no_observer(value: object) -> str | None:
    inside = f"a list with {_what(value)} in it"
    if inspect.isclass(value):
        return f"{inside}; put an instance of it there"
    if not isinstance(value, Observer):
        return f"{inside}; an observer has `name`, `durable` and `async def observe(record)`"
    if not (isinstance(value.name, str) and value.name):  # pyright: ignore[reportUnnecessaryIsInstance] - a plugin's word
        return f"{inside}, whose name is not a text; give it one"
    if not inspect.iscoroutinefunction(value.observe):
        return f"{inside}, whose observe is no `async def`; make it one"
    return None
