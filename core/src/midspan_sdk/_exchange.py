"""One request and its response, and the state that lives as long."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from midspan_sdk._invocation import State
from midspan_sdk._plain import Snapshot, plain_object, same


class Exchange:
    """Ties the two phases of one request together. Pass the same one to both `Chain.execute` calls.

    After the request phase it holds the payload that left, which handlers of the response phase get as `request`, and
    each plugin's `state`. An input_required round is an exchange of its own.
    """

    __slots__ = ("_id", "_request", "_states")

    def __init__(self) -> None:
        self._id: str | None = None
        self._request: Snapshot | None = None
        self._states: dict[str, State] = {}

    @property
    def id(self) -> str:
        """Names the exchange in decision records: 16 hexadecimal digits."""
        if self._id is None:
            self._id = secrets.token_hex(8)
        return self._id

    @property
    def request(self) -> dict[str, Any] | None:
        """A copy of the request's payload as it left, or None before that."""
        return self._request.copy() if self._request is not None else None

    @property
    def target(self) -> str | None:
        """The request's `name` or `uri`, or None."""
        return target_of(self._request.value) if self._request is not None else None

    def keep_request(self, payload: Mapping[str, Any]) -> None:
        """Remember the request's payload. The chain does this at the end of a successful request phase."""
        self._keep(Snapshot(payload))

    def _keep(self, snapshot: Snapshot) -> None:
        self._request = snapshot

    def state_of(self, group: str) -> State:
        """Return a copy of a plugin's state."""
        state = self._states.get(group)
        return State(plain_object(state)) if state else State()

    def commit_state(self, group: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Apply what one handler changed in its copy of the state: keys set, changed or removed.

        Raises:
            NotPlainError: the state is not JSON.
        """
        now = plain_object(after, path="state")
        if not self._states.get(group) and not now:
            return
        state = self._states.setdefault(group, State())
        for key in before:
            if key not in now:
                state.pop(key, None)
        for key, value in now.items():
            if key not in before or not same(before[key], value):
                state[key] = value


def target_of(payload: Mapping[str, Any]) -> str | None:
    """Return what a request is about: its `name` or `uri`, or None."""
    for key in ("name", "uri"):
        if isinstance(value := payload.get(key), str):
            return value
    return None
