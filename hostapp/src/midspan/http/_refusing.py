"""The endpoint of a server that is not served."""

from __future__ import annotations

from typing import Final

from midspan.http._budget import Budget, Reservation
from midspan.http._client import Client, id_in
from midspan.http._errors import ClientGoneError, RefusedError
from midspan.relay import INTERNAL_ERROR

_LONGEST: Final = 1024 * 1024


class RefusingEndpoint:
    """Refuses every request, with the reason: a guard of the server cannot work.

    Args:
        reason: one line.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason
        self._budget = Budget(4 * _LONGEST)

    async def serve(self, client: Client) -> None:
        """Answer one request."""
        message_id = None
        with Reservation() as room:
            try:
                message_id = id_in(await client.body(_LONGEST, self._budget, room))
            except ClientGoneError:
                return
            except RefusedError:
                pass  # it is refused anyway
        await client.refuse(503, INTERNAL_ERROR, f"this server is not served: {self._reason}", message_id)
