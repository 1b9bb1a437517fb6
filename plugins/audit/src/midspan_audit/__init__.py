"""The audit plugin: one durable JSONL record per decision, with digests in the place of values.

The hooks below are what a host sees of it. `AuditConfig` is the model of `[plugins.audit.config]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from midspan_audit._command import VERIFY
from midspan_audit._config import AuditConfig
from midspan_audit._errors import AuditLogError
from midspan_audit._observer import AuditObserver
from midspan_audit._open_logs import OpenLogs
from midspan_sdk import Command, Observer, hookimpl

__all__ = [
    "AuditConfig",
    "AuditLogError",
    "midspan_commands",
    "midspan_config",
    "midspan_lifespan",
    "midspan_observers",
]

_open_logs = OpenLogs()


@hookimpl
def midspan_config() -> type[AuditConfig]:
    """Name the config model."""
    return AuditConfig


@hookimpl
def midspan_lifespan(config: AuditConfig, instance: str) -> AbstractAsyncContextManager[None]:
    """Open the log before traffic flows, and close it after draining.

    Raises, when entered:
        AuditLogError: the log cannot be opened, or its last line is none of ours.
    """
    return _open_logs.hold(instance, config)


@hookimpl
def midspan_observers(config: AuditConfig, instance: str) -> Sequence[Observer]:
    """Contribute the observer. It writes to the log that `midspan_lifespan` opened for the same instance and config."""
    return (AuditObserver(instance, config, _open_logs),)


@hookimpl
def midspan_commands() -> Sequence[Command]:
    """Contribute `midspan audit verify`."""
    return (VERIFY,)
