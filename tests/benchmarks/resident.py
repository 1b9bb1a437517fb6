"""How much memory a process has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """In millions of bytes.

    Attributes:
        resident: what is in memory (`VmRSS`), pages of libraries included that other processes share.
        private: what would be freed if the process ended.
    """

    resident: float
    private: float


def memory_of(pid: int) -> Memory:
    """Ask Linux."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kilobytes = {name: int(number) for name, number in re.findall(r"(\w+): +(\d+) kB", text)}
    private = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return Memory(resident=kilobytes["Rss"] * 1.024 / 1000, private=private * 1.024 / 1000)
