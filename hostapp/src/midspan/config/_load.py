"""The full reading of a config file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from midspan.config._faults import fault_of
from midspan.config._find import find_config
from midspan.config._model import PluginSettings, Settings
from midspan.config._source import ConfigSource, read_source
from midspan.config._tables import PluginTable, plugin_tables


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
