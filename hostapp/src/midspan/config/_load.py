"""The full reading of a config file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from midspan.config._faults import fault_of
from midspan.config._find import find_config
from midspan.config._model import GatewayTable, PluginSettings, Settings
from midspan.config._resolved import RemoteServer, StdioServer
from midspan.config._servers import ServerTable
from midspan.config._source import ConfigSource, read_source
from midspan.config._tables import PluginTable, plugin_tables
from midspan.errors import did_you_mean


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
        return table.resolved(environ, source=self.source, place=("servers", name))

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


def validated(source: ConfigSource) -> Config:
    """Validate a config file that was read.

    Raises:
        ConfigError: an unknown key, or a value that is not acceptable.
    """
    tables = plugin_tables(source)
    try:
        settings = Settings.model_validate(source.data)
    except ValidationError as error:
        fault = fault_of(error, Settings)
        raise source.error(fault.problem, *fault.keys) from error
    return Config(source=source, settings=settings, tables=tables)
