"""Messages between a transport of lines and one of bodies and events."""

from __future__ import annotations

from typing import Final, cast

from midspan.relay import (
    JSONFaultError,
    Message,
    MessageId,
    Outline,
    classify,
    outline_of,
    outlines_of_value,
    read,
)

LISTEN: Final = "subscriptions/listen"
"""Its answer comes with the end of the subscription, so nobody waits for it."""


def one_line(message: bytes) -> bytes:
    """Return a message without line ends, which are white space in it.

    That they are, only a message that is JSON as it stands can tell: inside of a string they are a fault.

    Raises:
        JSONFaultError: it is no JSON.
    """
    if b"\n" not in message and b"\r" not in message:
        return message
    read(message)
    return message.replace(b"\r", b" ").replace(b"\n", b" ").strip()


def outlined(line: bytes) -> Outline | None:
    """Return what a message is; None when it is none."""
    outline = outline_of(line)
    if not outline.is_call and (not outline.is_answer or outline.id is None):
        try:
            message = classify(read(line).value)
        except JSONFaultError:
            return outline if outline.is_answer else None
        is_call = message.kind in ("request", "notification")
        return Outline(message.id, is_call, not is_call)
    return outline


def outlines(line: bytes) -> list[Outline]:
    """Return what a message is, or each message of a batch; none when it is neither."""
    if not line.lstrip().startswith(b"["):
        outline = outlined(line)
        return [] if outline is None else [outline]
    try:
        value = read(line).value
    except JSONFaultError:
        return []
    each = [one for item in cast("list[object]", value) for one in outlines_of_value(item)]
    return each if all(one.is_call or one.is_answer for one in each) else []


def message_of(line: bytes) -> Message | None:
    """Read a line; None when it is no single message."""
    try:
        return classify(read(line).value)
    except JSONFaultError:
        return None


def requested(line: bytes, message: Message | None) -> list[MessageId]:
    """Return the ids of the requests in a line. What cannot be read is judged by its ends.

    Args:
        line: a message, or a batch.
        message: what `message_of` says of it.
    """
    if message is not None:
        return [message.id] if message.kind == "request" and message.id is not None else []
    return [one.id for one in outlines(line) if one.is_call and one.id is not None]
