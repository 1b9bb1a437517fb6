"""The operator's policy for the interceptors of one plugin instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from midspan.config import ConfigSource, HookTable, InterceptorTable, PluginSettings, PolicyTable, PriorityTable
from midspan.errors import ConfigError, did_you_mean
from midspan_sdk import Hook, Interceptor, InterceptorOverrides, PhasePriorities

KEYS = ("mode", "fail_open", "priority", "timeout")
TAKEN_BY = {
    "mode": ("validator", "mutator"),
    "fail_open": ("validator", "mutator"),
    "priority": ("mutator",),
    "timeout": ("validator", "mutator", "sink"),
    "may_answer": ("mutator",),
}
"""Kinds of interceptors that take a key of the policy."""


def overrides_for(
    interceptors: Sequence[Interceptor[..., Any]], settings: PluginSettings, source: ConfigSource, instance: str
) -> list[InterceptorOverrides]:
    """Resolve the policy of an instance's table, and of its `interceptors` tables, for each interceptor.

    The instance's policy applies to each interceptor whose kind takes it; a table of the interceptor's own wins, key by
    key.

    Args:
        interceptors: the contribution, under the names that its author gave.
        settings: the instance's table.
        source: the config file, for errors.
        instance: the table's name.

    Returns:
        One for each interceptor, in order.

    Raises:
        ConfigError: a key that no interceptor can take, or a table for an interceptor that does not exist.
    """
    for fault in _faults(interceptors, settings, source, instance):
        raise fault
    return [_resolved(one, settings, settings.interceptors.get(one.name)) for one in interceptors]


def _faults(
    interceptors: Sequence[Interceptor[..., Any]], settings: PluginSettings, source: ConfigSource, instance: str
) -> Iterator[ConfigError]:
    place = ("plugins", instance)
    kinds = {one.name: one.descriptor.noun for one in interceptors}
    for key in _set_keys(settings):
        if not any(kind in TAKEN_BY[key] for kind in kinds.values()):
            yield source.error(f"no interceptor of this plugin takes it, only {takers(key)} do", *place, key)
    for name, table in settings.interceptors.items():
        here = (*place, "interceptors", name)
        if name not in kinds:
            hint = did_you_mean(name, kinds) or f"; it has {', '.join(sorted(kinds)) or 'none'}"
            yield source.error(f"the plugin has no such interceptor{hint}", *here)
            continue
        for key in _set_keys(table):
            if kinds[name] not in TAKEN_BY[key]:
                yield source.error(f"a {kinds[name]} does not take it, only {takers(key)} do", *here, key)


def _set_keys(table: PolicyTable) -> list[str]:
    return [key for key in KEYS if getattr(table, key) is not None]


def takers(key: str) -> str:
    """Say which kinds of interceptors take a key of the policy."""
    return " and ".join(f"{kind}s" for kind in TAKEN_BY[key])


def policy_place(settings: PluginSettings, instance: str, interceptor: str, key: str) -> tuple[str, ...]:
    """Return the keys of the table that decides on a value of an interceptor, down to that value.

    Args:
        settings: the instance's table.
        instance: the table's name.
        interceptor: the name that its author gave.
        key: `mode`, `fail_open`, `priority`, `timeout` or `hooks`.

    Returns:
        The place in the interceptor's own table, when that says it; else in the instance's.
    """
    own = settings.interceptors.get(interceptor)
    if own is not None and getattr(own, key) is not None:
        return ("plugins", instance, "interceptors", interceptor, key)
    return ("plugins", instance, key)


def _resolved(
    interceptor: Interceptor[..., Any], settings: PluginSettings, own: InterceptorTable | None
) -> InterceptorOverrides:
    chosen: dict[str, Any] = {}
    for key in KEYS:
        value = getattr(own, key) if own is not None else None
        if value is None:
            value = getattr(settings, key)
        chosen[key] = value if interceptor.descriptor.noun in TAKEN_BY[key] else None
    return InterceptorOverrides(
        mode=chosen["mode"],
        fail_open=chosen["fail_open"],
        priority_hint=priority_hint(chosen["priority"]),
        timeout_ms=chosen["timeout"],
        hooks=None if own is None or own.hooks is None else tuple(hooks(own.hooks)),
    )


def priority_hint(priority: PriorityTable | None) -> PhasePriorities | None:
    """Return a priority as the chain takes it."""
    return None if priority is None else PhasePriorities(request=priority.request, response=priority.response)


def hooks(tables: Sequence[HookTable]) -> Iterator[Hook]:
    """Return hooks as the chain takes them."""
    for table in tables:
        if table.phase in ("request", "both"):
            yield Hook(events=tuple(table.events), phase="request")
        if table.phase in ("response", "both"):
            yield Hook(events=tuple(table.events), phase="response")
