"""The event that a command is about."""

from __future__ import annotations

from midspan.cli._output import print_warning
from midspan.errors import OperatorError


def check_event(event: str, *, response: bool) -> None:
    """Refuse an event that never comes, and note one that is hardly meant.

    Args:
        event: the JSON-RPC method.
        response: whether its response phase is wanted.

    Raises:
        OperatorError: no chain ever sees it, or it has no response.
    """
    from midspan.checking import mistyped
    from midspan_sdk.events import is_notification
    from midspan_sdk.wire import UNINTERCEPTED_METHODS

    if event in UNINTERCEPTED_METHODS:
        raise OperatorError(f"{event} keeps the connection working: no chain ever sees it")
    if response and is_notification(event):
        raise OperatorError(f"{event} is a notification, which nobody answers: it has no response phase")
    if near := mistyped(event):
        print_warning(f"MCP has no method {event!r}; did you mean {near!r}?")
