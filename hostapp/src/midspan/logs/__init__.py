"""Logs: what the running commands write to stderr, as lines for people or as JSON for programs.

The code base and its plugins log with the standard library; here is where these records go, in which form, and from
which level on. Nothing else than the standard library and click is imported, but for JSON.
"""

from __future__ import annotations

from midspan.logs._configure import configure, reset, say
from midspan.logs._sources import PluginLogs
from midspan.logs._thresholds import LEVELS, LogLevel
from midspan.logs._writer import FORMATS, LogFormat

__all__ = [
    "FORMATS",
    "LEVELS",
    "LogFormat",
    "LogLevel",
    "PluginLogs",
    "configure",
    "reset",
    "say",
]
