"""Which plugins are installed: entry points of the group `midspan.plugins`, from metadata alone.

Nothing of a plugin is imported here: what is merely installed can neither act nor fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import importlib_metadata

from midspan.config import NAME
from midspan.plugins._compatibility import SDK, canonical, incompatibility
from midspan.plugins._info import PluginInfo

GROUP = "midspan.plugins"


def discover() -> tuple[PluginInfo, ...]:
    """Find the installed plugins, sorted by id and distribution.

    A distribution that is found twice on the import path (an editable install beside an older one, say) counts once:
    the first is the one that Python would import.

    Returns:
        Plugins in the states `available`, `incompatible` and `broken`. Who owns an id that several bring, and what the
        operator wants, is decided in selection.
    """
    sdk_version = _sdk_version()
    found = [_info(entry_point, sdk_version) for entry_point in _entry_points()]
    return tuple(sorted(found, key=lambda info: (info.id, info.distribution or "", info.value)))


def _entry_points() -> Iterable[importlib_metadata.EntryPoint]:
    try:
        return list(importlib_metadata.entry_points(group=GROUP))  # pyright: ignore[reportUnknownMemberType] - its parameters have no types
    except Exception:  # noqa: BLE001 - whatever a broken distribution raises
        # It fails as a whole when the metadata of any distribution, a plugin or not, is damaged.
        return list(_readable_entry_points())


def _readable_entry_points() -> Iterator[importlib_metadata.EntryPoint]:
    seen: set[str] = set()
    for distribution in importlib_metadata.distributions():  # pyright: ignore[reportUnknownMemberType] - its parameters have no types
        try:
            name = canonical(distribution.name)
            entry_points = list(distribution.entry_points.select(group=GROUP))
        except Exception:  # noqa: BLE001, S112 - damaged metadata; an enabled plugin in it is missed at selection
            continue
        if name not in seen:
            seen.add(name)
            yield from entry_points


def _info(entry_point: importlib_metadata.EntryPoint, sdk_version: str | None) -> PluginInfo:
    name, version, requirements = _metadata(entry_point)
    info = PluginInfo(id=entry_point.name, distribution=name, version=version, value=entry_point.value)
    if not NAME.fullmatch(entry_point.name):
        return info.in_state(
            "broken", "its id takes lower-case letters, digits and hyphens, and starts with a letter: rename it"
        )
    if entry_point.pattern.match(entry_point.value) is None:
        return info.in_state("broken", f"its entry point {entry_point.value!r} names no module and no object in one")
    reason = incompatibility(requirements, sdk_version)
    return info if reason is None else info.in_state("incompatible", reason)


def _metadata(entry_point: importlib_metadata.EntryPoint) -> tuple[str, str, list[str]]:
    distribution = entry_point.dist
    try:
        assert distribution is not None
        return distribution.name, distribution.version, distribution.requires or []
    except Exception:  # noqa: BLE001 - damaged metadata
        return "unknown", "unknown", []


def _sdk_version() -> str | None:
    try:
        return importlib_metadata.version(SDK)
    except importlib_metadata.PackageNotFoundError:
        return None
