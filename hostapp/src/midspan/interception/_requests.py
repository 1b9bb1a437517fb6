"""The requests that have no answer yet, of one client's connection."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from midspan.interception._context import is_stateless
from midspan.interception._own_rounds import Round
from midspan.interception._regime import Hold, Regime
from midspan.relay import MessageId, Voice
from midspan_sdk import Exchange, InvocationContext
from midspan_sdk.events import INITIALIZE, TOOLS_CALL, TOOLS_LIST

_KEPT_CANCELLED: Final = 1024
_KEPT_SETTLED: Final = 64
_KEPT_SETTLED_BYTES: Final = 4 * 1024 * 1024


class Pending(Hold):
    """A request that has no answer yet, and what it is decided by: its regime, which it keeps from being over.

    Attributes:
        about: the tool that is called, the page of tools that is asked for, or in a handshake the capabilities, by the
            client's own words.
        free: whether nothing of its regime is needed for its answer, so that it need not keep it from being over.
        round: what is asked about it, in 2026-07-28 and where handlers ask; None otherwise.
        sent: whether it went on; before that nobody can answer it.
        size: how many bytes it had.
        mark: tells it from every other request, or None where requests are not repeated.
        voice: with which the client is spoken to while it, or its answer, is judged.
    """

    __slots__ = (
        "about",
        "context",
        "exchange",
        "free",
        "mark",
        "method",
        "round",
        "sent",
        "size",
        "stateless",
        "voice",
    )

    def __init__(
        self, method: str, params: dict[str, Any], context: InvocationContext, size: int, regime: Regime
    ) -> None:
        Hold.__init__(self, regime)
        self.method = method
        self.size = size
        self.mark: bytes | None = None
        self.exchange = Exchange()
        self.context = context
        self.round: Round | None = None
        self.sent = False
        self.free = False
        self.voice: Voice | None = None
        self.stateless = is_stateless(params)
        self.about: object = None
        if method == TOOLS_CALL:
            self.about = params.get("name")
        elif method == TOOLS_LIST:
            self.about = params.get("cursor")
        elif method == INITIALIZE:
            self.about = params.get("capabilities")

    def is_repeated_by(self, line: bytes) -> bool:
        """Tell whether a request with its id is this one, byte for byte, sent once more."""
        return self.mark is not None and self.mark == _mark(line)

    def move(self, regime: Regime) -> None:
        """Go on under another regime, in an exchange of its own: the one it had is over, and nothing of it is left."""
        before, self.exchange = self.exchange, Exchange()
        self.regime = regime
        if (request := before.request) is not None:
            self.exchange.keep_request(request)


class Requests:
    """The open requests of one side.

    A cancelled request is usually never answered; of those only the latest are kept, so that they do not pile up.

    Args:
        repeats: the transport may deliver again what it has delivered, as a resumed stream does. The latest requests
            that are over are kept too, since their answer may come once more, and a request that comes again byte for
            byte is the same one.
    """

    def __init__(self, *, repeats: bool) -> None:
        self._repeats = repeats
        self._open: dict[MessageId, Pending] = {}
        self._cancelled: dict[MessageId, None] = {}
        self._settled: dict[MessageId, Pending] = {}
        self._settled_bytes = 0

    def opened(self, message_id: MessageId) -> Pending | None:
        """Return the request that is open with this id, or None."""
        return self._open.get(message_id)

    def open(self, message_id: MessageId, pending: Pending, line: bytes) -> None:
        """Remember a request."""
        if self._repeats:
            pending.mark = _mark(line)
            self._unsettle(message_id)
        before = self._open.get(message_id)
        if before is not None and before.sent:  # else its judgement is still to end
            before.release()
        self._open[message_id] = pending

    def sent(self, message_id: MessageId | None) -> Pending | None:
        """Return the request that an answer with this id answers, or None."""
        if message_id is None:
            return None
        pending = self._open.get(message_id) or self._settled.get(message_id)
        return pending if pending is not None and pending.sent else None

    def are_acted_on(self) -> bool:
        """Tell whether anything acts on one of those whose regime is not over."""
        found = (*self._open.values(), *self._settled.values())
        return any(not (pending.free or pending.regime.over or pending.regime.relays) for pending in found)

    def has(self, message_id: MessageId, pending: Pending) -> bool:
        """Tell whether this very request is open."""
        return self._open.get(message_id) is pending

    def close(self, message_id: MessageId, pending: Pending) -> None:
        """Forget a request; not another one that has its id by now. Its regime is the caller's to release."""
        if self._open.get(message_id) is not pending:
            return
        del self._open[message_id]
        pending.free = False
        self._cancelled.pop(message_id, None)
        if self._repeats and pending.sent:
            self._settled[message_id] = pending
            self._settled_bytes += pending.size
            while len(self._settled) > _KEPT_SETTLED or (
                self._settled_bytes > _KEPT_SETTLED_BYTES and len(self._settled) > 1
            ):
                self._unsettle(next(iter(self._settled)))

    def _unsettle(self, message_id: MessageId) -> None:
        settled = self._settled.pop(message_id, None)
        if settled is not None:
            self._settled_bytes -= settled.size

    def settle(self, message_id: MessageId | None) -> bool:
        """Close a request whose answer will not be judged. Return whether an answer with this id answers one."""
        pending = self.sent(message_id)
        if message_id is None or pending is None:
            return False
        self.close(message_id, pending)
        pending.release()
        return True

    def release(self) -> None:
        """Forget all requests. Those that are still judged let go of their regimes by themselves."""
        for pending in self._open.values():
            if pending.sent:
                pending.release()
        self._open.clear()
        self._cancelled.clear()
        self._settled.clear()
        self._settled_bytes = 0

    def cancelled(self, message_id: MessageId) -> bool:
        """Note that a request was cancelled. Return whether it had not gone on yet, and now never will."""
        pending = self._open.get(message_id)
        if pending is None:
            return False
        if not pending.sent:
            self.close(message_id, pending)
            return True
        pending.free = False
        pending.release()  # an answer is unlikely, and nothing need wait for it
        self._cancelled[message_id] = None
        if len(self._cancelled) > _KEPT_CANCELLED:
            oldest = next(iter(self._cancelled))
            self.close(oldest, self._open[oldest])
        return False


def _mark(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()
