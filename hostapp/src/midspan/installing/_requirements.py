"""Whether requirements are met by what is installed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import importlib_metadata

from midspan.installing._specs import HOST

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class UnmetRequirement:
    """A requirement that what is installed does not meet.

    Attributes:
        index: its place in what was given, from 0.
        requirement: as it was given.
        problem: one sentence: what is wrong, and what to do.
    """

    index: int
    requirement: str
    problem: str


def unmet_requirements(requirements: Sequence[str]) -> list[UnmetRequirement]:
    """Find the requirements that are not met. Reads metadata only.

    A requirement whose environment marker does not hold here is met. Pre-releases count as the versions they are. Of a
    requirement with a URL only the name is looked at, and of one with extras only the distribution itself.

    Args:
        requirements: such as `midspan-pii>=0.2`.
    """
    return [
        UnmetRequirement(index=index, requirement=text, problem=problem)
        for index, text in enumerate(requirements)
        if (problem := _problem(text)) is not None
    ]


def _problem(text: str) -> str | None:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return f'{text!r} is not a requirement, such as "midspan-pii>=0.2"'
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    version = _installed(requirement.name)
    if version is None:
        return f"{requirement.name} is not installed; {_fix(requirement, text)}"
    if _admits(requirement, version):
        return None
    return f"{requirement.name} {version} is installed, which is not {requirement.specifier}; {_fix(requirement, text)}"


def _admits(requirement: Requirement, version: str) -> bool:
    from packaging.version import InvalidVersion

    if not requirement.specifier:
        return True
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _installed(name: str) -> str | None:
    try:
        # Damaged metadata has no version, whatever its type says.
        return importlib_metadata.version(name) or None
    except Exception:  # noqa: BLE001 - not there, or damaged metadata, which may raise anything
        return None


def _fix(requirement: Requirement, text: str) -> str:
    from packaging.utils import canonicalize_name

    if canonicalize_name(requirement.name) in HOST:
        return "upgrade midspan with the tool that installed it"
    return f"run: midspan plugins install {shlex.quote(text.strip())}"
