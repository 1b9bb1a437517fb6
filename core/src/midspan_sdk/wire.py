"""Every word of the interceptors protocol that stands on the wire.

The proposal (SEP-1763, continued as SEP-2624) still moves. A renamed method, key or code is changed here and nowhere
else; all other modules import these names.
"""

from typing import Final, Literal

__all__ = [
    "CAPABILITY_KEY",
    "CONTEXT_KEY",
    "EXECUTION_FAILED",
    "EXECUTION_FAILED_MESSAGE",
    "EXECUTION_TIMEOUT",
    "EXECUTION_TIMEOUT_MESSAGE",
    "INTERCEPTORS_KEY",
    "INVALID_PARAMS",
    "INVOKE_METHOD",
    "LEGACY_CAPABILITY_KEY",
    "LIST_METHOD",
    "MUTATION_FAILED_MESSAGE",
    "REQUEST_KEY",
    "STATE_GROUPS_KEY",
    "STATE_KEY",
    "SUPPORTED_EVENTS_KEY",
    "TIMEOUT_KEY",
    "UNINTERCEPTED_METHODS",
    "VALIDATION_FAILED_MESSAGE",
    "Direction",
    "InterceptorType",
    "Mode",
    "Phase",
    "Severity",
    "Status",
]

LIST_METHOD: Final = "interceptors/list"
INVOKE_METHOD: Final = "interceptor/invoke"

CAPABILITY_KEY: Final = "io.modelcontextprotocol/interceptors"
"""Key under `capabilities.extensions`, and under `capabilities.experimental` where a revision has no `extensions`."""
LEGACY_CAPABILITY_KEY: Final = "interceptor"
"""Older top-level capability key; read, never written."""
SUPPORTED_EVENTS_KEY: Final = "supportedEvents"
CONTEXT_KEY: Final = "context"
"""Parameter of `interceptor/invoke`; in the capability's settings, the list of context keys that interceptors need."""

INTERCEPTORS_KEY: Final = "interceptors"
"""The list in the result of `interceptors/list`."""
TIMEOUT_KEY: Final = "timeoutMs"
"""Deadline of an invocation, in milliseconds; also in the data of a timeout error."""

INVALID_PARAMS: Final = -32602
EXECUTION_FAILED: Final = -32603
EXECUTION_TIMEOUT: Final = -32000

EXECUTION_TIMEOUT_MESSAGE: Final = "Interceptor execution timeout"
EXECUTION_FAILED_MESSAGE: Final = "Interceptor execution failed"
VALIDATION_FAILED_MESSAGE: Final = "Interceptor validation failed"
MUTATION_FAILED_MESSAGE: Final = "Interceptor mutation failed"

STATE_KEY: Final = "interceptorState"
"""Key of the per-exchange state in an invocation's `context`, and in `info` of a result that returns it."""
STATE_GROUPS_KEY: Final = "stateGroups"
"""In the capability's settings: by interceptor name, whose state it shares, where its name's prefix does not say."""
REQUEST_KEY: Final = "request"
"""Key of the request's payload in the `context` of an invocation in the response phase."""

InterceptorType = Literal["validation", "mutation", "sink"]
Phase = Literal["request", "response"]
Direction = Literal["sending", "receiving"]
Mode = Literal["active", "audit"]
Severity = Literal["info", "warn", "error"]
Status = Literal["success", "validation_failed", "mutation_failed", "timeout"]

UNINTERCEPTED_METHODS: Final = frozenset({"notifications/initialized", "notifications/cancelled"})
"""Notifications that keep a connection working; no chain ever sees them."""
