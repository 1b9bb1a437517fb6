"""What a hook implementation may look like.

Each check answers with the problem, or None. pluggy accepts more than midspan does: coroutines it never awaits,
arguments it never passes, wrappers around what other plugins contribute.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeGuard

from midspan.errors import did_you_mean

PREFIX = "midspan_"
_NOT_PLAIN = "must be a plain function"
_ASYNC_WORK = {
    "midspan_lifespan": "decorate it with contextlib.asynccontextmanager",
    "midspan_observers": "put async work in the observer it returns",
    "midspan_resolvers": "put async work in the resolver it returns",
    "midspan_commands": "start an event loop in the command it returns",
}
_ASYNC_WORK_ELSEWHERE = "put async work in the interceptor it returns"
_ORDER = "order interceptors by their priority instead"
_OPTIONS = {
    "hookwrapper": "a plugin cannot wrap what other plugins contribute; make it a plain function",
    "wrapper": "a plugin cannot wrap what other plugins contribute; make it a plain function",
    "tryfirst": f"has the option tryfirst, which means nothing here; {_ORDER}",
    "trylast": f"has the option trylast, which means nothing here; {_ORDER}",
}


def is_function(value: object) -> TypeGuard[Callable[..., Any]]:
    """Tell whether it is a plain function or a method: unlike `inspect.isroutine`, no interceptor is one."""
    return inspect.isfunction(value) or inspect.ismethod(value) or inspect.isbuiltin(value)


def async_sentence(hook: str) -> str:
    """Say that a hook is not async, and where async work goes."""
    return f"{hook} {_NOT_PLAIN}; {_ASYNC_WORK.get(hook, _ASYNC_WORK_ELSEWHERE)}"


def options_problem(hook: str, options: Mapping[str, Any]) -> str | None:
    """Check what `hookimpl` was told."""
    return next((f"{hook}: {problem}" for option, problem in _OPTIONS.items() if options.get(option)), None)


def function_problem(hook: str, function: Callable[..., Any], accepted: Iterable[str]) -> str | None:
    """Check a hook's function: a plain one, which names only arguments that it will be given.

    Args:
        hook: the hook's name.
        function: the function, bound if it is a method.
        accepted: the arguments of the specification.
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return async_sentence(hook)
    if inspect.isgeneratorfunction(function):
        return f"{hook} {_NOT_PLAIN}, not a generator; return a list instead of yielding"
    known = list(accepted)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            return f"{hook} takes *{parameter.name}; name the arguments it needs, {_of(known)}"
        if parameter.name not in known:
            return f"{hook} takes no argument {parameter.name!r}; it may take {_of(known)}"
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            return f"{hook}: the argument {parameter.name!r} must not be keyword-only; remove the `*` before it"
        if parameter.default is not inspect.Parameter.empty:
            return f"{hook}: the argument {parameter.name!r} must have no default; with one it would never be given"
    return None


def unmarked_problem(name: str, value: object, known: Iterable[str]) -> str | None:
    """Check an attribute of the plugin that is no hook implementation.

    Whoever names a function `midspan_interceptors` and forgets `@hookimpl` would have a guard that does nothing.
    """
    if not name.startswith(PREFIX) or isinstance(value, ModuleType):
        return None
    hooks = list(known)
    if is_function(value):
        return f"{name} is not marked as a hook; decorate it with @hookimpl" if name in hooks else unknown(name, hooks)
    if name in hooks:
        return f"{name} {_NOT_PLAIN} decorated with @hookimpl, not {type(value).__name__}; put @hookimpl outermost"
    return None


def unknown(name: str, known: Iterable[str]) -> str:
    """Say that there is no such hook."""
    hooks = sorted(known)
    return f"unknown hook {name}" + (did_you_mean(name, hooks) or f"; the hooks are {', '.join(hooks)}")


def _of(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
