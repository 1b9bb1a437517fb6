"""The plugin's config table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _absolute(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("a path cannot contain a NUL character")
    try:
        expanded = path.expanduser()
    except RuntimeError as error:
        raise ValueError("`~` cannot be expanded, no home directory is known; give an absolute path") from error
    if not expanded.is_absolute():
        raise ValueError(
            "must be absolute or start with `~`: midspan runs in the working directory of whatever started it"
        )
    return expanded


def _method_pattern(pattern: str) -> str:
    if not pattern or pattern != pattern.strip():
        raise ValueError("must be a method name or a glob such as `tools/*`, without blanks around it")
    return pattern


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
EventPattern = Annotated[str, AfterValidator(_method_pattern)]


class AuditConfig(BaseModel):
    """`[plugins.audit.config]`.

    Attributes:
        path: the log file; absolute, or with `~`. It and missing directories are created, readable by their owner only.
        key_file: a file with at least 32 bytes of secret. With it digests and hashes are keyed (HMAC-SHA256): values
            cannot be guessed from digests, and the chain cannot be recomputed, without the key.
        durable: whether a message waits until its record is in the file, and is blocked when it cannot be written.
        fsync: whether to wait until the record is on the disk, which a power loss needs and a killed process does not.
        events: which methods to record, as names or globs.
        target: whether to record which tool, prompt or resource a request names.
        max_field_length: the longest text of a record, in characters; what is longer is cut.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: AbsolutePath
    key_file: AbsolutePath | None = None
    durable: bool = True
    fsync: bool = False
    events: Annotated[tuple[EventPattern, ...], Field(min_length=1)] = ("*",)
    target: bool = True
    max_field_length: Annotated[int, Field(ge=32, le=4096)] = 256
