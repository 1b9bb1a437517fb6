"""A plugin that judges and rewrites every message, and changes none: for `--plugin-file`."""

from __future__ import annotations

from typing import Any

from midspan_sdk import hookimpl, mutator, validator

EVERYTHING = ["*", "initialize", "server/discover"]
"""The last two are hooked by their names only."""


@validator(events=EVERYTHING, phase="both", errors=True)
def looks(payload: dict[str, Any]) -> None:
    """Allow."""


@mutator(events=EVERYTHING, phase="both", errors=True)
def copies(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the same payload as a new one."""
    return dict(payload)


@hookimpl
def midspan_interceptors() -> list[Any]:
    """Contribute both."""
    return [looks, copies]
