"""Installing distributions into the environment that the host runs in, whatever tool made it.

An environment of `uv tool` or pipx is changed by that tool, since it keeps a record of what belongs to the environment,
and what is not in the record is gone with the next upgrade. Any other is changed by pip, or by uv where pip is missing.

Needs importlib-metadata and the standard library to be imported; `packaging` is imported when it is first needed.
"""

from __future__ import annotations

from midspan.installing._environment import Environment
from midspan.installing._install import commands_for, install
from midspan.installing._requirements import UnmetRequirement, unmet_requirements

__all__ = [
    "Environment",
    "UnmetRequirement",
    "commands_for",
    "install",
    "unmet_requirements",
]
