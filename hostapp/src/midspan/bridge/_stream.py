"""What one HTTP response says to a client, message by message, so that it can be resumed after a break."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

_HIGH_WATER: Final = 1024 * 1024
_KEPT: Final = 4 * 1024 * 1024
"""Bytes that are kept for a client that comes back; the oldest go first."""
_KEPT_MESSAGES: Final = 1024


class Stream:
    """Messages for one response.

    Args:
        number: names the stream in the ids of its events.
        takes_events: whether the client takes more than the answer.

    Attributes:
        number: as above.
        takes_events: as above.
        finished: whether nothing more comes.
        reader: who reads it now; only one does.
        read: the number of the last message that was read.
        resumable: whether the client knows the id of an event of it.
    """

    def __init__(self, number: int = 0, *, takes_events: bool = True) -> None:
        self.number = number
        self.takes_events = takes_events
        self.finished = False
        self.reader: object | None = None
        self.read = 0
        self.resumable = False
        self._messages: deque[bytes] = deque()
        self._first = 1
        self._size = 0
        self._unread = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def last(self) -> int:
        """The number of the newest message; 0 before there is any."""
        return self._first + len(self._messages) - 1

    @property
    def size(self) -> int:
        """How many bytes it keeps."""
        return self._size

    async def send(self, message: bytes) -> None:
        """Add a message. While somebody reads, wait for room."""
        self.put(message)
        if self._unread > _HIGH_WATER and self.reader is not None and not self.finished:
            self._room.clear()
            await self._room.wait()

    def put(self, message: bytes, *, last: bool = False) -> None:
        """Add a message without waiting.

        Args:
            message: nothing more is taken once the stream has finished.
            last: whether the stream finishes with it. A reader never sees an answer without the end, so that it can
                tell whether the answer is all there is.
        """
        if self.finished:
            return
        self._messages.append(message)
        self._size += len(message)
        self._unread += len(message)
        self._trim()
        self._changed.set()
        if last:
            self.finish()

    def _trim(self) -> None:
        """Drop what was read long ago, and when nobody reads, what is too much."""
        while len(self._messages) > 1 and (self._size > _KEPT or len(self._messages) > _KEPT_MESSAGES):
            if self.reader is not None and self._first > self.read:
                return
            gone = self._messages.popleft()
            self._size -= len(gone)
            if self._first > self.read:
                self._unread -= len(gone)
            self._first += 1

    def finish(self) -> None:
        """Say that nothing more comes."""
        self.finished = True
        self._changed.set()
        self._room.set()

    def attach(self, reader: object, after: int) -> None:
        """Begin to read.

        Args:
            reader: who reads; whoever read before gets no more.
            after: the number of the last message that is known already.
        """
        self.reader = reader
        self.read = min(max(after, self._first - 1), self.last)
        self._unread = sum(map(len, list(self._messages)[self.read - self._first + 1 :]))
        self._changed.set()

    def detach(self, reader: object) -> None:
        """Stop reading, unless somebody else reads by now."""
        if self.reader is reader:
            self.reader = None
            self._room.set()
            self._trim()

    async def messages(self, reader: object) -> AsyncGenerator[tuple[int, bytes]]:
        """Yield the messages from where `attach` began, with their numbers, as they come."""
        while self.reader is reader:
            if self.read < self.last:
                self.read += 1
                message = self._messages[self.read - self._first]
                yield self.read, message
                if self.reader is reader:
                    self._unread -= len(message)
                    if self._unread <= _HIGH_WATER // 2:
                        self._room.set()
            elif self.finished:
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    async def wait_for_change(self) -> None:
        """Wait until there is a message that nobody has read, or the end."""
        while self.read >= self.last and not self.finished:
            self._changed.clear()
            await self._changed.wait()

    def only_answer(self) -> bytes | None:
        """Return the answer, when that is all that the stream says."""
        return self.answer() if self._first == 1 and len(self._messages) == 1 else None

    def answer(self) -> bytes | None:
        """Return what the stream finished with."""
        return self._messages[-1] if self.finished and self._messages else None
