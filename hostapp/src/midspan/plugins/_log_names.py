"""By what the log records of plugin instances are known."""

from __future__ import annotations

from collections.abc import Iterable

from midspan.logs import PluginLogs
from midspan.plugins._file import module_name
from midspan.plugins._instance import Instance


def plugin_logs(instances: Iterable[Instance]) -> tuple[PluginLogs, ...]:
    """Return what `midspan.logs.configure` has to know of instances, to tell whose a record is."""
    return tuple(
        PluginLogs(
            plugin=instance.plugin.info.id,
            instance=instance.name,
            module=_module_of(instance),
            names=frozenset(one.name for one in (*instance.interceptors, *instance.observers)),
        )
        for instance in instances
    )


def _module_of(instance: Instance) -> str:
    info = instance.plugin.info
    return module_name(info.id) if info.file is not None else info.value.partition(":")[0].strip()
