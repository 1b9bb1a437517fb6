"""Telling a client why there is no server: over the protocol, where the person sees it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from midspan.relay._json import INTERNAL_ERROR, JSONFaultError, read, write
from midspan.relay._messages import classify, error_message

_PROBE: Final = "server/discover"
_LONGEST: Final = 1024 * 1024


def answer_failed_start(streams: tuple[int, int], reason: str) -> None:
    """Answer the client's first request with an error that carries the reason; then return.

    A client that probes for the stateless era first takes an error as "speak the older era" and goes on to
    `initialize`; so the probe is answered, and the request after it too. Returns at once when a person types the
    input, and when the client closes it.

    Args:
        streams: descriptors of the client's input and output.
        reason: one line.
    """
    if os.isatty(streams[0]):
        return
    for line in _lines(streams[0]):
        if _answered_for_good(streams[1], line, reason):
            return


def _lines(descriptor: int) -> Iterator[bytes]:
    buffered = bytearray()
    while len(buffered) <= _LONGEST:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:
            chunk = b""
        buffered += chunk
        while (end := buffered.find(b"\n")) >= 0:
            yield bytes(buffered[:end])
            del buffered[: end + 1]
        if not chunk:
            yield bytes(buffered)
            return


def _answered_for_good(descriptor: int, line: bytes, reason: str) -> bool:
    try:
        message = classify(read(line).value)
    except JSONFaultError:
        return False
    if message.kind != "request":
        return False
    answer = memoryview(write(error_message(message.id, INTERNAL_ERROR, reason)) + b"\n")
    try:
        while answer:
            answer = answer[os.write(descriptor, answer) :]
    except OSError:
        return True
    return message.method != _PROBE
