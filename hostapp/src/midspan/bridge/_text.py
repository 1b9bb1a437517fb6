"""Messages between a transport of lines and one of bodies and events."""

from __future__ import annotations

from midspan.relay import JSONFaultError, Outline, classify, outline_of, read


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
