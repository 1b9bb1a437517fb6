"""What is known of a plugin before anything of it is imported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from midspan.errors import ConfigError, PluginError

State = Literal["available", "enabled", "disabled", "blocked", "incompatible", "duplicate", "broken"]
STATES: tuple[State, ...] = (
    "available",
    "enabled",
    "disabled",
    "blocked",
    "incompatible",
    "duplicate",
    "broken",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginInfo:
    """One plugin, from metadata alone.

    Attributes:
        id: the name of its entry point; used in config, on the command line and in logs.
        distribution: the distribution that brings it, or None for a plugin file.
        version: the distribution's version, or None for a plugin file.
        value: what the entry point names, `package.module` or `package.module:object`; a plugin file's path.
        file: the plugin file, or None.
        state: `available` (installed, not named by anybody), `enabled`, `disabled` (its table does not enable it),
            `blocked` (by `--no-plugin`), `incompatible` (its requirement on midspan-sdk does not admit the installed
            one), `duplicate` (its id has another owner beside it, or instead of it), `broken` (it cannot be loaded).
        reason: why it is in that state, or None when there is nothing to say.
    """

    id: str
    distribution: str | None = None
    version: str | None = None
    value: str
    file: Path | None = None
    state: State = "available"
    reason: str | None = None

    @property
    def origin(self) -> str:
        """Where it comes from, in words: `midspan-pii 1.2`, or `file no_rm.py`."""
        return f"file {self.file}" if self.file is not None else f"{self.distribution} {self.version}"

    def in_state(self, state: State, reason: str | None = None) -> PluginInfo:
        """Return the same plugin in another state."""
        return replace(self, state=state, reason=reason)

    def error(self, problem: str, *, instance: str | None = None, place: ConfigError | None = None) -> PluginError:
        """Return an error that names this plugin and where it comes from.

        Args:
            problem: what is wrong.
            instance: the config table it runs as, or None when the plugin itself is meant.
            place: the mistake in the config file that it comes from, if any.
        """
        return PluginError(
            self.id,
            problem,
            instance=instance,
            distribution=self.distribution,
            version=self.version,
            origin=self.origin,
            place=place,
        )
