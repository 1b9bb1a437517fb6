"""Event names and how hooks match them.

An event is the JSON-RPC method of the message. A pattern is a method name, or a glob in which `*` stands for any run of
characters, `/` included, so that `resources/*` and `*/list` both cover `resources/templates/list`. No other character
is special.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = [
    "CLIENT_METHODS",
    "ELICITATION_CREATE",
    "INITIALIZE",
    "METHODS",
    "PROMPTS_GET",
    "PROMPTS_LIST",
    "RESOURCES_LIST",
    "RESOURCES_READ",
    "RESOURCES_SUBSCRIBE",
    "ROOTS_LIST",
    "SAMPLING_CREATE_MESSAGE",
    "SERVER_DISCOVER",
    "SERVER_METHODS",
    "TOOLS_CALL",
    "TOOLS_LIST",
    "covers",
    "hooked_only_by_name",
    "is_notification",
    "matches",
    "matches_any",
    "overlaps",
]

TOOLS_CALL: Final = "tools/call"
TOOLS_LIST: Final = "tools/list"
PROMPTS_GET: Final = "prompts/get"
PROMPTS_LIST: Final = "prompts/list"
RESOURCES_READ: Final = "resources/read"
RESOURCES_LIST: Final = "resources/list"
RESOURCES_SUBSCRIBE: Final = "resources/subscribe"
SAMPLING_CREATE_MESSAGE: Final = "sampling/createMessage"
ELICITATION_CREATE: Final = "elicitation/create"
ROOTS_LIST: Final = "roots/list"
INITIALIZE: Final = "initialize"
SERVER_DISCOVER: Final = "server/discover"

_BY_EITHER: Final = (
    "notifications/cancelled",
    "notifications/progress",
    "notifications/tasks/status",
    "ping",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
)
CLIENT_METHODS: Final = tuple(
    sorted(
        (
            *_BY_EITHER,
            INITIALIZE,
            PROMPTS_GET,
            PROMPTS_LIST,
            RESOURCES_LIST,
            RESOURCES_READ,
            RESOURCES_SUBSCRIBE,
            SERVER_DISCOVER,
            TOOLS_CALL,
            TOOLS_LIST,
            "completion/complete",
            "logging/setLevel",
            "notifications/initialized",
            "notifications/roots/list_changed",
            "resources/templates/list",
            "resources/unsubscribe",
            "subscriptions/listen",
        )
    )
)
"""What clients send in any revision of MCP, requests and notifications."""
SERVER_METHODS: Final = tuple(
    sorted(
        (
            *_BY_EITHER,
            ELICITATION_CREATE,
            ROOTS_LIST,
            SAMPLING_CREATE_MESSAGE,
            "notifications/elicitation/complete",
            "notifications/message",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
        )
    )
)
"""What servers send in any revision of MCP; since 2026-07-28 their requests travel in results, and are judged alike."""
METHODS: Final = tuple(sorted({*CLIENT_METHODS, *SERVER_METHODS}))
"""Every method of MCP, in any revision. A connection may carry others too."""

_ONLY_BY_NAME: Final = frozenset({INITIALIZE, SERVER_DISCOVER})


def matches(pattern: str, event: str) -> bool:
    """Tell whether a hook's event pattern matches the event (a JSON-RPC method)."""
    if "*" not in pattern:
        return pattern == event
    head, *middle, tail = pattern.split("*")
    position, end = len(head), len(event) - len(tail)
    if position > end or not (event.startswith(head) and event.endswith(tail)):
        return False
    # The leftmost place is as good as any, so the time is linear in the name, which a peer may have chosen.
    for part in middle:
        position = event.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def matches_any(patterns: Iterable[str], event: str) -> bool:
    """Tell whether any of the patterns matches the event."""
    return any(matches(pattern, event) for pattern in patterns)


def hooked_only_by_name(event: str) -> bool:
    """Tell whether a gateway shows the event only to interceptors that hook it by its full name.

    `initialize` and `server/discover` set a connection up; a wildcard does not reach them.
    """
    return event in _ONLY_BY_NAME


def is_notification(event: str) -> bool:
    """Tell whether the event is a notification, which nobody answers: it has a request phase only."""
    return event.startswith("notifications/")


def covers(wider: str, narrower: str) -> bool:
    """Tell whether every event that `narrower` matches is matched by `wider` too.

    Used to refuse overrides that widen a hook. Both may be globs.
    """
    if "*" not in narrower:
        return matches(wider, narrower)
    # A `*` of the narrower pattern is a letter that only a `*` of the wider one can absorb, because no event name
    # contains it; so the question is an ordinary match.
    return wider == narrower or matches(wider, narrower)


def overlaps(one: str, other: str) -> bool:
    """Tell whether some event could match both patterns.

    `interceptors/list` with an `event` filter that is itself a glob asks this question.
    """
    if "*" not in one:
        return matches(other, one)
    if "*" not in other:
        return matches(one, other)
    prefix, other_prefix = one.partition("*")[0], other.partition("*")[0]
    suffix, other_suffix = one.rpartition("*")[2], other.rpartition("*")[2]
    heads_agree = prefix.startswith(other_prefix) or other_prefix.startswith(prefix)
    tails_agree = suffix.endswith(other_suffix) or other_suffix.endswith(suffix)
    return heads_agree and tails_agree
