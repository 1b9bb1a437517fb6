"""An interceptor as a chain runs it: what its entry's policy says, as if the author had written it."""

from __future__ import annotations

from typing import Any

from midspan_sdk._authoring import Interceptor
from midspan_sdk._entries import ChainEntry


def as_configured(interceptor: Interceptor[..., Any], entry: ChainEntry) -> Interceptor[..., Any]:
    """Return a copy with mode, failing open, hooks, priority and deadline of its entry."""
    configured = interceptor.bound()
    hint = entry.overrides.priority_hint
    configured.descriptor = interceptor.descriptor.model_copy(
        update={
            "mode": entry.mode,
            "fail_open": entry.fail_open,
            "hooks": entry.hooks,
            "priority_hint": interceptor.descriptor.priority_hint if hint is None else hint,
        }
    )
    if entry.overrides.timeout_ms is not None:
        configured.timeout = entry.timeout
    return configured
