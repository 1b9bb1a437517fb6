"""The observer."""

from __future__ import annotations

import os

from midspan_audit._config import AuditConfig
from midspan_audit._open_logs import OpenLogs
from midspan_audit._record import fields_of
from midspan_sdk import DecisionRecord
from midspan_sdk.events import matches_any


class AuditObserver:
    """Writes each decision record to the log that is open for the instance.

    Args:
        instance: the name of the config table; also the observer's.
        config: its config.
        logs: where the open log is found.
    """

    def __init__(self, instance: str, config: AuditConfig, logs: OpenLogs) -> None:
        self.name = instance
        self.durable = config.durable
        self._config = config
        self._logs = logs

    async def observe(self, record: DecisionRecord) -> None:
        """Write one record; when this returns, the operating system has it.

        Raises:
            AuditLogError: it could not be written.
        """
        config = self._config
        if not matches_any(config.events, record.event):
            return
        writer = self._logs.find(self.name, config)
        fields = fields_of(record, config, writer.seal, process=os.getpid())
        await writer.append(fields, sync=config.fsync)
