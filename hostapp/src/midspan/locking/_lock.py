"""The lock: taken from what is there, and compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from packaging.utils import canonicalize_name

from midspan.locking._closure import ENVIRONMENT, HOST, FoundDistribution, found_distributions
from midspan.locking._descriptors import BuiltChain, described
from midspan.locking._difference import Difference, LockError
from midspan.locking._files import hash_of, packages_in
from midspan.locking._imports import import_from_source
from midspan.locking._verify import chain_differences, distribution_differences, plugin_differences
from midspan.plugins import PluginInfo


class LockChecks(Protocol):
    """What `midspan.plugins.Builder` tells while it works."""

    def check_distributions(self, plugins: Sequence[PluginInfo]) -> None:
        """Take the plugins that are to run, before any is imported."""
        ...

    def check_chains(self, chains: Mapping[str, BuiltChain]) -> None:
        """Take the chains that were built, by server."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """What the guards consist of. As `Builder(locked=)` it refuses whatever differs.

    Attributes:
        environment: the Python and the platform it was made on.
        plugins: by id: distribution, version and entry point, or file and hash.
        distributions: by name: version, and the hashes of all files or one over all.
        chains: by server, `*` for one that has no table: entries, observers and the order of mutators.
    """

    environment: str
    plugins: Mapping[str, Mapping[str, Any]]
    distributions: Mapping[str, Mapping[str, Any]]
    chains: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, plugins: Iterable[PluginInfo], chains: Mapping[str, BuiltChain]) -> Lock:
        """Take the lock of what is there.

        Args:
            plugins: those that run.
            chains: by server, `*` for one that has no table.

        Raises:
            OperatorError: a file, or the metadata of a distribution, cannot be read.
        """
        known = list(plugins)
        in_full = {*HOST, *(canonicalize_name(info.distribution) for info in known if info.distribution)}
        found = found_distributions(_modules(known))
        return cls(
            environment=ENVIRONMENT,
            plugins={info.id: _plugin(info) for info in known},
            distributions={name: _distribution(one, name in in_full) for name, one in found.items()},
            chains={name: described(chain) for name, chain in chains.items()},
        )

    def differences_of_distributions(self, plugins: Iterable[PluginInfo]) -> list[Difference]:
        """Compare plugins, distributions, versions and files. Imports nothing of a plugin.

        Args:
            plugins: those that are to run; of an id that several distributions bring, all.

        Raises:
            OperatorError: a file, or the metadata of a distribution, cannot be read.
        """
        return self._compared(list(plugins))[0]

    def _compared(self, plugins: Sequence[PluginInfo]) -> tuple[list[Difference], dict[str, FoundDistribution]]:
        if self.environment != ENVIRONMENT:
            # Each file may differ then, and says nothing.
            there = {"expected": self.environment, "found": ENVIRONMENT}
            return [Difference(group="environment", subject="the environment", **there)], {}
        found = found_distributions(_modules(plugins))
        given = [(info, _plugin(info)) for info in plugins]
        differences = [*plugin_differences(self.plugins, given), *distribution_differences(self.distributions, found)]
        return differences, found

    def differences_of_chains(self, chains: Mapping[str, BuiltChain], *, whole: bool = False) -> list[Difference]:
        """Compare chains.

        Args:
            chains: by server. A server that is not in the lock differs.
            whole: whether these are all, so that one which is only in the lock differs too.
        """
        return chain_differences(self.chains, {name: described(chain) for name, chain in chains.items()}, whole=whole)

    def check_distributions(self, plugins: Sequence[PluginInfo]) -> None:
        """Refuse plugins, distributions, versions and files that differ.

        When none does, the plugins' packages, and those that only plugins require, are imported from source from then
        on: bytecode was not compared.

        Raises:
            LockError: one differs.
        """
        differences, found = self._compared(plugins)
        _refuse(differences)
        import_from_source(name for one in found.values() if one.of_plugins for name in packages_in(one.files))

    def check_chains(self, chains: Mapping[str, BuiltChain]) -> None:
        """Refuse chains that differ.

        Raises:
            LockError: one differs.
        """
        _refuse(self.differences_of_chains(chains))


@dataclass(slots=True)
class Taken:
    """Keeps what `Builder(locked=)` tells, and refuses nothing.

    Attributes:
        plugins: those that are to run.
        chains: those that were built, by server; empty when none could be.
    """

    plugins: Sequence[PluginInfo] = ()
    chains: Mapping[str, BuiltChain] = field(default_factory=dict[str, BuiltChain])

    def check_distributions(self, plugins: Sequence[PluginInfo]) -> None:
        """Keep the plugins."""
        self.plugins = plugins

    def check_chains(self, chains: Mapping[str, BuiltChain]) -> None:
        """Keep the chains, beside those that were told before."""
        self.chains = {**self.chains, **chains}

    def lock(self) -> Lock:
        """Return the lock of it."""
        return Lock.of(self.plugins, self.chains)


def _refuse(differences: Sequence[Difference]) -> None:
    if differences:
        raise LockError(differences)


def _modules(plugins: Iterable[PluginInfo]) -> dict[str, list[str]]:
    modules: dict[str, list[str]] = {}
    for info in plugins:
        if info.distribution is not None:
            modules.setdefault(info.distribution, []).append(info.value.partition(":")[0].strip())
    return modules


def _plugin(info: PluginInfo) -> dict[str, str]:
    if info.file is not None:
        return {"file": info.file.name, "hash": hash_of(str(info.file))}
    assert info.distribution is not None
    return {"distribution": info.distribution, "version": info.version or "unknown", "entry_point": info.value}


def _distribution(found: FoundDistribution, in_full: bool) -> dict[str, Any]:
    if in_full:
        return {"version": found.version, "files": dict(found.hashes)}
    return {"version": found.version, "hash": found.hash}
