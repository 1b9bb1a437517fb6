"""Which messages there are: events with the way they go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from midspan_sdk import ChainEntry
from midspan_sdk.events import CLIENT_METHODS, METHODS, SERVER_METHODS, is_notification, matches
from midspan_sdk.wire import UNINTERCEPTED_METHODS, Direction, Phase

ANY_OTHER: Final = "*"
"""Stands for a method that the protocol does not have: only wildcards match it."""


class Flow(NamedTuple):
    """One way in which messages of an event go through a gateway.

    Attributes:
        phase: `request` or `response`; a notification has a request phase only.
        direction: `sending` is from the client to the server, `receiving` from the server to the client.
    """

    phase: Phase
    direction: Direction


_FLOWS: Final = (
    Flow("request", "sending"),
    Flow("response", "receiving"),
    Flow("request", "receiving"),
    Flow("response", "sending"),
)


def flows_of(event: str) -> list[Flow]:
    """Return the ways in which messages of an event go. One that MCP does not have is taken for a client's."""
    clients = event in CLIENT_METHODS or event not in SERVER_METHODS
    found = [*_FLOWS[:2]] if clients else []
    if event in SERVER_METHODS:
        found += _FLOWS[2:]
    return [flow for flow in found if flow.phase == "request" or not is_notification(event)]


def shown_events(entries: Iterable[ChainEntry]) -> Iterator[str]:
    """Yield the events to look at when none is named: those of MCP, and what else the entries hook."""
    yield from (method for method in METHODS if method not in UNINTERCEPTED_METHODS)
    patterns = dict.fromkeys(event for entry in entries for hook in entry.hooks for event in hook.events)
    for pattern in patterns:
        if pattern != ANY_OTHER and not any(matches(pattern, method) for method in METHODS):
            yield pattern
    if ANY_OTHER in patterns:
        yield ANY_OTHER


def sentence(flow: Flow) -> str:
    """Say who sends such a message, and in which order its stages run."""
    phase, direction = flow
    if direction == "sending":
        return (
            f"{phase}, client to server: mutators rewrite first, one after the other; then validators judge what "
            "leaves, side by side; then sinks get it"
        )
    return (
        f"{phase}, server to client: validators judge first what arrived, side by side; then mutators rewrite it, one "
        "after the other; then sinks get what leaves"
    )
