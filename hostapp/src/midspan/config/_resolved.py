"""A server as it is started or connected to: its table with every variable replaced and every secret read.

Whatever may hold a secret is not shown: these objects can be logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Restart = Literal["never", "on-failure", "always"]
Transport = Literal["http", "sse"]
DenialAs = Literal["result", "error"]
DenialDetail = Literal["none", "rule", "reason"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StdioServer:
    """A server that the gateway starts, and that speaks over stdin and stdout.

    Attributes:
        command: the program and its arguments.
        env: what is added to the gateway's own environment.
        cwd: its working directory, absolute; None for the gateway's own.
        restart: whether it is started again when it ends: never, after a failure, or always.
        max_message: the longest message in bytes.
    """

    command: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: Path | None
    restart: Restart
    max_message: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteServer:
    """A server that the gateway connects to.

    Attributes:
        url: its endpoint, `http` or `https`, with neither credentials nor fragment.
        transport: `http` is streamable HTTP; `sse` is HTTP+SSE, which is older.
        headers: what is added to every request, names as they are written; case makes no difference, no two are the
            same.
        max_message: the longest message in bytes.
    """

    url: str = field(repr=False)
    transport: Transport
    headers: Mapping[str, str] = field(repr=False)
    max_message: int
