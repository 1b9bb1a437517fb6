"""Distributions that the config requires."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.errors import OperatorError


def unmet_requirements(config: Config) -> Iterator[OperatorError]:
    """Yield each requirement of the config that what is installed does not meet."""
    # The seam for `midspan.installing`: what decides there whether a requirement is met belongs here too.
    import importlib_metadata
    from packaging.requirements import Requirement

    for index, text in enumerate(config.settings.requires):
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            version = importlib_metadata.version(requirement.name)
        except importlib_metadata.PackageNotFoundError:
            problem = f"{requirement.name} is not installed; `midspan plugins install '{text}'`"
            yield config.source.error(problem, "requires", index)
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            problem = f"{requirement.name} {version} is installed, which {text!r} does not admit"
            yield config.source.error(problem, "requires", index)
