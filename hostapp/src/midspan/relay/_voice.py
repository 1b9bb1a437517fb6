"""How a judge says something to the client by itself, while a message is with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from midspan.relay._messages import MessageId

Say = Callable[[bytes], Awaitable[None]]


class Aside(bytes):
    """A line that belongs to a request of the client's, on whose way it goes where requests have ways of their own.

    Attributes:
        about: the request's id, or None.
    """

    about: MessageId | None = None


class HangUp:
    """Tells when a client says nothing more, so that nobody waits for an answer of its."""

    def __init__(self) -> None:
        self._over = False
        self._told: list[Callable[[], None]] = []

    def tell(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call this then, or now when it is over. Return what takes that back."""
        if self._over:
            callback()
        self._told.append(callback)
        return lambda: self._told.remove(callback)

    def end(self) -> None:
        """Note that the client says nothing more."""
        self._over = True
        for callback in list(self._told):
            callback()


class Voice:
    """Says lines to the client, once whoever carries the message has given it a way.

    Args:
        about: the client's request that the message belongs to, or None.

    Attributes:
        about: as above.
        hang_up: tells when the client can answer no more.
    """

    def __init__(self, about: MessageId | None = None) -> None:
        self.hang_up = HangUp()
        self.about = about
        self._say: Say | None = None

    def connect(self, say: Say, hang_up: HangUp | None = None) -> None:
        """Give it the way to the client."""
        self._say = say
        if hang_up is not None:
            self.hang_up = hang_up

    async def say(self, line: bytes) -> None:
        """Say a line.

        Raises:
            BrokenPipeError: there is no way, or the client is gone.
        """
        if self._say is None:
            raise BrokenPipeError
        aside = Aside(line)
        aside.about = self.about
        await self._say(aside)
