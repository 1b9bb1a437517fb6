"""Where the values of an entry come from: the operator's config, the interceptor itself, or the default."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from midspan.config import ConfigSource
from midspan.plugins import Instance, policy_place
from midspan.sight._places import place_text
from midspan_sdk import ChainEntry
from midspan_sdk.wire import Phase

Field = Literal["priority", "mode", "fail_open", "timeout", "hooks"]
Kind = Literal["config", "plugin", "default"]

_TAKEN: Final[dict[Field, tuple[str, ...]]] = {
    "priority": ("mutation",),
    "mode": ("mutation", "validation"),
    "fail_open": ("mutation", "validation"),
    "timeout": ("mutation", "validation", "sink"),
    "hooks": ("mutation", "validation", "sink"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a value comes from.

    Attributes:
        kind: the operator's `config`, the `plugin` that declares it, or the `default`.
        file: of the config, the file.
        line: of the config, the line, when it can be told.
        key: of the config, the dotted key.
    """

    kind: Kind
    file: Path | None = None
    line: int | None = None
    key: str | None = None

    @property
    def text(self) -> str:
        """The place in words: `midspan.toml:12 mode in [plugins.secrets.interceptors.redact]`."""
        if self.kind != "config" or self.key is None:
            return "declared by the plugin" if self.kind == "plugin" else "the default"
        table, _, key = self.key.rpartition(".")
        return f"{place_text(self.file, self.line)} {key} in [{table}]".strip()

    @property
    def place(self) -> str:
        """The place of a table, or of a key that says why it is off: `midspan.toml:12 [plugins.secrets]`."""
        table = ".".join((self.key or "").split(".")[:2])
        return f"{place_text(self.file, self.line)} [{table}]".strip()

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        file = None if self.file is None else str(self.file)
        return {"kind": self.kind, "file": file, "line": self.line, "key": self.key}


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A value and where it comes from."""

    value: Any
    origin: Origin

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"value": self.value, "from": self.origin.as_json()}


def config_origin(source: ConfigSource, *keys: str) -> Origin:
    """Return the place of keys in the operator's files."""
    place = source.error("", *keys)
    return Origin(kind="config", file=place.file, line=place.line, key=place.key)


def value_of(
    entry: ChainEntry, field: Field, phase: Phase, source: ConfigSource, instance: Instance | None, settings: Any
) -> Value | None:
    """Return a value of an entry, or None when its kind takes no such value.

    Args:
        entry: the entry.
        field: which value; `priority` is that of the phase, `timeout` is in milliseconds.
        phase: the phase that is looked at.
        source: the operator's files.
        instance: the plugin instance that brought the entry; None for one of an interceptor server.
        settings: the table of the instance, or of the interceptor server; None when there is none.
    """
    if entry.type not in _TAKEN[field]:
        return None
    said = entry.origin(field)
    if said == "default":
        origin = Origin(kind="default")
    elif said == "declared" or settings is None:
        origin = Origin(kind="plugin")
    elif instance is not None:
        origin = config_origin(source, *policy_place(settings, instance.name, instance.own_name(entry.name), field))
    else:
        own = settings.interceptors.get(entry.descriptor.name)
        within = ("interceptors", entry.descriptor.name) if own is not None and getattr(own, field) is not None else ()
        origin = config_origin(source, "interceptor_servers", str(entry.server), *within, field)
    return Value(value=_plain(entry, field, phase), origin=origin)


def _plain(entry: ChainEntry, field: Field, phase: Phase) -> object:
    if field == "priority":
        return entry.priority(phase)
    if field == "timeout":
        return round(entry.timeout * 1000)
    if field == "hooks":
        return [{"events": list(hook.events), "phase": hook.phase} for hook in entry.hooks]
    return getattr(entry, field)
