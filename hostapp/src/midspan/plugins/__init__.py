"""Plugins: which are installed, which run, and what they contribute.

From an installed package to a chain: discover (metadata alone), select (the config and the command line), load
(import and check the hooks), configure, contribute. `Builder` does all of it.

`discover`, `select` and what they answer with need importlib-metadata and the standard library only. The other names
are imported when they are first used, so that light commands stay light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midspan._lazy import lazily
from midspan.plugins._discovery import GROUP, discover
from midspan.plugins._gives import GATEWAY_GIVES
from midspan.plugins._info import STATES, PluginInfo, State
from midspan.plugins._selection import ChosenInstance, RefusedInstance, Selection, owner_of, select

if TYPE_CHECKING:
    from midspan.plugins._assembly import Assembly
    from midspan.plugins._builder import Builder
    from midspan.plugins._instance import Instance, build_instance, changed_instances
    from midspan.plugins._loading import load
    from midspan.plugins._log_names import plugin_logs
    from midspan.plugins._plugin import Plugin
    from midspan.plugins._policy import policy_place
    from midspan.plugins._remotes import Remote
    from midspan.plugins._running import Running

__all__ = [
    "GATEWAY_GIVES",
    "GROUP",
    "STATES",
    "Assembly",
    "Builder",
    "ChosenInstance",
    "Instance",
    "Plugin",
    "PluginInfo",
    "RefusedInstance",
    "Remote",
    "Running",
    "Selection",
    "State",
    "build_instance",
    "changed_instances",
    "discover",
    "load",
    "owner_of",
    "plugin_logs",
    "policy_place",
    "select",
]

_HEAVY = {
    "Assembly": "_assembly",
    "Instance": "_instance",
    "Plugin": "_plugin",
    "Builder": "_builder",
    "Remote": "_remotes",
    "Running": "_running",
    "build_instance": "_instance",
    "changed_instances": "_instance",
    "load": "_loading",
    "plugin_logs": "_log_names",
    "policy_place": "_policy",
}

__getattr__ = lazily(__name__, _HEAVY)
