"""A bound on how many sessions a server remembers, since their ids come from its peers."""

from __future__ import annotations

import logging
from collections import OrderedDict

from midspan_sdk._surroundings import Sessions

logger = logging.getLogger("midspan.mcp")


class RecentSessions:
    """Forgets the session that was used longest ago when there are too many.

    Args:
        sessions: where the states are.
        limit: how many sessions are kept.
    """

    def __init__(self, sessions: Sessions, limit: int) -> None:
        self._sessions = sessions
        self._limit = limit
        self._used: OrderedDict[str, None] = OrderedDict()

    def use(self, session_id: str) -> None:
        """Note that a session is used now."""
        self._used[session_id] = None
        self._used.move_to_end(session_id)
        if len(self._used) > self._limit:
            oldest, _ = self._used.popitem(last=False)
            self._sessions.end(oldest)
            logger.warning("more than %d sessions: forgot the state of the one used longest ago", self._limit)

    def end(self, session_id: str) -> None:
        """Forget a session."""
        self._used.pop(session_id, None)
        self._sessions.end(session_id)
