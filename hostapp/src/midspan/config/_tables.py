"""The light reading of a config file: what decides which plugins are enabled.

`midspan plugins list` reads no more than this, with the standard library alone. The full model (`_model.py`) accepts
the same keys; a test holds the two together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from midspan.config._scopes import PATTERN, PATTERN_FORM
from midspan.config._source import ConfigSource
from midspan.errors import did_you_mean

NAME = re.compile(r"[a-z][a-z0-9-]*")
"""What a plugin id and a config table's name look like."""

NAME_FORM = "a name takes lower-case letters, digits and hyphens, and starts with a letter"
DISTRIBUTION_PATTERN = "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"

TOP_KEYS = ("audit", "gateway", "include", "interceptor_servers", "limits", "log", "plugins", "requires", "servers")
PLUGIN_KEYS = (
    "config",
    "distribution",
    "enabled",
    "fail_open",
    "interceptors",
    "mode",
    "priority",
    "servers",
    "timeout",
    "use",
)


def name_form(name: str) -> str:
    """Say what a name looks like, with one that is near to what was written."""
    near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return f"{NAME_FORM}, such as {near!r}" if NAME.fullmatch(near) else NAME_FORM


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginTable:
    """What a `[plugins.<name>]` table says of selection.

    Attributes:
        enabled: whether the plugin runs; None when the table does not say, which counts as no.
        use: the id of the plugin that the table configures, or None when the table's name is the id.
        distribution: the distribution that must own the id, or None.
        servers: the servers that the plugin is for, names or globs; None for all.
    """

    enabled: bool | None = None
    use: str | None = None
    distribution: str | None = None
    servers: tuple[str, ...] | None = None


def plugin_tables(source: ConfigSource) -> dict[str, PluginTable]:
    """Read the plugin tables of a config file, in its order.

    Raises:
        ConfigError: an unknown key, a table's name or one of these three values is not acceptable.
    """
    _refuse_unknown(source, source.data, TOP_KEYS)
    tables = source.data.get("plugins", {})
    if not isinstance(tables, dict):
        raise source.error("must be a table: [plugins.<name>]", "plugins")
    return {name: _table(source, name, value) for name, value in cast("dict[str, Any]", tables).items()}


def _table(source: ConfigSource, name: str, value: object) -> PluginTable:
    place = ("plugins", name)
    if not NAME.fullmatch(name):
        raise source.error(name_form(name), *place)
    if not isinstance(value, dict):
        raise source.error(f"must be a table: [plugins.{name}]", *place)
    table = cast("dict[str, Any]", value)
    _refuse_unknown(source, table, PLUGIN_KEYS, *place)
    enabled, use, distribution = table.get("enabled"), table.get("use"), table.get("distribution")
    if enabled is not None and not isinstance(enabled, bool):
        raise source.error("must be true or false", *place, "enabled")
    if use is not None and not (isinstance(use, str) and NAME.fullmatch(use)):
        raise source.error('must be the id of a plugin, for example "policy"', *place, "use")
    if distribution is not None and not (
        isinstance(distribution, str) and re.search(DISTRIBUTION_PATTERN, distribution)
    ):
        raise source.error('must be the name of a distribution, for example "midspan-pii"', *place, "distribution")
    servers = _servers(source, table.get("servers"), *place, "servers")
    return PluginTable(enabled=enabled, use=use, distribution=distribution, servers=servers)


def _servers(source: ConfigSource, value: object, *place: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        raise source.error('must be a list of names or globs, such as ["prod-*"]; leave it out for all', *place)
    for index, pattern in enumerate(cast("list[object]", value)):
        if not (isinstance(pattern, str) and PATTERN.fullmatch(pattern)):
            raise source.error(PATTERN_FORM, *place, index)
    return tuple(cast("list[str]", value))


def _refuse_unknown(source: ConfigSource, table: dict[str, Any], known: Iterable[str], *place: str) -> None:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known here: {', '.join(known)}"
            raise source.error(f"unknown key{hint}", *place, key)
