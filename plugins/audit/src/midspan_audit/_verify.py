"""Checks a log: every line's own hash, and that each follows the one before."""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from midspan_audit._errors import AuditLogError, os_problem
from midspan_audit._seal import MAX_LINE_BYTES, BrokenLineError, Link, Seal

_HEAD: Final = re.compile(r"([1-9][0-9]{0,17}):((?:hmac-)?sha256:[0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """A record that somebody noted outside of the log: its number and its hash, written `812:sha256:...`."""

    seq: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read the written form.

        Raises:
            ValueError: it is none.
        """
        found = _HEAD.fullmatch(text)
        if found is None:
            raise ValueError("a head is a number, a colon and a hash, as an earlier `verify` printed it")
        return cls(seq=int(found[1]), hash=found[2])

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a check came to.

    Attributes:
        records: how many good records the file has, up to the first bad line.
        head: the last good record, or None when there is none.
        bad_line: the first bad line, from 1, or None when all is well.
        problem: what is wrong there, or None.
    """

    records: int
    head: Head | None
    bad_line: int | None = None
    problem: str | None = None


def verify(path: Path, seal: Seal, *, expected: Head | None = None) -> Report:
    """Check a log, also while it is being written.

    Args:
        path: the log file.
        seal: with the key that the log was written with, if any.
        expected: a record that the log must still contain; finds what is missing at the end.

    Raises:
        AuditLogError: the file cannot be read.
    """
    with _opened(path) as (file, size):
        last: Link | None = None
        number = 0
        for number, line in enumerate(_lines(file, size), start=1):
            problem = _torn(line)
            link: Link | None = None
            if problem is None:
                try:
                    link = seal.check(line)
                except BrokenLineError as error:
                    problem = str(error)
            if link is not None:
                problem = _break(link, last) or _unexpected(link, expected)
                if problem is None:
                    last = link
                    continue
                if link.seq > _next(last) and _appears_later(file, size, seal, _next(last)):
                    problem = f"reordered: record {_next(last)} comes later in the file"
            return Report(records=number - 1, head=_head(last), bad_line=number, problem=problem)
    if expected is not None and expected.seq >= _next(last):
        missing = f"truncated: the file ends with record {_next(last) - 1}, record {expected.seq} is missing"
        return Report(records=number, head=_head(last), bad_line=number + 1, problem=missing)
    return Report(records=number, head=_head(last))


def _next(last: Link | None) -> int:
    return last.seq + 1 if last is not None else 1


def _head(last: Link | None) -> Head | None:
    return None if last is None else Head(seq=last.seq, hash=last.hash)


def _torn(line: bytes) -> str | None:
    if line.endswith(b"\n"):
        return None
    if len(line) > MAX_LINE_BYTES:
        return f"not a record of this log: longer than {MAX_LINE_BYTES} bytes"
    return "truncated: the line has no end; it was cut, or its writer was killed"


def _break(link: Link, last: Link | None) -> str | None:
    wanted = _next(last)
    if link.seq > wanted:
        which = f"record {wanted} is" if link.seq == wanted + 1 else f"records {wanted} to {link.seq - 1} are"
        return f"removed: {which} missing before record {link.seq}"
    if link.seq < wanted:
        return f"reordered: record {link.seq} comes after record {wanted - 1}"
    if link.prev != (last.hash if last is not None else None):
        return f"edited: record {link.seq} follows another record {link.seq - 1} than the one before it"
    return None


def _unexpected(link: Link, expected: Head | None) -> str | None:
    if expected is not None and link.seq == expected.seq and link.hash != expected.hash:
        return f"edited: record {link.seq} is not the one that was noted as head"
    return None


def _appears_later(file: BinaryIO, size: int, seal: Seal, seq: int) -> bool:
    for line in _lines(file, size):
        try:
            if seal.check(line).seq == seq:
                return True
        except BrokenLineError:
            continue
    return False


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield lines up to `size`; a line that is too long comes in pieces."""
    while (left := size - file.tell()) > 0:
        line = file.readline(min(MAX_LINE_BYTES + 1, left))
        if not line:
            return
        yield line


@contextmanager
def _opened(path: Path) -> Generator[tuple[BinaryIO, int], None, None]:
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise AuditLogError(path, "is not a regular file")
            # Under the lock no line is half written; later lines do not matter, for writers only append.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            size = os.fstat(descriptor).st_size
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            yield file, size
    except OSError as error:
        raise AuditLogError(path, f"cannot be read: {os_problem(error)}") from error
