"""The one module that touches `pluggy.PluginManager`.

Each plugin has a manager of its own. So one implementation is called at a time, and the plugin's name stays with what
it contributed; nothing that a plugin registers can reach another one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import pluggy

from midspan.plugins._causes import cause_of
from midspan.plugins._hookchecks import (
    PREFIX,
    async_sentence,
    function_problem,
    options_problem,
    unknown,
    unmarked_problem,
)
from midspan.plugins._info import PluginInfo
from midspan_sdk import hookspecs


class Hooks:
    """The hooks that one plugin implements.

    Args:
        info: the plugin.
        plugin: the module or instance that its entry point names.

    Raises:
        PluginError: a hook is unknown, not marked, async, a wrapper, or takes what it will not be given; or there is
            none at all.
    """

    def __init__(self, info: PluginInfo, plugin: object) -> None:
        self.info = info
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        known = _specified(self._manager)
        self._check(plugin, known)
        try:
            self._manager.register(plugin, name=info.id)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, TypeError, ValueError) as error:
            raise info.error(f"its hooks cannot be registered: {error}") from error
        self._implemented = {name for name in known if getattr(self._manager.hook, name).get_hookimpls()}
        if not self._implemented:
            raise info.error("implements no hook; mark one, such as midspan_interceptors, with @hookimpl")

    def __contains__(self, hook: object) -> bool:
        """Tell whether the plugin implements a hook."""
        return hook in self._implemented

    def call(self, hook: str, **arguments: Any) -> object:
        """Call one hook, with the arguments that its implementation names.

        What the plugin prints goes to stderr: stdout may be a protocol's.

        Args:
            hook: its name; it must be implemented.
            arguments: all that its specification has; `instance` is named in errors.

        Returns:
            What the plugin returned, None included.

        Raises:
            PluginError: it raised, or what it returned would have to be awaited.
        """
        caller: Callable[..., list[object]] = getattr(self._manager.hook, hook)
        instance: str | None = arguments.get("instance")
        try:
            with redirect_stdout(sys.stderr):
                results = caller(**arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # A plugin may raise anything, SystemExit included; it must not end the host in silence.
            raise self.info.error(f"{hook} raised {cause_of(error)}", instance=instance) from error
        # pluggy leaves None out of the results.
        result = results[0] if results else None
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise self.info.error(async_sentence(hook), instance=instance)
        return result

    def _check(self, plugin: object, known: dict[str, tuple[str, ...]]) -> None:
        implemented: set[str] = set()
        for name in dir(plugin):
            options = self._manager.parse_hookimpl_opts(plugin, name)
            if options is None:
                if name.startswith(PREFIX) and (problem := unmarked_problem(name, _attribute(plugin, name), known)):
                    raise self.info.error(problem)
                continue
            hook = options.get("specname") or name
            if hook not in known:
                if options.get("optionalhook"):
                    continue
                raise self.info.error(unknown(hook, known))
            problem = options_problem(hook, options) or function_problem(hook, getattr(plugin, name), known[hook])
            if problem is None and hook in implemented:
                problem = f"{hook} is implemented twice; keep one"
            if problem is not None:
                raise self.info.error(problem)
            implemented.add(hook)


def _specified(manager: pluggy.PluginManager) -> dict[str, tuple[str, ...]]:
    """Return the names and arguments of all specified hooks."""
    names = [name for name in hookspecs.__all__ if name.startswith(PREFIX)]
    return {name: tuple(getattr(manager.hook, name).spec.argnames) for name in names}


def _attribute(plugin: object, name: str) -> Any:
    value = inspect.getattr_static(plugin, name, None)
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - whatever the plugin holds
