"""The full reading of a config file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from midspan.config._faults import faults_of
from midspan.config._filling import filled
from midspan.config._find import find_config
from midspan.config._including import read_source
from midspan.config._model import GatewayTable, PluginSettings, Settings
from midspan.config._places import Keys
from midspan.config._resolved import RemoteServer, StdioServer
from midspan.config._servers import ServerTable
from midspan.config._source import ConfigSource
from midspan.config._tables import PluginTable, plugin_tables
from midspan.errors import ConfigError, did_you_mean, raise_all

_FILLED_LATER: Final = ("interceptor_servers", "servers")
"""Tables whose variables are replaced when a server is used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A config file that was read and validated; without one, empty.

    Attributes:
        source: the file.
        settings: what it says.
        tables: what its plugin tables say of selection.
    """

    source: ConfigSource = field(default_factory=ConfigSource)
    settings: Settings = field(default_factory=Settings)
    tables: dict[str, PluginTable] = field(default_factory=dict[str, PluginTable])

    @property
    def plugins(self) -> dict[str, PluginSettings]:
        """Plugin instances by the name of their table, in the order of the file."""
        return self.settings.plugins

    @property
    def servers(self) -> dict[str, ServerTable]:
        """Servers by the name of their table, in the order of the file, their variables not replaced yet."""
        return self.settings.servers

    def server(self, name: str, environ: Mapping[str, str] | None = None) -> StdioServer | RemoteServer:
        """Return a server of the file, ready to be started or connected to.

        Args:
            name: its table's.
            environ: the variables that its texts refer to; None for the environment of this process.

        Raises:
            ConfigError: there is none of that name, or a text of its table cannot be used; see `ServerTable.resolved`.
        """
        table = self.servers.get(name)
        if table is None:
            raise self.source.error(f"there is no server {name!r}{self._hint(name)}")
        server = table.resolved(environ, source=self.source, place=("servers", name))
        return (
            server if table.max_message is not None else replace(server, max_message=self.settings.limits.max_message)
        )

    def gateway(self, server: str | None = None) -> GatewayTable:
        """Return how the gateway meets the clients of a server.

        Args:
            server: the name of its table, whose own words win; None for one that has no table.
        """
        table = None if server is None else self.servers.get(server)
        if table is None:
            return self.settings.gateway
        said = {key: value for key in GatewayTable.model_fields if (value := getattr(table, key)) is not None}
        return self.settings.gateway.model_copy(update=said)

    def _hint(self, name: str) -> str:
        if self.source.path is None:
            return "; there is no config file: write one, name it with --config"
        if not self.servers:
            return f"; add a table [servers.{name}]"
        return did_you_mean(name, self.servers) or f"; known here: {', '.join(self.servers)}"


def load_config(named: Path | None = None) -> Config:
    """Find, read and validate the config file.

    Args:
        named: the file given by `--config`; None looks where the user keeps it.

    Raises:
        ConfigError: the file is missing or wrong; names the file, the key and what is accepted there.
    """
    return validated(read_source(find_config(named)))


def validated(source: ConfigSource, environ: Mapping[str, str] | None = None) -> Config:
    """Validate a config file that was read.

    Args:
        source: the file.
        environ: the variables that its texts refer to, those of servers and plugins apart, which are replaced when they
            are used; None for the environment of this process.

    Raises:
        ConfigError: an unknown key, a variable that is not set, or a value that is not acceptable; several such are
            `ProblemsError`.
    """
    problems: list[ConfigError] = []
    tables: dict[str, PluginTable] = {}
    try:
        tables = plugin_tables(source)
    except ConfigError as error:
        problems.append(error)
    data: dict[str, Any] = {}
    try:
        data = _own_texts_filled(source, os.environ if environ is None else environ)
        settings = Settings.model_validate(data)
    except RecursionError:
        raise ConfigError("is nested too deeply", file=source.path) from None
    except ConfigError as error:
        told = {problem.key for problem in problems}
        raise_all([*problems, *(one for one in (error,) if one.key not in told)])
    except ValidationError as error:
        told = {problem.key for problem in problems}
        faults = [(fault.problem, _written(source.data, fault.keys)) for fault in faults_of(error, Settings, data)]
        found = [source.error(problem, *keys) for problem, keys in dict.fromkeys(faults)]
        raise_all([*problems, *(one for one in found if one.key not in told)])
    else:
        raise_all(problems)
        return Config(source=source, settings=settings, tables=tables)
    raise AssertionError("unreachable")


def _written(data: object, keys: Keys) -> Keys:
    """Return the keys as far as they are the file's own: a number that stands for both phases has no keys."""
    for index, key in enumerate(keys):
        if not isinstance(data, dict | list):
            return keys[:index]
        if isinstance(data, dict):
            data = cast("dict[str | int, object]", data).get(key, {})
        else:
            data = cast("list[object]", data)[key] if isinstance(key, int) else {}
    return keys


def _own_texts_filled(source: ConfigSource, environ: Mapping[str, str]) -> dict[str, Any]:
    """Replace the variables in what is the host's own."""
    kept = {key: source.data[key] for key in _FILLED_LATER if key in source.data}
    own = {key: value for key, value in source.data.items() if key not in kept}
    plugins: object = own.pop("plugins", None)
    data = {**kept, **filled(own, environ, source, files=False).table}
    if isinstance(plugins, dict):
        tables = cast("dict[str, Any]", plugins)
        data["plugins"] = {name: _policy_filled(table, environ, source, name) for name, table in tables.items()}
    elif plugins is not None:
        data["plugins"] = plugins
    return data


def _policy_filled(table: object, environ: Mapping[str, str], source: ConfigSource, name: str) -> object:
    if not isinstance(table, dict):
        return table
    given = cast("dict[str, Any]", table)
    own = {key: value for key, value in given.items() if key != "config"}
    policy = filled(own, environ, source, "plugins", name, files=False).table
    return {key: given[key] if key == "config" else policy[key] for key in given}
