"""Comparing what the lock says with what is there, one sentence for each difference."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from midspan.locking._closure import FoundDistribution
from midspan.locking._descriptors import ANY_SERVER, names_in
from midspan.locking._difference import Difference, hash_difference
from midspan.locking._distributions import installed
from midspan.plugins import PluginInfo

_NOTHING = "nothing"
_LONGEST = 80
"""Characters of a value that are shown."""

Json = Mapping[str, Any]


def plugin_differences(locked: Mapping[str, Json], given: Sequence[tuple[PluginInfo, Json]]) -> Iterator[Difference]:
    """Compare who owns each plugin id.

    Args:
        locked: the lock's plugins, by id.
        given: those that are to run, each with what the lock would say of it; several for an id that is contested.
    """
    for plugin in sorted({*locked, *(info.id for info, _ in given)}):
        owners = [found for info, found in given if info.id == plugin]
        yield from _plugin_differences(plugin, locked.get(plugin), owners)


def _plugin_differences(plugin: str, expected: Json | None, owners: Sequence[Json]) -> Iterator[Difference]:
    subject = f"plugin {plugin!r}"
    build = partial(Difference, group=_group(expected or owners[0]), subject=subject)
    if expected is None:
        yield build(expected="no such plugin in the lock", found=" and ".join(map(_origin, owners)))
    elif not owners:
        yield build(expected=_origin(expected), found="none that is enabled")
    elif len(owners) > 1 or _owner(owners[0]) != _owner(expected):
        yield build(expected=_origin(expected), found=" and ".join(map(_origin, owners)))
    elif "file" in expected:
        difference = partial(Difference, group=_group(expected), subject=f"{subject} (file {expected['file']})")
        yield from _of_hashes(difference, expected.get("hash"), owners[0].get("hash"))
    elif owners[0].get("entry_point") != expected.get("entry_point"):
        yield Difference(
            group=_group(expected),
            subject=f"{subject} ({_origin(owners[0])})",
            what="entry point",
            expected=_value(expected.get("entry_point")),
            found=_value(owners[0].get("entry_point")),
        )


def _owner(plugin: Json) -> tuple[object, object]:
    return plugin.get("distribution"), plugin.get("file")


def _origin(plugin: Json) -> str:
    return f"file {plugin['file']}" if "file" in plugin else f"{plugin.get('distribution')} {plugin.get('version')}"


def _group(plugin: Json) -> str:
    return f"plugin file {plugin['file']}" if "file" in plugin else str(plugin.get("distribution"))


def _of_hashes(
    build: partial[Difference], expected: str | None, found: str | None, where: str | None = None
) -> Iterator[Difference]:
    difference = hash_difference(lambda one, other: build(expected=one, found=other), expected, found, where)
    if difference is not None:
        yield difference


def distribution_differences(
    locked: Mapping[str, Json], found: Mapping[str, FoundDistribution]
) -> Iterator[Difference]:
    """Compare distributions: those that are locked file by file first.

    Args:
        locked: the lock's distributions, by name.
        found: those that the host and the plugins need as they are installed.
    """
    for name in sorted({*locked, *found}, key=lambda name: ("files" not in locked.get(name, {}), name)):
        expected, there = locked.get(name), found.get(name)
        if expected is None:
            assert there is not None
            yield Difference(group=name, subject=name, expected="no such distribution", found=there.version)
        elif there is None:
            # One that is there and no longer needed differs in whatever needed it.
            if installed(name) is None:
                yield Difference(group=name, subject=name, expected=expected["version"], found="not installed")
        else:
            yield from _distribution_differences(name, expected, there)


def _distribution_differences(name: str, expected: Json, found: FoundDistribution) -> Iterator[Difference]:
    build = partial(Difference, group=name, subject=f"{name} {found.version}")
    if expected["version"] != found.version:
        yield build(what="version", expected=expected["version"], found=found.version)
    files = cast("Mapping[str, str] | None", expected.get("files"))
    if files is None:
        # The files of another version are others; that says nothing.
        if expected["version"] == found.version:
            yield from _of_hashes(partial(build, what="its files together"), expected.get("hash"), found.hash)
        return
    for file in sorted({*files, *found.hashes}):
        where = _where(file, found, expected=file in files)
        yield from _of_hashes(partial(build, what=file), files.get(file), found.hashes.get(file), where)


def _where(file: str, found: FoundDistribution, *, expected: bool) -> str | None:
    """Return the place of a file that nobody would look for where it is; of one that is missing, the package's."""
    there = found.files.get(file)
    if there is not None:
        return there.path if there.shadows or not expected else None
    folder = f"{file.partition('/')[0]}/"
    beside = next((name for name in found.files if name.startswith(folder)), None)
    if beside is None or file.startswith("."):
        return None
    return found.files[beside].path.removesuffix(beside.removeprefix(folder).replace("/", os.sep))


def chain_differences(locked: Mapping[str, Json], found: Mapping[str, Json], *, whole: bool) -> list[Difference]:
    """Compare chains as they are described; what differs alike for several servers is told once.

    Args:
        locked: the lock's chains, by server.
        found: those that were built, by server.
        whole: whether a chain that is only in the lock differs.
    """
    compared = sorted({*found, *locked} if whole else found)
    servers: dict[Difference, list[str]] = {}
    missing: list[Difference] = []
    for server in compared:
        if server not in locked or server not in found:
            names = ("no such server", "one") if server not in locked else ("one", "no such server")
            missing.append(Difference(group="chains", subject=_chain_of(server), expected=names[0], found=names[1]))
            continue
        for difference in _chain_differences(locked[server], found[server]):
            servers.setdefault(difference, []).append(server)
    return [*missing, *(_at(difference, at, compared) for difference, at in servers.items())]


def _chain_of(server: str) -> str:
    return "the chain of a server without a table" if server == ANY_SERVER else f"the chain of server {server!r}"


def _at(difference: Difference, servers: Sequence[str], compared: Sequence[str]) -> Difference:
    if len(servers) == len(compared):
        return difference
    return Difference(
        group=difference.group,
        subject=f"{difference.subject} for {', '.join(servers)}",
        what=difference.what,
        expected=difference.expected,
        found=difference.found,
    )


def _chain_differences(locked: Json, found: Json) -> Iterator[Difference]:
    yield from _member_differences("", locked["entries"], found["entries"])
    yield from _member_differences("observer ", locked["observers"], found["observers"])
    if sorted(names_in(locked)) == sorted(names_in(found)):
        orders = {"order of registration": (names_in(locked), names_in(found))}
        for phase, names in locked["mutators"].items():
            orders[f"order of mutators ({phase})"] = (names, found["mutators"].get(phase, []))
        for what, (expected, there) in orders.items():
            if expected != there:
                yield Difference(
                    group="chains", subject="the chain", what=what, expected=_listed(expected), found=_listed(there)
                )


def _member_differences(kind: str, locked: Iterable[Json], found: Iterable[Json]) -> Iterator[Difference]:
    expected = {one["name"]: one for one in locked}
    there = {one["name"]: one for one in found}
    for name in [*expected, *(name for name in there if name not in expected)]:
        one, other = expected.get(name), there.get(name)
        build = partial(Difference, **_named(f"{kind}{name}", one if other is None else other))
        if one is None:
            yield build(expected="none of that name", found=_kind(other))
        elif other is None:
            yield build(expected=_kind(one), found="none of that name")
        else:
            for what, value, given in _leaves((), _versionless(one), _versionless(other)):
                yield build(what=_dotted(what), expected=_value(value), found=_value(given))


def _kind(member: Json | None) -> str:
    return "one" if member is None else str(member.get("type", "one"))


def _named(name: str, member: Json | None) -> dict[str, str]:
    """Return group and subject of a member: with the distribution, the plugin file or the server that it is of."""
    assert member is not None
    origin: str | None = member.get("distribution", member.get("interceptor_server"))
    if origin is None:
        return {"group": "chains", "subject": name}
    distribution, _, version = origin.partition("==")
    if not version:
        return {"group": f"plugin {origin}", "subject": f"{name} ({origin})"}
    return {"group": distribution, "subject": f"{name} ({distribution} {version})"}


def _versionless(member: Json) -> Json:
    """Return a member without the version of its distribution, which is told of the distribution."""
    origin = member.get("distribution")
    return member if origin is None else {**member, "distribution": str(origin).partition("==")[0]}


_ABSENT = object()


def _leaves(path: tuple[str, ...], one: object, other: object) -> Iterator[tuple[tuple[str, ...], object, object]]:
    """Yield where two JSON values differ, as deep as both are objects."""
    first, second = _object(one), _object(other)
    if first is not None and second is not None:
        for key in [*first, *(key for key in second if key not in first)]:
            yield from _leaves((*path, key), first.get(key, _ABSENT), second.get(key, _ABSENT))
    elif type(one) is not type(other) or one != other:
        yield path, one, other


def _object(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _dotted(path: tuple[str, ...]) -> str:
    if path[:1] == ("priority",) and len(path) == 2:
        return f"priority ({path[1]})"
    return ".".join(path)


def _value(value: object) -> str:
    if value is _ABSENT or value is None:
        return _NOTHING
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or _NOTHING
