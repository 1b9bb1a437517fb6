"""What several tests of the exposed methods use."""

from __future__ import annotations

import asyncio
from typing import Any

from midspan.exposing import MAX_INVOCATIONS
from midspan_sdk import validator

KEY = "io.modelcontextprotocol/interceptors"
META: dict[str, Any] = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
INITIALIZE: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
SAID: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "experimental": {"other": {"x": None}}, "vendor": 1.0},
    "serverInfo": {"name": "raw", "version": "1"},
    "instructions": None,
}
SETTINGS = {"supportedEvents": ["tools/call"]}


class Stuck:
    """An interceptor that waits, and says how it fares."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.asked = asyncio.Event()
        self.full = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.may_end = asyncio.Event()

        @validator(events=["tools/call"], phase="request", timeout=60)
        async def stuck(payload: dict[str, Any]) -> None:
            self.running += 1
            self.most = max(self.most, self.running)
            self.asked.set()
            if self.running == MAX_INVOCATIONS:
                self.full.set()
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            finally:
                self.running -= 1

        self.interceptor = stuck
