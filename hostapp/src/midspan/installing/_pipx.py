"""Commands for an environment of pipx: `pipx inject`, which also records what is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import importlib_metadata

from midspan.errors import OperatorError
from midspan.installing._commands import Command, added
from midspan.installing._environment import Environment
from midspan.installing._specs import Spec


def pipx_commands(
    environment: Environment, metadata: Path, specs: Sequence[Spec], *, upgrade: bool, constraints: Path
) -> Iterator[Command]:
    """Yield the commands that install into an environment of pipx.

    Raises:
        OperatorError: pipx is not found, or its record cannot be read.
    """
    pipx = environment.program("pipx")
    if pipx is None:
        raise OperatorError(
            "midspan was installed with pipx, which is not on PATH: put it there, and run this command again"
        )
    recorded = _injected(metadata)
    # As variables: pipx records the options of pip, and would use them again when the files are gone.
    variables = {
        "PIPX_HOME": str(environment.prefix.parents[1]),
        **added("PIP_CONSTRAINT", constraints),
        **added("UV_CONSTRAINT", constraints),
    }
    for editable in (False, True):
        for force in (False, True):
            # pipx leaves alone what it has injected before, unless it is forced.
            chosen = [
                spec.text
                for spec in specs
                if spec.editable is editable and _must_be_forced(spec, recorded, upgrade=upgrade) is force
            ]
            if chosen:
                options = [*(["--editable"] if editable else []), *(["--force"] if force else [])]
                yield Command(
                    arguments=(pipx, "inject", *options, environment.prefix.name, *chosen),
                    called="pipx inject",
                    environment=variables,
                )


def _must_be_forced(spec: Spec, recorded: frozenset[str], *, upgrade: bool) -> bool:
    if spec.name not in recorded:
        return False
    return upgrade or spec.bound is None or not _admitted(spec.name, spec.bound)


def _admitted(name: str, bound: str) -> bool:
    from packaging.specifiers import SpecifierSet

    try:
        return SpecifierSet(bound).contains(importlib_metadata.version(name), prereleases=True)
    except importlib_metadata.PackageNotFoundError:
        return False


def _injected(metadata: Path) -> frozenset[str]:
    from packaging.utils import canonicalize_name

    try:
        return frozenset(canonicalize_name(name) for name in json.loads(metadata.read_bytes())["injected_packages"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OperatorError(f"{metadata}: this record of pipx cannot be read: {error}") from error
