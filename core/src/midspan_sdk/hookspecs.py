"""The hooks a plugin may implement.

The entry point (group `midspan.plugins`, name = plugin id) names a module, or an instance, that carries some of these
functions, marked with `midspan_sdk.hookimpl`. All hooks are plain functions called at start, never on the path of a
message; async work goes into the interceptors they return. Arguments are opt-in: a hook takes those it names.

One implementation is called at a time, so that the plugin's name stays with what it contributed. A plugin may be
configured several times (`use = "<id>"`); each `[plugins.<name>]` table is an **instance**, and hooks that take
`instance` are told which.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pluggy
from pydantic import BaseModel

from midspan_sdk._contributions import Command, Problem, ServerResolver
from midspan_sdk._entries import ChainEntry
from midspan_sdk._observers import Observer

__all__ = [
    "PROJECT",
    "hookimpl",
    "hookspec",
    "midspan_checks",
    "midspan_commands",
    "midspan_config",
    "midspan_interceptors",
    "midspan_lifespan",
    "midspan_observers",
    "midspan_resolvers",
]

PROJECT = "midspan"
"""The pluggy project; also the prefix of every hook."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def midspan_config() -> type[BaseModel] | None:  # pyright: ignore[reportReturnType] - a specification has no body
    """Name the pydantic model of the plugin's config table.

    Called once, after import. None, or no such hook, means that the plugin has no config: then a non-empty
    `[plugins.<name>.config]` table is an error.
    """


@hookspec
def midspan_interceptors(config: BaseModel | None, instance: str) -> Sequence[Any]:  # pyright: ignore[reportReturnType]
    """Contribute interceptors: decorated functions, or objects with decorated methods.

    Called each time a chain is built: at start, reload, check and explain. Must be pure: no I/O, no threads, no global
    state.

    Args:
        config: the validated config of this instance, or None when the plugin has no config model.
        instance: the name of the config table.
    """


@hookspec
def midspan_lifespan(config: BaseModel | None, instance: str) -> AbstractAsyncContextManager[Any]:  # pyright: ignore[reportReturnType]
    """Open what the interceptors need while traffic flows: connections, files.

    Entered before readiness and left after draining; kept over a reload when version and config are the same; not
    entered by `check`, `chain` and `explain`. What it yields reaches handlers as `lifespan`. An error stops the start.
    """


@hookspec
def midspan_observers(config: BaseModel | None, instance: str) -> Sequence[Observer]:  # pyright: ignore[reportReturnType]
    """Contribute observers of decision records. Called with each build, as `midspan_interceptors`."""


@hookspec
def midspan_resolvers(config: BaseModel | None, instance: str) -> Sequence[ServerResolver]:  # pyright: ignore[reportReturnType]
    """Contribute resolvers, which name further interceptor servers for a message. Called with each build."""


@hookspec
def midspan_checks(config: BaseModel | None, instance: str, entries: Sequence[ChainEntry]) -> Sequence[Problem]:  # pyright: ignore[reportReturnType]
    """Find what cannot work as configured.

    Called after each build with the instance's own entries, policy resolved. A problem of severity `error` stops the
    start: "cannot block in audit mode".
    """


@hookspec
def midspan_commands() -> Sequence[Command]:  # pyright: ignore[reportReturnType] - a specification has no body
    """Contribute sub-commands of `midspan <plugin id> ...`. Called when the operator types one."""
