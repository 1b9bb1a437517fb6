"""The two methods, as plain JSON in and out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from midspan_sdk import (
    DefinitionError,
    DuplicateInterceptorError,
    Interceptor,
    InvalidInvocationError,
    InvocationError,
    MemoryStore,
    Store,
    UnknownInterceptorError,
    UnmetNeedError,
    wire,
)
from midspan_sdk._authoring import interceptors_of
from midspan_sdk._chain import NEED_SENTENCES
from midspan_sdk._surroundings import Sessions, Surroundings
from midspan_sdk.events import overlaps
from midspan_sdk.serving._capability import settings_of
from midspan_sdk.serving._reading import read_invocation
from midspan_sdk.serving._sendable import UnsendableError, check_sendable
from midspan_sdk.serving._served import ServedInterceptor
from midspan_sdk.serving._sessions import RecentSessions

MAX_SESSIONS: Final = 10_000
_GIVES: Final = frozenset({"session", "store"})


class InterceptorService:
    """Answers `interceptors/list` and `interceptor/invoke`.

    It runs handlers with the chain's own code: same isolation, deadlines and checks. What a chain decides stays with
    the invoker's chain: order, mode, failing open, protected parts of a message. Sinks run at once here; the invoker
    has its own queue for them. The event loop must be asyncio's.

    Args:
        contributions: what `@validator`, `@mutator` and `@sink` made, or objects with such methods. Listed in this
            order.
        store: where `store` keeps its values; in memory by default.
        max_sessions: how many sessions' `session_state` is kept; beyond it the one used longest ago is forgotten.

    Raises:
        DefinitionError: a contribution is no interceptor, a name is used twice, or an interceptor needs what a server
            of interceptors cannot give (`ask`, `tools`).
    """

    def __init__(self, *contributions: object, store: Store | None = None, max_sessions: int = MAX_SESSIONS) -> None:
        sessions = Sessions()
        surroundings = Surroundings(store or MemoryStore(), sessions, _GIVES)
        self._sessions = RecentSessions(sessions, max_sessions)
        self._served: dict[str, ServedInterceptor] = {}
        for contribution in contributions:
            for interceptor in interceptors_of(contribution):
                self._check(interceptor)
                self._served[interceptor.name] = ServedInterceptor(interceptor, surroundings)

    def _check(self, interceptor: Interceptor[..., Any]) -> None:
        if interceptor.name in self._served:
            raise DuplicateInterceptorError(interceptor.name, "is registered twice", field="name")
        for need in sorted(interceptor.needs - _GIVES):
            raise UnmetNeedError(interceptor.name, NEED_SENTENCES[need], field="needs")
        try:
            check_sendable(interceptor.descriptor.to_wire())
        except UnsendableError as error:
            raise DefinitionError(interceptor.name, f"its descriptor {error}") from None

    @property
    def interceptors(self) -> tuple[Interceptor[..., Any], ...]:
        """The interceptors served, in the order of registration."""
        return tuple(served.interceptor for served in self._served.values())

    def settings(self) -> dict[str, Any]:
        """Return the capability's settings.

        `supportedEvents`, sorted; `context`, the keys of an invocation's context that some interceptor needs:
        `interceptorState` (the exchange's state, returned in the result's `info`), `request` (the request's payload, in
        the response phase); `stateGroups`, whose state an interceptor shares where its name does not say. An invoker
        that does not read them gets -32602 from the interceptors concerned.
        """
        return settings_of(self.interceptors)

    def listing(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of `interceptors/list`. It is one page, so no cursor is ever given out.

        Args:
            params: of the request: `event`, a method or a glob, filters.

        Raises:
            ValueError: a parameter is not acceptable; the text is a reason that may go to a peer.
        """
        event = params.get("event")
        if event is not None and not isinstance(event, str):
            raise ValueError("event must be a string")
        if params.get("cursor") is not None:
            raise ValueError("there is no such cursor")
        descriptors = [
            interceptor.descriptor.to_wire()
            for interceptor in self.interceptors
            if event is None or _hooks_into(interceptor, event)
        ]
        return {wire.INTERCEPTORS_KEY: descriptors}

    async def invoke(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run a handler once and return the flat result of `interceptor/invoke`.

        Args:
            params: of the request.

        Raises:
            InvocationError: the invocation is refused, or the handler failed or was too slow. Its code and message are
                those of the protocol; `error_data` returns the data.
        """
        served = self._find(params.get("name"))
        request = read_invocation(served.interceptor.name, params)
        if served.takes_session and request.context.session_id is not None:
            self._sessions.use(request.context.session_id)
        return await served.invoke(request)

    def _find(self, name: object) -> ServedInterceptor:
        if not isinstance(name, str):
            raise InvalidInvocationError("", "name must be the name of an interceptor")
        served = self._served.get(name)
        if served is None:
            raise UnknownInterceptorError(name)
        return served

    def end_session(self, session_id: str) -> None:
        """Forget a session's state."""
        self._sessions.end(session_id)


def _hooks_into(interceptor: Interceptor[..., Any], event: str) -> bool:
    patterns: Iterable[str] = (pattern for hook in interceptor.descriptor.hooks for pattern in hook.events)
    return any(overlaps(pattern, event) for pattern in patterns)


def error_data(error: InvocationError) -> dict[str, Any]:
    """Return the data with which a peer is told of a failed invocation: never what could not be sent."""
    try:
        check_sendable(error.data)
    except UnsendableError:
        # The peer's own words, echoed: a name, or keys in a reason.
        return {"interceptor": "", "reason": "the invocation holds text that is not Unicode"}
    return error.data
