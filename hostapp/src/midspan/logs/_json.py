"""A record as a JSON object on one line. Imported only when JSON is asked for."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter as _Formatter


class JsonFormatter(_Formatter):
    """Writes `timestamp`, `level`, `logger`, `message`; where known `plugin`, `instance`, `interceptor`; `exception`.

    What else a record carries (`extra=`) comes after these, and never in their place.
    """

    def __init__(self) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - its serializers have no types
            ("message",), reserved_attrs=[*RESERVED_ATTRS, "exception", "level", "logger", "timestamp"]
        )

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Fill in the fields of one record."""
        moment = datetime.fromtimestamp(record.created, UTC)
        log_data["timestamp"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        log_data["level"] = record.levelname.lower()
        log_data["logger"] = record.name
        exception = message_dict.pop("exc_info", None)
        super().add_fields(log_data, record, message_dict)
        if exception:
            log_data["exception"] = exception
