"""The config file: one TOML file, one model.

Two ways to read it: `read_source` and `plugin_tables` need the standard library only; `load_config` validates the
whole file with pydantic. The latter's names are imported when they are first used, so that light commands stay light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.config._find import CONFIG_NAME, CONFIG_VARIABLE, config_place, find_config, user_config
from midspan.config._including import read_source
from midspan.config._scopes import in_scope, unmatched
from midspan.config._source import ConfigFile, ConfigSource
from midspan.config._tables import NAME, PluginTable, plugin_tables

if TYPE_CHECKING:
    from midspan.config._client_json import servers_from_client_json
    from midspan.config._durations import milliseconds
    from midspan.config._edit import set_enabled
    from midspan.config._faults import Fault, fault_of, faults_of, keys_of, type_text, unknown_key
    from midspan.config._filling import Filled, filled
    from midspan.config._load import Config, load_config, validated
    from midspan.config._meanings import meanings_of
    from midspan.config._model import (
        AuditTable,
        GatewayTable,
        HookTable,
        InterceptorServerTable,
        InterceptorTable,
        LimitsTable,
        LogTable,
        PluginSettings,
        PolicyTable,
        PriorityTable,
        RemoteInterceptorTable,
        Settings,
    )
    from midspan.config._resolved import RemoteServer, StdioServer
    from midspan.config._schema import config_schema
    from midspan.config._servers import ConnectionTable, ServerTable
    from midspan.config._values import expand

__all__ = [
    "CONFIG_NAME",
    "CONFIG_VARIABLE",
    "NAME",
    "AuditTable",
    "Config",
    "ConfigFile",
    "ConfigSource",
    "ConnectionTable",
    "Fault",
    "Filled",
    "GatewayTable",
    "HookTable",
    "InterceptorServerTable",
    "InterceptorTable",
    "LimitsTable",
    "LogTable",
    "PluginSettings",
    "PluginTable",
    "PolicyTable",
    "PriorityTable",
    "RemoteInterceptorTable",
    "RemoteServer",
    "ServerTable",
    "Settings",
    "StdioServer",
    "config_place",
    "config_schema",
    "expand",
    "fault_of",
    "faults_of",
    "filled",
    "find_config",
    "in_scope",
    "keys_of",
    "load_config",
    "meanings_of",
    "milliseconds",
    "plugin_tables",
    "read_source",
    "servers_from_client_json",
    "set_enabled",
    "type_text",
    "unknown_key",
    "unmatched",
    "user_config",
    "validated",
]

_HEAVY = {
    "AuditTable": "_model",
    "Config": "_load",
    "ConnectionTable": "_servers",
    "Fault": "_faults",
    "Filled": "_filling",
    "GatewayTable": "_model",
    "HookTable": "_model",
    "InterceptorServerTable": "_model",
    "InterceptorTable": "_model",
    "LimitsTable": "_model",
    "LogTable": "_model",
    "PluginSettings": "_model",
    "PolicyTable": "_model",
    "PriorityTable": "_model",
    "RemoteInterceptorTable": "_model",
    "RemoteServer": "_resolved",
    "ServerTable": "_servers",
    "Settings": "_model",
    "StdioServer": "_resolved",
    "config_schema": "_schema",
    "expand": "_values",
    "fault_of": "_faults",
    "faults_of": "_faults",
    "filled": "_filling",
    "keys_of": "_faults",
    "load_config": "_load",
    "meanings_of": "_meanings",
    "milliseconds": "_durations",
    "servers_from_client_json": "_client_json",
    "set_enabled": "_edit",
    "type_text": "_faults",
    "unknown_key": "_faults",
    "validated": "_load",
}

__getattr__ = lazily(__name__, _HEAVY)
