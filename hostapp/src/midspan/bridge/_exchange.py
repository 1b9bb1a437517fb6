"""Requests that were posted together, and what is known of their answers."""

from __future__ import annotations

import asyncio

from midspan.bridge._splice import spans, splice
from midspan.http import Headers
from midspan.relay import Message, MessageId, write


class Exchange:
    """A request that waits for its answer, or the several of a batch.

    Args:
        line: what is posted.
        message: what it says; None of a batch, and of what cannot be read.
        ids: of the requests in it.

    Attributes:
        line: as above.
        message: as above.
        owed: the ids that have no answer yet, in order.
        sent: set when it was written, or could not be.
        answered: whether the server has said all it has to say to it.
        task: which posts it.
        fields: the headers with which it was posted.
    """

    def __init__(self, line: bytes, message: Message | None, ids: list[MessageId]) -> None:
        self.line = line
        self.message = message
        self.owed: dict[MessageId, None] = dict.fromkeys(ids)
        self.sent = asyncio.Event()
        self.answered = False
        self.task: asyncio.Task[None] | None = None
        self.fields: Headers = ()

    @property
    def method(self) -> str:
        """The request's; empty when that is not certain."""
        return self.message.method if self.message is not None else ""


def readdressed(answer: bytes, exchange: Exchange) -> bytes:
    """Return an answer with the id of the only request that it can answer, every other byte as it came."""
    own = spans(exchange.line, "id")
    text = exchange.line[slice(*own[-1])] if own else write(next(iter(exchange.owed)))
    found = spans(answer, "id")
    if found:
        return splice(answer, [(span, text) for span in found])
    start = answer.index(b"{") + 1
    return answer[:start] + b'"id":' + text + b"," + answer[start:]
