"""What the plugin contributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from midspan_sdk import Bindings, Interceptor, MutationResult, ValidationResult, deny, hookimpl, mutator, validator
from midspan_sdk.events import INITIALIZE, SERVER_DISCOVER
from midspan_secrets._config import SecretsConfig
from midspan_secrets._redaction import protected_finding, redacted

# The two that no wildcard covers carry instructions, which a model reads.
_EVENTS: Final = ("*", INITIALIZE, SERVER_DISCOVER)
# Redaction comes after mutators that may bring text of their own.
_LATE: Final = 1000
# Seconds; a payload of 5 MB takes a fraction of one.
_TIMEOUT: Final = 5.0


@mutator(events=_EVENTS, phase="both", errors=True, priority_hint=_LATE, timeout=_TIMEOUT)
def redact(payload: dict[str, Any], config: SecretsConfig) -> MutationResult | None:
    """Replace provider keys, JWTs and private keys in all text that may be edited."""
    found = redacted(payload, config)
    if found is None:
        return None
    edited, report = found
    return MutationResult(modified=True, payload=edited, info=report)


@validator(events=_EVENTS, phase="both", errors=True, timeout=_TIMEOUT)
def protected(payload: dict[str, Any], config: SecretsConfig) -> ValidationResult | None:
    """Deny a message with a secret where no mutator may edit: targets, cursors, reserved metadata."""
    found = protected_finding(payload, config)
    if found is None:
        return None
    kind, path = found
    return deny(
        f"secret of kind {kind} in {path}, which cannot be redacted; leave it out",
        path=path,
        info={"rule": "protected", "kind": kind, "path": path},
    )


@hookimpl
def midspan_config() -> type[SecretsConfig]:
    """Name the config model."""
    return SecretsConfig


@hookimpl
def midspan_interceptors(config: SecretsConfig | None) -> Sequence[Interceptor[..., Any]]:
    """Contribute the redactor and the validator that backs it."""
    bindings = Bindings(config if config is not None else SecretsConfig())
    return [redact.bound(bindings=bindings), protected.bound(bindings=bindings)]
