"""What an orchestrator asks: does the process live, and does it take requests?"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from midspan.http._client import JSON_TYPE, Client

logger = logging.getLogger("midspan.gateway")

HealthState = Literal["starting", "ready", "stopping"]

LIVE: Final = "/healthz"
READY: Final = "/readyz"
_METHODS: Final = ("GET", "HEAD")


@dataclass(kw_only=True)
class Health:
    """Whether a gateway takes requests; its owner keeps it true.

    `/healthz` answers 200 `{"status": "ok"}` as long as the process answers at all. `/readyz` answers 200 when it is
    `ready`, else 503, with the state. They are answered whatever the `Host`: probes use addresses.

    Attributes:
        state: `starting`, `ready` or `stopping`.
        details: called for each answer that it is ready; what stands in it beside `status`. Plain JSON, and nothing
            that a stranger may not see.
    """

    state: HealthState = "starting"
    details: Callable[[], Mapping[str, Any]] = dict[str, Any]

    async def serve(self, client: Client, path: str) -> bool:
        """Answer a probe. Return whether it was one."""
        if path not in (LIVE, READY):
            return False
        if client.method not in _METHODS:
            await client.answer(405, headers=[(b"allow", ", ".join(_METHODS).encode())])
            return True
        status, body = (200, {"status": "ok"}) if path == LIVE else self._readiness()
        await client.answer(status, json.dumps(body).encode(), headers=[JSON_TYPE, (b"cache-control", b"no-store")])
        return True

    def _readiness(self) -> tuple[int, Mapping[str, Any]]:
        if self.state != "ready":
            return 503, {"status": self.state}
        try:
            details = {**self.details()}
            json.dumps(details)
        except Exception:
            # It serves; what it cannot say of itself is no reason to take it out of service.
            logger.exception("the details of the readiness cannot be told")
            details = {}
        return 200, {**details, "status": "ready"}
