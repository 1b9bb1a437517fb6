"""Which logs are open: how the observers of a build find the file that a lifespan holds.

`midspan_observers` is pure and is called with each build; `midspan_lifespan` opens the file and may outlive several
builds, or be entered for a new config while the old one still drains. Both are called with the same instance and
config, and that pair is the key. A chain built over the same config keeps the open file; one with another config gets
an opening of its own, even of the same path, which the lock on the file makes safe.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from midspan_audit._config import AuditConfig
from midspan_audit._errors import AuditLogError
from midspan_audit._seal import Seal
from midspan_audit._writer import Writer


class OpenLogs:
    """The logs that are open in this process."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, AuditConfig], list[Writer]] = {}

    @asynccontextmanager
    async def hold(self, instance: str, config: AuditConfig) -> AsyncGenerator[None, None]:
        """Keep the log of an instance open.

        Raises:
            AuditLogError: the log cannot be opened, or its key not be read.
        """
        writer = Writer(config.path, Seal.from_file(config.key_file))
        await writer.start()
        key = (instance, config)
        held = self._writers.setdefault(key, [])
        held.append(writer)
        try:
            yield
        finally:
            held.remove(writer)
            if not held:
                del self._writers[key]
            await writer.stop()

    def find(self, instance: str, config: AuditConfig) -> Writer:
        """Return the log that was opened last for an instance and its config.

        Raises:
            AuditLogError: none is open.
        """
        held = self._writers.get((instance, config))
        if not held:
            raise AuditLogError(config.path, "is not open; enter `midspan_lifespan` before traffic flows")
        return held[-1]
