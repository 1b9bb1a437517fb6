"""One thing that is wrong, with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from midspan.config import Config
from midspan.errors import ConfigError, OperatorError, PluginError
from midspan.sight import place_text

Severity = Literal["error", "warning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        severity: an `error` stops a start, for some servers at least; a `warning` does not.
        problem: what, and what to do.
        place: where in the operator's files; None when it is nowhere there.
        servers: the servers in front of which no chain can be built because of it; empty when that is none, or all.
    """

    severity: Severity
    problem: str
    place: ConfigError | None
    servers: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, error: OperatorError, severity: Severity, config: Config | None, servers: tuple[str, ...] = ()
    ) -> Finding:
        """Return the finding that an operator's mistake is.

        Args:
            error: the mistake.
            severity: how bad it is.
            config: where the tables of plugin instances stand; None when it could not be read.
            servers: see the class.
        """
        place = error if isinstance(error, ConfigError) else None
        problem = error.message
        if isinstance(error, PluginError):
            place = error.place
            table = error.instance or error.plugin
            if place is None and config is not None and table in config.tables:
                return cls(
                    severity=severity,
                    problem=problem,
                    place=config.source.error("", "plugins", table),
                    servers=servers,
                )
        if place is not None:
            problem = f"{place.key}: {place.problem}" if place.key else place.problem
        return cls(severity=severity, problem=problem, place=place, servers=servers)

    @property
    def where(self) -> str:
        """The place as `midspan.toml:12:3`, or an empty text."""
        place = self.place
        return "" if place is None else place_text(place.file, place.line, place.column)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        place = self.place
        return {
            "severity": self.severity,
            "message": self.problem,
            "file": None if place is None or place.file is None else str(place.file),
            "line": None if place is None else place.line,
            "column": None if place is None else place.column,
            "key": None if place is None else place.key,
            "servers": list(self.servers),
        }
