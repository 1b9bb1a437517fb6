"""Records as lines of JSON."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from pythonjsonlogger.json import JsonFormatter

from midspan.errors import one_line


class _Formatter(JsonFormatter):
    """Writes `timestamp` (UTC, to the millisecond), `level`, `logger`, `message`, and what else a record has."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - of the standard library
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_log_record(self, log_data: dict[str, object]) -> dict[str, object]:
        told = {key: value for key, value in log_data.items() if value is not None}
        told["level"] = str(told["level"]).lower()
        told["message"] = one_line(str(told["message"]))
        return told


def json_formatter() -> logging.Formatter:
    """Return what formats records as JSON."""
    return _Formatter(
        ["asctime", "levelname", "name", "message"],
        rename_fields={"asctime": "timestamp", "levelname": "level", "name": "logger", "exc_info": "exception"},
        json_ensure_ascii=False,
    )
