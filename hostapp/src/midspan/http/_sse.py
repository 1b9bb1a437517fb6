"""Server-sent events, taken apart as they arrive and put together again byte for byte.

The grammar is that of the HTML standard: lines end with CR, LF or both, and a blank line ends an event. Work and memory
are linear in what arrives; nothing is held back that could go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from midspan.relay import EDGE

_BOM: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data:"
_FIELDS: Final = 8192
"""How many bytes of other fields than `data` an oversized event keeps."""
_LINE_OVERHEAD: Final = 48
"""What a line takes in memory beside its bytes; it counts too, or many short lines would take many times the limit."""


class Event:
    """One event, or lines between events that are none (comments, blank lines).

    Attributes:
        lines: its lines with their ends, the blank line that ends it included.
        data: what its `data` fields say, joined by newlines; None when there is none.
    """

    __slots__ = ("data", "lines")

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        found = [value for line in lines if (value := _data_of(line)) is not None]
        self.data: bytes | None = b"\n".join(found) if found else None

    @property
    def raw(self) -> bytes:
        """The event as it arrived."""
        return b"".join(self.lines)

    def fields(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield its fields with their values; comments are none."""
        for line in self.lines:
            field, _, value = line.rstrip(b"\r\n").partition(b":")
            if field:
                yield field, value.removeprefix(b" ")

    @property
    def name(self) -> bytes:
        """The value of its last `event` field; empty means `message`."""
        return next((value for field, value in reversed(list(self.fields())) if field == b"event"), b"")

    def with_data(self, *data: bytes) -> bytes:
        """Return the event with other data, each on one line; several make several events.

        Everything else stays, and goes with the last of them: whoever resumes after its id has had them all.
        """
        end = next((_end_of(line) for line in self.lines if _data_of(line) is not None), b"\n")
        written: list[bytes] = []
        for line in self.lines:
            if _data_of(line) is None:
                written.append(line)
            elif data:
                *before, last = data
                written[:0] = [b"data: " + one + end + end for one in before]
                written.append(b"data: " + last + end)
                data = ()
        return _joined(written)

    def without_data(self) -> bytes:
        """Return what is left when the data is dropped: id, retry and comments, or nothing."""
        kept = [line for line in self.lines if _data_of(line) is None and not line.startswith(b"event")]
        return _joined(kept) if any(line.strip(b"\r\n") for line in kept) else b""


class OversizedEvent(Event):
    """An event longer than the limit, whose data was skipped.

    Attributes:
        head: the first bytes of its data.
        tail: the last bytes.
    """

    __slots__ = ("head", "tail")

    def __init__(self, lines: list[bytes], head: bytes, tail: bytes) -> None:
        super().__init__([*lines[:-1], b"data:\n", *lines[-1:]])
        self.head = head
        self.tail = tail


class EventSplitter:
    """Takes a stream apart.

    Args:
        limit: the longest event in bytes; a longer one is skipped and reported as `OversizedEvent`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: list[bytes] = []
        self._size = 0
        self._partial = bytearray()
        self._after_cr = False
        self._first = True
        self._skipping = False
        self._in_data = False
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Take a chunk and yield what it completes."""
        for piece in chunk.splitlines(keepends=True):  # of bytes: at CR and LF, nowhere else
            if self._after_cr:
                self._after_cr = False
                if piece == b"\n":  # the second half of a line end whose first half came with the last chunk
                    yield from self._late_newline()
                    continue
            if piece[-1:] not in b"\r\n":
                self._keep(piece)
                continue
            yield from self._take(self._finish(piece))
        if chunk:
            self._after_cr = chunk.endswith(b"\r")

    def _late_newline(self) -> Iterator[Event]:
        if not self._lines:
            yield Event([b"\n"])
        elif not self._skipping:
            self._lines[-1] += b"\n"

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            self._pass_over(piece)
            return
        self._partial += piece
        if self._size + len(self._partial) > self._limit:
            self._skip()

    def _pass_over(self, piece: bytes) -> None:
        """Take a piece of an event that is too long: its data adds to the two ends, and no more is kept."""
        if self._in_data:
            self._add(piece)
            return
        self._partial += piece
        if len(self._partial) > len(_DATA) and self._partial.startswith(_DATA):
            self._in_data = True
            self._add(bytes(self._partial[len(_DATA) :]).removeprefix(b" "))
        del self._partial[EDGE:]

    def _add(self, data: bytes) -> None:
        self._head += data[: EDGE - len(self._head)]
        self._tail = (self._tail + data[-EDGE:])[-EDGE:]

    def _finish(self, piece: bytes) -> bytes:
        if self._partial or len(piece) + self._size > self._limit:
            self._keep(piece)
            line = bytes(self._partial)
            self._partial.clear()
            self._in_data = False
            if self._skipping and line[-1:] not in b"\r\n":
                line += b"\n"
        else:
            line = piece
        if self._first:
            self._first = False
            if line.startswith(_BOM) and line[3:4] not in b"\r\n":
                self._lines.append(_BOM)  # it goes before whatever comes first, and is no part of a field
                line = line[3:]
        return line

    def _take(self, line: bytes) -> Iterator[Event]:
        starting = not self._skipping and self._lines in ([], [_BOM])
        blank = not line.strip(b"\r\n")
        if starting and (blank or line.startswith(b":")):
            yield Event([*self._lines, line])
            self._reset()
        elif blank:
            self._lines.append(line)
            yield OversizedEvent(self._lines, self._head, self._tail) if self._skipping else Event(self._lines)
            self._reset()
        elif not self._skipping:
            self._lines.append(line)
            self._size += len(line) + _LINE_OVERHEAD
        elif _data_of(line) is None and self._size + len(line) <= _FIELDS:
            self._lines.append(line)
            self._size += len(line)

    def _skip(self) -> None:
        """From here on keep the two ends of the data and the other fields only."""
        self._skipping = True
        for line in self._lines:
            if (value := _data_of(line)) is not None:
                self._add(value + b"\n")
        fields = [line for line in self._lines if _data_of(line) is None]
        self._lines = fields if sum(map(len, fields)) <= _FIELDS else []
        self._size = sum(map(len, self._lines))
        begun = bytes(self._partial)
        self._partial.clear()
        self._pass_over(begun)

    def _reset(self) -> None:
        self._lines = []
        self._size = 0
        self._skipping = False
        self._head = self._tail = b""


def _joined(lines: list[bytes]) -> bytes:
    """Join lines of which some are new, so that none of them ends in the first half of another's line end."""
    for number, following in enumerate(lines[1:]):
        if following.startswith(b"\n") and lines[number].endswith(b"\r"):
            lines[number] += b"\n"
    return b"".join(lines)


def _data_of(line: bytes) -> bytes | None:
    if not line.startswith(b"data"):
        return None
    content = line.rstrip(b"\r\n")
    if content.startswith(b"data:"):
        return content[6:] if content[5:6] == b" " else content[5:]
    return b"" if content == b"data" else None


def _end_of(line: bytes) -> bytes:
    return line[len(line.rstrip(b"\r\n")) :] or b"\n"
