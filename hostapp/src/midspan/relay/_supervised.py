"""A server that may die: whoever waits for it is told at once, and where the operator wants it, it is started anew."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Final, Literal, Self

from midspan.relay._channel import Backend, ConnectError, Connection
from midspan.relay._json import CONNECTION_CLOSED, write
from midspan.relay._lines import OversizedLine
from midspan.relay._messages import error_message
from midspan.relay._pending import PendingRequests, message_in, outline_in

logger = logging.getLogger("midspan.relay")

RestartWhen = Literal["never", "on-failure", "always"]

_HANDSHAKE: Final = (b"initialize", b"notifications/initialized")


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Whether a server that ended is started anew.

    Attributes:
        when: `never`; `on-failure`, when it ended with another exit code than 0, or its connection was lost; `always`.
        first: seconds before the first new start; each further one waits twice as long.
        longest: the longest wait in seconds.
        most: how many starts in a row may fail.
        settled: seconds after which a server that runs counts as started well.
    """

    when: RestartWhen = "never"
    first: float = 0.5
    longest: float = 30.0
    most: int = 8
    settled: float = 60.0

    def wants(self, code: int) -> bool:
        """Tell whether a server that ended with this exit code is started anew."""
        return self.when == "always" or (self.when == "on-failure" and code != 0)

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after so many starts in a row that did not last."""
        return min(self.first * 2**failures, self.longest)


NEVER: Final = RestartPolicy()


class Supervised:
    """A connection to a server that is replaced when it is lost, as the policy says.

    When it is lost, every request without an answer is answered with an error. A new server gets the handshake that
    the client had with the old one, byte for byte; its answer goes to nobody, since the client has one.

    Args:
        backend: opens connections.
        connection: the first one.
        limit: the longest message in bytes.
        policy: when to go on with a new one.
    """

    def __init__(self, backend: Backend, connection: Connection, *, limit: int, policy: RestartPolicy = NEVER) -> None:
        self._backend = backend
        self._connection = connection
        self._limit = limit
        self._policy = policy
        self._pending = PendingRequests()
        self._farewell: deque[bytes] = deque()
        self._handshake: dict[bytes, bytes] = {}
        self._up = asyncio.Event()
        self._up.set()
        self._closing = False
        self._over = False
        self._failures = 0
        self._started = asyncio.get_running_loop().time()

    @classmethod
    async def open(cls, backend: Backend, *, limit: int, policy: RestartPolicy = NEVER) -> Self:
        """Open the first connection.

        Raises:
            ConnectError: it cannot be opened; nothing is tried again, since whoever starts it should learn of it.
        """
        return cls(backend, await backend.connect(limit=limit), limit=limit, policy=policy)

    @property
    def to_server(self) -> Self:
        """The writer: the object itself."""
        return self

    @property
    def from_server(self) -> Self:
        """The source: the object itself."""
        return self

    # To the server

    async def send(self, line: bytes) -> None:
        """Send a line; while the server is started anew, wait for it.

        Raises:
            BrokenPipeError: there is no server any more.
        """
        if not self._up.is_set():
            await self._up.wait()
        if self._over:
            raise BrokenPipeError
        self._note_sent(line)
        try:
            await self._connection.to_server.send(line)
        except BrokenPipeError:
            # Its output tells when that is all; a request that was just noted is answered then.
            if self._policy.when == "never":
                raise

    def _note_sent(self, line: bytes) -> None:
        self._pending.sent(line)
        if self._policy.when != "never" and len(self._handshake) < len(_HANDSHAKE):
            for method in _HANDSHAKE:
                if (
                    b'"%s"' % method in line
                    and (message := message_in(line)) is not None
                    and message.method == method.decode()
                ):
                    self._handshake[method] = line

    async def aclose(self) -> None:
        """Close the server's input: the client has no more to say."""
        self._closing = True
        await self._connection.to_server.aclose()

    def abort(self) -> None:
        """Close the server's input at once."""
        self._closing = True
        self._connection.to_server.abort()

    # From the server

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes | OversizedLine:
        while True:
            if self._farewell:
                return self._farewell.popleft()
            if self._over:
                raise StopAsyncIteration
            try:
                line = await anext(self._connection.from_server)
            except StopAsyncIteration:
                await self._lost()
            else:
                self._pending.heard(line)
                return line

    async def _lost(self) -> None:
        text = "midspan: the server ended before it answered"
        for message_id in self._pending.take():
            self._farewell.append(write(error_message(message_id, CONNECTION_CLOSED, text)))
        if self._closing or self._policy.when == "never":
            self._over = True
            return
        self._up.clear()
        try:
            self._over = not await self._restarted()
        finally:
            self._up.set()

    async def _restarted(self) -> bool:
        code = await self._connection.stop()
        while self._policy.wants(code) and not self._closing:
            lasted = asyncio.get_running_loop().time() - self._started
            self._failures = 0 if lasted >= self._policy.settled else self._failures
            if self._failures >= self._policy.most:
                logger.error("the server ended %d times in a row; it is not started again", self._failures + 1)
                return False
            delay = self._policy.delay(self._failures)
            self._failures += 1
            logger.warning("the server ended with exit code %d; starting it anew in %g s", code, delay)
            await asyncio.sleep(delay)
            self._started = asyncio.get_running_loop().time()
            try:
                self._connection = await self._backend.connect(limit=self._limit)
            except ConnectError as error:
                logger.error("%s", error)
                code = 1
                continue
            if await self._shook_hands():
                logger.warning("the server runs again")
                return True
            code = await self._connection.stop() or 1
        return False

    async def _shook_hands(self) -> bool:
        """Repeat the client's handshake. What the server says before its answer gets on."""
        first, second = (self._handshake.get(method) for method in _HANDSHAKE)
        if first is None:
            return True
        try:
            await self._connection.to_server.send(first)
            wanted = outline_in(first).id
            async for line in self._connection.from_server:
                outline = outline_in(line)
                if outline.is_call or outline.id != wanted:
                    if isinstance(line, bytes):
                        self._farewell.append(line)
                    continue
                if isinstance(line, OversizedLine) or (answer := message_in(line)) is None or answer.kind != "result":
                    return False
                if second is not None:
                    await self._connection.to_server.send(second)
                return True
        except BrokenPipeError:
            pass
        return False

    def close(self) -> None:
        """Take no more from the server."""
        self._closing = True
        self._connection.from_server.close()

    # The whole

    def signal(self, number: int) -> None:
        """Pass a signal on to the server."""
        self._closing = True
        self._connection.signal(number)

    async def stop(self, *, signalled: bool = False) -> int:
        """End the connection in an orderly way, and return the server's exit code."""
        self._closing = True
        return await self._connection.stop(signalled=signalled)

    def kill(self) -> None:
        """End the connection at once."""
        self._closing = True
        self._connection.kill()
