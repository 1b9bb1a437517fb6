"""The file: whole lines only, one chain, any number of processes.

Every append happens under an exclusive `flock`, which excludes other processes and other openings in this one. The
hash of the line before is read under that lock. Everything here blocks; `_writer.py` runs it in a thread.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from midspan_audit._errors import AuditLogError, os_problem, printable
from midspan_audit._seal import LINE_START, MAX_LINE_BYTES, BrokenLineError, Link, Seal

logger = logging.getLogger("midspan_audit")

TAIL_BYTES: Final = 4096
MAX_REOPENINGS: Final = 10

MOVE_IT: Final = "move the file away, a new one is begun at once"


class LogFile:
    """An audit log, open for appending.

    A file that was moved or removed is begun anew, since records in a file that nobody can find are lost; each file is
    a chain of its own. What a killed writer left of a line is cut off, and the next record says so.

    Args:
        path: where it is.
        seal: closes its lines.
    """

    def __init__(self, path: Path, seal: Seal) -> None:
        self._path = path
        self._name = str(path)  # looked up with each record, which a `Path` makes slower
        self._seal = seal
        self._descriptor = -1
        self._head: Link | None = None
        self._size: int = 0
        self._torn = 0

    def open(self) -> None:
        """Open the file, and create it where it is missing.

        Raises:
            AuditLogError: it cannot be opened, is no regular file, or does not end with a record of this log.
        """
        with self.locked():
            pass

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Hold the lock, with the end of the chain known.

        Raises:
            AuditLogError: as `open`.
        """
        try:
            size = self._lock_current()
        except OSError as error:
            self.close()
            raise AuditLogError(
                self._path, f"cannot be opened: {os_problem(error)}; name a file in a directory that can be written"
            ) from error
        try:
            if size != self._size:
                self._find_head(size)
            yield
        finally:
            if self._descriptor >= 0:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def append(self, fields: Mapping[str, Any]) -> None:
        """Append one record; the lock must be held. When this returns, the operating system has the whole line.

        Raises:
            AuditLogError: it could not be written; nothing of it is left.
        """
        torn = {"torn": self._torn} if self._torn else {}
        line, link = self._seal.close({**fields, **torn}, self._head)
        if len(line) > MAX_LINE_BYTES:
            raise AuditLogError(self._path, f"a record of {len(line)} bytes; the limit is {MAX_LINE_BYTES}")
        try:
            _write_all(self._descriptor, line)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise AuditLogError(
                self._path, f"cannot be written: {os_problem(error)}; make room, or set another path and start again"
            ) from error
        self._head = link
        self._size += len(line)
        self._torn = 0

    def sync(self) -> None:
        """Wait until everything appended is on the disk.

        Raises:
            AuditLogError: the disk did not take it.
        """
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise AuditLogError(self._path, f"cannot be written to disk: {os_problem(error)}") from error

    def _lock_current(self) -> int:
        """Lock the file that the path names now, and return its size."""
        for _ in range(MAX_REOPENINGS):
            if self._descriptor < 0:
                self._open_now()
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            opened = os.fstat(self._descriptor)
            if self._is_named(opened):
                return opened.st_size
            logger.warning("audit log %s was moved or removed: beginning a new file", printable(self._path))
            self.close()
        raise AuditLogError(self._path, "the file is replaced again and again; leave it in its place")

    def _is_named(self, opened: os.stat_result) -> bool:
        try:
            return os.path.samestat(opened, os.stat(self._name))
        except FileNotFoundError:
            return False

    def _open_now(self) -> None:
        directory = self._path.parent
        for missing in reversed([each for each in (directory, *directory.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        # Without O_NONBLOCK, opening a FIFO would wait for its reader; for a regular file the flag means nothing.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(self._path, flags, 0o600)
        opened = os.fstat(descriptor)
        if not stat.S_ISREG(opened.st_mode):
            os.close(descriptor)
            raise AuditLogError(self._path, "is not a regular file, and only such a one can be read back")
        if opened.st_size == 0:
            _sync_directory(directory)
        self._descriptor = descriptor
        self._head = None
        self._size = self._torn = 0

    def _find_head(self, size: int) -> None:
        known = self._head if size < self._size else None
        try:
            head, size = self._read_head(size)
        except OSError as error:
            raise AuditLogError(self._path, f"cannot be read: {os_problem(error)}") from error
        if known is not None and (head is None or head.seq < known.seq):
            # Somebody cut the file. To go on from the record that is known to have been there leaves a break that
            # `verify` finds; to go on from what is left would hide that anything is missing.
            logger.error("audit log %s was cut: records are missing", printable(self._path))
            head = known
        self._head, self._size = head, size

    def _read_head(self, size: int) -> tuple[Link | None, int]:
        """Return the last record and the size, after mending what a killed writer left."""
        line, fragment = self._tail(size)
        head = self._checked(line) if line else None
        if not fragment:
            return head, size
        if (whole := self._whole(fragment)) is not None:
            _write_all(self._descriptor, b"\n")
            return whole, size + 1
        os.ftruncate(self._descriptor, size - len(fragment))
        self._torn += len(fragment)
        return head, size - len(fragment)

    def _tail(self, size: int) -> tuple[bytes, bytes]:
        """Return the last whole line, with its line end, and what follows it."""
        data, start, step = b"", size, TAIL_BYTES
        while start > 0:
            step = min(step * 2, start)
            start -= step
            data = os.pread(self._descriptor, step, start) + data
            end = data.rfind(b"\n")
            before = data.rfind(b"\n", 0, end) if end >= 0 else -1
            if before >= 0:
                return data[before + 1 : end + 1], data[end + 1 :]
            if len(data) > 2 * MAX_LINE_BYTES:
                raise AuditLogError(self._path, f"its last line is not a record of this log; {MOVE_IT}")
        end = data.rfind(b"\n")
        return data[: end + 1], data[end + 1 :]

    def _checked(self, line: bytes) -> Link:
        try:
            return self._seal.check(line)
        except BrokenLineError as error:
            raise AuditLogError(self._path, f"its last line is {error}; {MOVE_IT}") from error

    def _whole(self, fragment: bytes) -> Link | None:
        """Return the record that only lacks its line end; None for one that was cut short."""
        try:
            return self._seal.check(fragment + b"\n")
        except BrokenLineError as error:
            # Only what a writer of this log began may be cut off: the path could name somebody else's file.
            if fragment.startswith(LINE_START) or LINE_START.startswith(fragment):
                return None
            raise AuditLogError(self._path, f"its last line is not a record of this log; {MOVE_IT}") from error


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_directory(directory: Path) -> None:
    # A new file's name must outlive a power loss too. Some file systems cannot do this, and need not.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
