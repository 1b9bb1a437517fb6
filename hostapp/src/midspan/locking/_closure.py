"""Which distributions are locked: the plugins', the host's, and all that these require."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from midspan.errors import OperatorError
from midspan.locking._distributions import Distribution, installed
from midspan.locking._files import FoundFile, files_of, hash_of, hash_of_all

HOST = ("midspan", "midspan-sdk")
"""Distributions that are locked file by file whatever the plugins are."""
ENVIRONMENT = (
    f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}, {sys.platform} {platform.machine()}"
)
"""What decides which files a distribution has, and which distributions are required."""

_EXTRA_ONLY = re.compile(r""";.*\bextra\s*==\s*(?P<quote>['"])(?P<extra>[^'"]+)(?P=quote)\s*\)?\s*$""")


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDistribution:
    """A distribution as it is installed.

    Attributes:
        name: in normal form.
        version: its version.
        hashes: of its files, by their names.
        files: where they are.
        of_plugins: whether it is a plugin's, or only plugins require it.
    """

    name: str
    version: str
    hashes: Mapping[str, str]
    files: Mapping[str, FoundFile] = field(repr=False)
    of_plugins: bool

    @property
    def hash(self) -> str:
        """`sha256:<hex>` over all files."""
        return hash_of_all(self.hashes)


def found_distributions(plugins: Mapping[str, Iterable[str]]) -> dict[str, FoundDistribution]:
    """Find what is installed of all that the host and the plugins need, and hash its files.

    Args:
        plugins: the modules of the plugins' entry points, by distribution.

    Returns:
        The distributions by name. One that is required and not there is left out.

    Raises:
        OperatorError: metadata or a file cannot be read.
    """
    modules: dict[str, tuple[str, ...]] = {canonicalize_name(name): tuple(found) for name, found in plugins.items()}
    host, others = closure(HOST), closure(modules)
    of_plugins = {*modules, *(others.keys() - host.keys())}
    return {
        name: _hashed(one, modules.get(name, ()), name in of_plugins)
        for name, one in sorted({**host, **others}.items())
    }


def _hashed(distribution: Distribution, modules: Iterable[str], of_plugins: bool) -> FoundDistribution:
    files = files_of(distribution, modules)
    return FoundDistribution(
        name=distribution.name,
        version=distribution.version,
        hashes={name: hash_of(file.path) for name, file in sorted(files.items())},
        files=files,
        of_plugins=of_plugins,
    )


def closure(roots: Iterable[str]) -> dict[str, Distribution]:
    """Return distributions and all that they require in this environment, extras followed, by name.

    Raises:
        OperatorError: metadata, or a requirement in it, cannot be read.
    """
    found: dict[str, Distribution | None] = {}
    extras: dict[str, set[str]] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(canonicalize_name(root), frozenset({""})) for root in roots]
    while waiting:
        name, wanted = waiting.pop()
        if name not in found:
            found[name] = installed(name)
        new = wanted - extras.setdefault(name, set())
        distribution = found[name]
        if distribution is None or not new:
            continue
        extras[name] |= new
        waiting.extend(_required(distribution, new))
    return {name: one for name, one in found.items() if one is not None}


def _required(distribution: Distribution, extras: frozenset[str]) -> Iterable[tuple[str, frozenset[str]]]:
    for line in distribution.requires:
        if _is_of_another_extra(line, extras):
            continue
        try:
            requirement = Requirement(line)
            marker = requirement.marker
            wanted = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
        except (InvalidRequirement, UndefinedEnvironmentName) as error:
            where = f"{distribution.name} {distribution.version}"
            raise OperatorError(f"{where}: its requirement {line!r} cannot be read: {error}") from error
        if wanted:
            yield canonicalize_name(requirement.name), frozenset({"", *map(canonicalize_name, requirement.extras)})


def _is_of_another_extra(line: str, extras: frozenset[str]) -> bool:
    """Tell it of the most usual form without parsing: most lines are of extras that nobody asked for."""
    match = _EXTRA_ONLY.search(line)
    return match is not None and " or " not in line and canonicalize_name(match["extra"]) not in extras
