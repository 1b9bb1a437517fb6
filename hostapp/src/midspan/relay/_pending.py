"""Which requests a server owes an answer, told from the lines that pass."""

from __future__ import annotations

import json
from typing import Final

from midspan.relay._json import JSONFaultError, read, write
from midspan.relay._lines import OversizedLine
from midspan.relay._messages import CANCELLED, Message, MessageId, classify
from midspan.relay._outline import Outline, outline_of, outline_of_text, quick_id

_KEPT: Final = 10_000


class PendingRequests:
    """The open requests of a client, by the text of their ids; of very many, the latest."""

    def __init__(self) -> None:
        self._ids: dict[bytes, None] = {}

    def sent(self, line: bytes) -> None:
        """Note what goes to the server."""
        if quick := quick_id(line):
            text, is_call = quick
            if is_call:
                self._open(text)
            return
        outline = outline_of(line)
        if outline.is_call and outline.id is not None:
            self._open(write(outline.id))
        elif CANCELLED.encode() in line and (message := message_in(line)) is not None:
            cancelled = message.cancels()
            if cancelled is not None:
                self._ids.pop(write(cancelled), None)

    def _open(self, text: bytes) -> None:
        self._ids[text] = None
        if len(self._ids) > _KEPT:
            del self._ids[next(iter(self._ids))]

    def heard(self, line: bytes | OversizedLine) -> None:
        """Note what comes from the server."""
        if not self._ids:
            return
        if isinstance(line, bytes) and (quick := quick_id(line)):
            text, is_call = quick
            if not is_call and self._ids.pop(text, self) is self:
                self._ids.pop(write(json.loads(text)), None)  # written in another way than it was sent
            return
        outline = outline_in(line)
        message_id = outline.id
        if outline.is_answer and message_id is None and isinstance(line, bytes) and (message := message_in(line)):
            message_id = message.id  # it stands between two objects
        if not outline.is_call and message_id is not None:
            self._ids.pop(write(message_id), None)

    def take(self) -> list[MessageId]:
        """Return the ids that are open, and forget them."""
        ids = [json.loads(text) for text in self._ids]
        self._ids.clear()
        return ids


def outline_in(line: bytes | OversizedLine) -> Outline:
    """Look at a line, which may be one that was too long."""
    return outline_of_text(line.head, line.tail) if isinstance(line, OversizedLine) else outline_of(line)


def message_in(line: bytes) -> Message | None:
    """Read a line; None when it is no message."""
    try:
        return classify(read(line).value)
    except JSONFaultError:
        return None
