"""One thread per log, which does what blocks.

A disk can stall for seconds, a lock may be held by a stopped process, and a file system may hang: none of that may
hold the event loop, and the chain's deadline must be able to give up. Records that arrive meanwhile are written
together, under one lock and with one `fsync`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

import anyio

from midspan_audit._errors import AuditLogError, printable
from midspan_audit._log_file import LogFile
from midspan_audit._seal import Seal

logger = logging.getLogger("midspan_audit")

OPEN_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0
MAX_BATCH: Final = 64
NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(eq=False, kw_only=True, slots=True)
class _Job:
    """One thing for the thread to do; without fields, it is only to open the file."""

    fields: Mapping[str, Any] | None
    sync: bool
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    abandoned: bool = False
    error: Exception | None = None


class Writer:
    """Appends records to one log file, in the order in which they come.

    Records that could not be kept are counted; the next one that can be carries the count as `gap`.

    Args:
        path: of the log file.
        seal: closes its lines.
    """

    def __init__(self, path: Path, seal: Seal) -> None:
        self.seal = seal
        self._path = path
        self._file = LogFile(path, seal)
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._gap = 0
        self._stopping = False
        self._stopped: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Open the file.

        Raises:
            AuditLogError: it cannot be opened, or another process holds its lock for too long.
        """
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_future()
        # A daemon, because a thread that hangs in a file system must not keep the process from ending.
        threading.Thread(
            target=self._run, args=(loop, self._stopped), name=f"audit log {self._path.name}", daemon=True
        ).start()
        try:
            with anyio.fail_after(OPEN_SECONDS):
                await self._do(None)
        except BaseException as error:
            self._stop()
            if isinstance(error, TimeoutError):
                raise AuditLogError(
                    self._path, f"cannot be locked within {OPEN_SECONDS:g} s; end the process that holds it"
                ) from error
            raise

    async def append(self, fields: Mapping[str, Any], *, sync: bool) -> None:
        """Write one record; with `sync`, wait for the disk.

        When cancelled, the record may still have been written.

        Raises:
            AuditLogError: it could not be kept, or the log is closed.
        """
        await self._do(fields, sync=sync)

    async def stop(self) -> None:
        """Write what waits, and close the file; give up after some seconds."""
        self._stop()
        assert self._stopped is not None
        with anyio.move_on_after(CLOSE_SECONDS, shield=True) as scope:
            await self._stopped
        if scope.cancelled_caught:
            logger.error("audit log %s: not closed within %g s", printable(self._path), CLOSE_SECONDS)

    async def _do(self, fields: Mapping[str, Any] | None, *, sync: bool = False) -> None:
        if self._stopping:
            raise AuditLogError(self._path, "is closed")
        loop = asyncio.get_running_loop()
        job = _Job(fields=fields, sync=sync, loop=loop, done=loop.create_future())
        self._queue.put(job)
        try:
            await job.done
        finally:
            job.abandoned = True
            if job.fields is not None:
                job.fields = NOTHING  # while a disk hangs, abandoned jobs pile up

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._queue.put(None)

    # What follows runs in the thread.

    def _run(self, loop: asyncio.AbstractEventLoop, stopped: asyncio.Future[None]) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            self._write(batch)
            for job in batch:
                _settle(job.loop, job.done, job.error)
        self._file.close()
        if self._gap:
            logger.error(
                "audit log %s: decisions that were not recorded at the end: %d", printable(self._path), self._gap
            )
        _settle(loop, stopped, None)

    def _next_batch(self) -> tuple[list[_Job], bool]:
        batch: list[_Job] = []
        job = self._queue.get()
        while job is not None:
            batch.append(job)
            if len(batch) == MAX_BATCH:
                return batch, False
            try:
                job = self._queue.get_nowait()
            except Empty:
                return batch, False
        return batch, True

    def _write(self, batch: list[_Job]) -> None:
        if not batch:
            return
        try:
            with self._file.locked():
                for job in batch:
                    if job.fields is not None:
                        self._append(job, job.fields)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record was not kept and its message must not leave
            self._fail((job for job in batch if job.error is None), error)
            return
        written = [job for job in batch if job.sync and job.error is None]
        if not written:
            return
        try:
            self._file.sync()
        except AuditLogError as error:
            self._fail(written, error)

    def _append(self, job: _Job, fields: Mapping[str, Any]) -> None:
        if job.abandoned:
            self._fail((job,), AuditLogError(self._path, "the record came too late"))
            return
        try:
            self._file.append({**fields, "gap": self._gap} if self._gap else fields)
        except Exception as error:  # noqa: BLE001 - as in `_write`
            self._fail((job,), error)
            return
        self._gap = 0

    def _fail(self, jobs: Iterable[_Job], error: Exception) -> None:
        for job in jobs:
            job.error = error
            self._gap += job.fields is not None


def _settle(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None], error: Exception | None) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
        loop.call_soon_threadsafe(settle)
