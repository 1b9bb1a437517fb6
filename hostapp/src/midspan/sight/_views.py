"""A chain as it is shown: by events, with the entries in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from midspan.plugins import Assembly, Builder, Instance, PluginInfo
from midspan.sight._events import Flow, flows_of, sentence, shown_events
from midspan.sight._origins import Field, Origin, Value, value_of
from midspan.sight._servers import ServerGroup, instance_place, left_out, remote_servers
from midspan_sdk import ChainEntry
from midspan_sdk.wire import Direction, Phase

FIELDS: Final[tuple[Field, ...]] = ("priority", "mode", "fail_open", "timeout", "hooks")


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryView:
    """An entry of a chain.

    Attributes:
        name: unique in the chain.
        kind: `mutator`, `validator` or `sink`.
        step: when it runs, counted from 1; what runs side by side has the same.
        instance: the plugin instance that brought it; None for one of an interceptor server.
        plugin: the plugin, likewise.
        server: the interceptor server that it lives on, or None.
        errors: whether it also sees JSON-RPC errors.
        values: its policy, each value with its origin; None where its kind takes no such value.
    """

    name: str
    kind: str
    step: int
    instance: str | None
    plugin: PluginInfo | None
    server: str | None
    errors: bool
    values: dict[Field, Value | None]

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        told = {field: None if value is None else value.as_json() for field, value in self.values.items()}
        told["timeout_ms"] = told.pop("timeout")
        return {
            "name": self.name,
            "kind": self.kind,
            "step": self.step,
            "instance": self.instance,
            "plugin": None if self.plugin is None else _plugin(self.plugin),
            "interceptor_server": self.server,
            "errors": self.errors,
            **told,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanView:
    """What runs for some events, all in the same way.

    Attributes:
        events: the events.
        flow: phase and direction.
        entries: in the order in which their stages run.
    """

    events: tuple[str, ...]
    flow: Flow
    entries: tuple[EntryView, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "events": list(self.events),
            "phase": self.flow.phase,
            "direction": self.flow.direction,
            "order": sentence(self.flow),
            "entries": [entry.as_json() for entry in self.entries],
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ObserverView:
    """An observer of decisions: its name, the instance that brought it, and whether messages wait for it."""

    name: str
    instance: str
    durable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainView:
    """The chain in front of some servers.

    Attributes:
        group: the servers, and why they are refused, if they are.
        plans: what runs, by events.
        observers: who takes decision records.
        instances: the plugin instances in it: name, plugin, and the place of the table.
        remote: interceptor servers whose interceptors join it, each with its place.
        left_out: instances that are not in it: name, why, and the place that decides.
    """

    group: ServerGroup
    plans: tuple[PlanView, ...]
    observers: tuple[ObserverView, ...]
    instances: tuple[tuple[str, PluginInfo, Origin | None], ...]
    remote: tuple[tuple[str, Origin], ...]
    left_out: tuple[tuple[str, str, Origin], ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "servers": list(self.group.names),
            "any_other_server": self.group.others,
            "problems": [problem.message for problem in self.group.problems],
            "plans": [plan.as_json() for plan in self.plans],
            "observers": [
                {"name": one.name, "instance": one.instance, "durable": one.durable} for one in self.observers
            ],
            "instances": [
                {"name": name, "plugin": _plugin(info), "from": None if place is None else place.as_json()}
                for name, info, place in self.instances
            ],
            "interceptor_servers": [{"name": name, "from": place.as_json()} for name, place in self.remote],
            "left_out": [{"name": name, "reason": why, "from": place.as_json()} for name, why, place in self.left_out],
        }


def chain_view(
    builder: Builder,
    group: ServerGroup,
    *,
    event: str | None = None,
    phase: Phase | None = None,
    direction: Direction | None = None,
) -> ChainView:
    """Return what there is to see of the chain in front of some servers.

    Args:
        builder: built it.
        group: the servers.
        event: look at this event only; None looks at all that anything hooks.
        phase: look at this phase only.
        direction: look at this direction only; for an event, the direction to take instead of its usual one.
    """
    assembly = group.assembly
    return ChainView(
        group=group,
        plans=() if assembly is None else _plans(builder, assembly, event, phase, direction),
        observers=() if assembly is None else tuple(_observers(assembly)),
        instances=()
        if assembly is None
        else tuple((one.name, one.plugin.info, instance_place(builder.config, one.name)) for one in assembly.instances),
        remote=tuple(remote_servers(builder.config, group.name)),
        left_out=tuple(left_out(builder, group.name)),
    )


def _plans(
    builder: Builder, assembly: Assembly, event: str | None, phase: Phase | None, direction: Direction | None
) -> tuple[PlanView, ...]:
    events = [event] if event is not None else list(shown_events(assembly.chain.entries))
    flows = {one: _flows(one, phase, direction, named=event is not None) for one in events}
    plans: list[PlanView] = []
    for flow in sorted({flow for each in flows.values() for flow in each}, key=_order):
        same: dict[tuple[str, ...], tuple[list[str], Sequence[ChainEntry]]] = {}
        for one in events:
            if flow in flows[one]:
                entries = assembly.chain.plan(one, *flow)
                same.setdefault(tuple(entry.name for entry in entries), ([], entries))[0].append(one)
        # What few events have comes first: it is what an operator wrote a rule for.
        for names, entries in sorted(same.values(), key=lambda group: len(group[0])):
            if entries or event is not None:
                shown = _entries(builder, assembly, entries, flow.phase)
                plans.append(PlanView(events=tuple(names), flow=flow, entries=shown))
    return tuple(plans)


def _flows(event: str, phase: Phase | None, direction: Direction | None, *, named: bool) -> list[Flow]:
    usual = flows_of(event)
    if named and direction is not None:
        usual = list(dict.fromkeys(Flow(flow.phase, direction) for flow in usual))
    return [flow for flow in usual if phase in (None, flow.phase) and direction in (None, flow.direction)]


def _order(flow: Flow) -> tuple[bool, bool]:
    clients = (flow.phase == "request") == (flow.direction == "sending")
    return not clients, flow.phase == "response"


def _entries(
    builder: Builder, assembly: Assembly, entries: Sequence[ChainEntry], phase: Phase
) -> tuple[EntryView, ...]:
    views: list[EntryView] = []
    for number, entry in enumerate(entries):
        before = views[-1].step if views else 0
        alongside = number > 0 and entry.type != "mutation" and entries[number - 1].type == entry.type
        views.append(entry_view(builder, assembly, entry, phase, step=before + (not alongside)))
    return tuple(views)


def entry_view(builder: Builder, assembly: Assembly, entry: ChainEntry, phase: Phase, *, step: int) -> EntryView:
    """Return what there is to see of one entry.

    Args:
        builder: built the chain.
        assembly: the chain.
        entry: the entry.
        phase: the phase that is looked at.
        step: when it runs.
    """
    instance = _instance_of(assembly, entry)
    config = builder.config
    if instance is not None:
        settings: Any = config.plugins.get(instance.name)
    else:
        settings = config.settings.interceptor_servers.get(str(entry.server))
    return EntryView(
        name=entry.name,
        kind=entry.descriptor.noun,
        step=step,
        instance=None if instance is None else instance.name,
        plugin=None if instance is None else instance.plugin.info,
        server=entry.server,
        errors=entry.descriptor.errors,
        values={field: value_of(entry, field, phase, config.source, instance, settings) for field in FIELDS},
    )


def _instance_of(assembly: Assembly, entry: ChainEntry) -> Instance | None:
    if entry.server is not None:
        return None
    return next(one for one in assembly.instances if any(each.name == entry.name for each in one.interceptors))


def _observers(assembly: Assembly) -> list[ObserverView]:
    return [
        ObserverView(name=observer.name, instance=instance.name, durable=observer.durable)
        for instance in assembly.instances
        for observer in instance.observers
    ]


def _plugin(info: PluginInfo) -> dict[str, str | None]:
    file = None if info.file is None else str(info.file)
    return {"id": info.id, "distribution": info.distribution, "version": info.version, "file": file}
