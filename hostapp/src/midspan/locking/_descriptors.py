"""Chains as they are locked: entries in order, with what they are and what the policy makes of them.

Entries are in order of registration, in which validators and sinks are told and judged. Which mutator runs first
depends on priority and name alone, whatever the event is; so each phase has one order, which is locked beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from midspan.plugins import PluginInfo
from midspan_sdk import ChainEntry, Descriptor, Observer
from midspan_sdk.wire import Phase

ANY_SERVER = "*"
"""The name of the chain of a server that has no table, and that no plugin names in its `servers`."""
EVERY_PLUGIN = "**"
"""The name of the chain of every plugin, whatever its `servers` say: what `midspan interceptors serve` serves."""

_PHASES: tuple[Phase, Phase] = ("request", "response")


class _NamedInterceptor(Protocol):
    @property
    def name(self) -> str: ...


class _LoadedPlugin(Protocol):
    @property
    def info(self) -> PluginInfo: ...


class BuiltInstance(Protocol):
    """What locking reads of a plugin instance: `midspan.plugins.Instance` is one."""

    @property
    def name(self) -> str:
        """Its config table's name, or the plugin's id."""
        ...

    @property
    def plugin(self) -> _LoadedPlugin:
        """The plugin, with its `info`."""
        ...

    @property
    def interceptors(self) -> Sequence[_NamedInterceptor]:
        """What it contributes, under wire names."""
        ...

    @property
    def observers(self) -> Sequence[Observer]:
        """Its observers."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltChain:
    """The chain of a server, and what it was built of.

    Attributes:
        entries: in order of registration.
        instances: those whose interceptors and observers are in it.
    """

    entries: Sequence[ChainEntry]
    instances: Sequence[BuiltInstance]


def described(chain: BuiltChain) -> dict[str, Any]:
    """Return a chain as the lock has it: JSON."""
    owners = {one.name: instance for instance in chain.instances for one in instance.interceptors}
    told = {
        "entries": [_entry(entry, owners.get(entry.name)) for entry in chain.entries],
        "observers": [
            {"name": observer.name, "durable": observer.durable, **_owner(instance)}
            for instance in chain.instances
            for observer in instance.observers
        ],
        "mutators": {phase: _order(chain.entries, phase) for phase in _PHASES},
    }
    # As it is read again: lists where there were tuples, say.
    return json.loads(json.dumps(told))


def _entry(entry: ChainEntry, owner: BuiltInstance | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": entry.name,
        "type": entry.type,
        "mode": entry.mode,
        "fail_open": entry.fail_open,
        "priority": {phase: entry.priority(phase) for phase in _PHASES},
        "timeout_ms": _milliseconds(entry.timeout),
        "hooks": [_sorted_events(hook.to_wire()) for hook in entry.hooks],
        "descriptor": _descriptor(entry.descriptor),
    }
    if entry.server is not None:
        described |= {"interceptor_server": entry.server, "may_answer": bool(entry.overrides.may_answer)}
    return described if owner is None else described | _owner(owner)


def _milliseconds(seconds: float) -> float:
    milliseconds = round(seconds * 1000, 3)
    return int(milliseconds) if milliseconds.is_integer() else milliseconds


def _descriptor(descriptor: Descriptor) -> dict[str, Any]:
    """Return a descriptor as on the wire, with texts that come from sets sorted: their order differs between runs."""
    told = descriptor.to_wire()
    told["hooks"] = [_sorted_events(hook) for hook in told["hooks"]]
    if "configSchema" in told:
        told["configSchema"] = _sorted_sets(told["configSchema"])
    return told


def _sorted_events(hook: dict[str, Any]) -> dict[str, Any]:
    return {**hook, "events": sorted(hook["events"])}


def _sorted_sets(schema: object) -> object:
    if isinstance(schema, list):
        return [_sorted_sets(one) for one in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    told = {key: _sorted_sets(value) for key, value in cast("dict[str, object]", schema).items()}
    default = told.get("default")
    if told.get("uniqueItems") is True and isinstance(default, list):
        told["default"] = sorted(cast("list[object]", default), key=json.dumps)
    return told


def _owner(instance: BuiltInstance) -> dict[str, str]:
    info = instance.plugin.info
    return {"plugin": info.id, "instance": instance.name, "distribution": origin_of(info)}


def origin_of(info: PluginInfo) -> str:
    """Return where a plugin comes from, without the folders of this machine."""
    return f"file {info.file.name}" if info.file is not None else f"{info.distribution}=={info.version}"


def _order(entries: Sequence[ChainEntry], phase: Phase) -> list[str]:
    mutators = (one for one in entries if one.type == "mutation" and any(hook.phase == phase for hook in one.hooks))
    return [one.name for one in sorted(mutators, key=lambda one: (one.priority(phase), one.name))]


def names_in(chain: Mapping[str, Any]) -> list[str]:
    """Return the names of a described chain's entries, in order."""
    return [entry["name"] for entry in chain["entries"]]
