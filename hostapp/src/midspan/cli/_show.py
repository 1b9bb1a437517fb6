"""`midspan plugins show`: what one plugin contributes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from midspan.cli._output import echo, print_table
from midspan.config import Config, keys_of, load_config, meanings_of, type_text
from midspan.errors import PluginError, one_line
from midspan.plugins import (
    GATEWAY_GIVES,
    ChosenInstance,
    Instance,
    Plugin,
    build_instance,
    discover,
    load,
    owner_of,
    select,
)
from midspan_sdk import Chain, ChainEntry, DefinitionError, Hook


def show_plugin(plugin: str, config_file: Path | None) -> None:
    """Print what a plugin contributes, as the config has it, or else with an empty config.

    Raises:
        OperatorError: there is no such plugin, or it cannot be loaded.
    """
    config = load_config(config_file)
    found = discover()
    info = owner_of(found, config.tables, plugin)
    state = next(
        each for each in select(found, config.tables).plugins if each.value == info.value and each.id == info.id
    )
    loaded = load(info)
    echo(f"{click.style(info.id, bold=True)}  {info.origin}  {state.state}")
    for name in _instances(plugin, config):
        _show_instance(loaded, ChosenInstance(name=name, plugin=info, without=""), config)
    _show_config(loaded.config_model(), plugin)
    _show_commands(loaded)


def _instances(plugin: str, config: Config) -> list[str]:
    return [name for name, table in config.tables.items() if (table.use or name) == plugin] or [plugin]


def _show_instance(plugin: Plugin, chosen: ChosenInstance, config: Config) -> None:
    suffix = "" if chosen.name == plugin.info.id else f" as {chosen.name}"
    try:
        instance = build_instance(plugin, chosen, config)
        entries = _entries(instance)
    except (PluginError, DefinitionError) as error:
        _heading(f"Interceptors and observers{suffix}")
        echo(f"  not known, since they cannot be built: {one_line(error.problem)}")
        return
    if entries:
        _heading(f"Interceptors{suffix}")
        print_table(
            [_entry_row(entry) for entry in entries],
            header=("NAME", "TYPE", "MODE", "PRIORITY", "FAIL OPEN", "TIMEOUT", "HOOKS"),
            indent=2,
        )
    if instance.observers:
        _heading(f"Observers{suffix}")
        rows = [(one.name, "durable" if one.durable else "queued") for one in instance.observers]
        print_table(rows, indent=2)
    if not entries and not instance.observers:
        echo(f"\nNo interceptors and no observers{suffix}.")


def _entries(instance: Instance) -> tuple[ChainEntry, ...]:
    chain = Chain(gives=GATEWAY_GIVES)
    chain.add(*instance.interceptors, overrides=instance.overrides)
    return chain.entries


def _entry_row(entry: ChainEntry) -> tuple[str, ...]:
    decides = entry.type != "sink"
    return (
        entry.name,
        entry.descriptor.noun,
        entry.mode if decides else "-",
        priority_text(entry) if entry.type == "mutation" else "-",
        ("yes" if entry.fail_open else "no") if decides else "-",
        f"{entry.timeout:g}s",
        hooks_text(entry.hooks),
    )


def priority_text(entry: ChainEntry) -> str:
    """Write a mutator's priority, or both when they differ."""
    request, response = entry.priority("request"), entry.priority("response")
    return str(request) if request == response else f"{request}/{response}"


def hooks_text(hooks: Sequence[Hook]) -> str:
    """Write hooks: `tools/call (request, response)`."""
    phases: dict[tuple[str, ...], list[str]] = {}
    for hook in hooks:
        phases.setdefault(hook.events, []).append(hook.phase)
    return "; ".join(f"{' '.join(events)} ({', '.join(names)})" for events, names in phases.items())


def _show_config(model: type[BaseModel] | None, plugin: str) -> None:
    if model is None:
        return
    _heading(f"Config: [plugins.{plugin}.config]")
    meanings = meanings_of(model)
    rows = [
        (
            key,
            type_text(field.annotation),
            _default(field.get_default(call_default_factory=False), field.is_required()),
            meanings[key],
        )
        for key, field in keys_of(model).items()
    ]
    print_table(rows, indent=2)


def _default(value: Any, required: bool) -> str:
    if required:
        return "required"
    return "optional" if value is PydanticUndefined or value is None else f"default {json.dumps(value, default=str)}"


def _show_commands(plugin: Plugin) -> None:
    if commands := plugin.commands():
        _heading("Commands")
        print_table([(f"midspan {plugin.info.id} {one.name}", one.help) for one in commands], indent=2)


def _heading(text: str) -> None:
    echo(f"\n{click.style(text, bold=True)}")
