"""Serves interceptors on an MCP server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError

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
from midspan_sdk.mcp._capability import add_to_handshake, settings_of
from midspan_sdk.mcp._params import InvokeParams, ListParams, read_invocation
from midspan_sdk.mcp._sendable import UnsendableError, check_sendable
from midspan_sdk.mcp._serving import ServedInterceptor
from midspan_sdk.mcp._sessions import RecentSessions

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

MAX_SESSIONS: Final = 10_000
_GIVES: Final = frozenset({"session", "store"})


class InterceptorsExtension(Extension):
    """Serves `interceptors/list` and `interceptor/invoke`, and advertises the capability.

    `MCPServer(extensions=[extension])` serves both methods on every connection, but advertises the capability on
    2026-07-28 connections only: the SDK leaves extensions out of handshake results. `extension.install(server)`
    afterwards adds it there. On a low-level `Server`, `extension.install(server)` is all.

    The server runs handlers with the chain's own code: same isolation, deadlines and checks. What a chain decides stays
    with the invoker's chain: order, mode, failing open, protected parts of a message. Sinks run at once here; the
    invoker has its own queue for them. The event loop must be asyncio's.

    Args:
        contributions: what `@validator`, `@mutator` and `@sink` made, or objects with such methods. Listed in this
            order.
        store: where `store` keeps its values; in memory by default.
        max_sessions: how many sessions' `session_state` is kept; beyond it the one used longest ago is forgotten.

    Raises:
        DefinitionError: a contribution is no interceptor, a name is used twice, or an interceptor needs what a server
            of interceptors cannot give (`ask`, `tools`).
    """

    identifier = wire.CAPABILITY_KEY

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

    def methods(self) -> Sequence[MethodBinding]:
        """Return the two methods."""
        return (
            MethodBinding(wire.LIST_METHOD, ListParams, self._list),
            MethodBinding(wire.INVOKE_METHOD, InvokeParams, self._invoke),
        )

    def install(self, server: Server[Any] | MCPServer[Any]) -> None:
        """Serve and advertise on a server, in both protocol eras. Does what is not done yet, so twice is harmless.

        Args:
            server: a low-level `Server`, or an `MCPServer` with or without this extension among its `extensions`.

        Raises:
            ValueError: another handler serves one of the methods already.
        """
        # `MCPServer` publishes its middleware but not the server below it, which alone takes request handlers.
        lowlevel = cast("Server[Any]", getattr(server, "_lowlevel_server", server))
        bindings = self.methods()
        for binding in bindings:
            bound = lowlevel.get_request_handler(binding.method)
            if bound is not None and bound.handler != binding.handler:
                raise ValueError(f"{binding.method} is already served by another handler of this server")
        for binding in bindings:
            lowlevel.add_request_handler(binding.method, binding.params_type, binding.handler)
        lowlevel.extensions[self.identifier] = self.settings()
        if self._advertise not in lowlevel.middleware:
            lowlevel.middleware.append(self._advertise)

    def end_session(self, session_id: str) -> None:
        """Forget a session's state."""
        self._sessions.end(session_id)

    async def _advertise(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict):
            return add_to_handshake(result, self.settings())
        return result

    async def _list(self, ctx: ServerRequestContext[Any, Any], params: ListParams) -> dict[str, Any]:
        if params.event is not None and not isinstance(params.event, str):
            raise MCPError(wire.INVALID_PARAMS, "Invalid params", {"reason": "event must be a string"})
        descriptors = [
            interceptor.descriptor.to_wire()
            for interceptor in self.interceptors
            if params.event is None or _hooks_into(interceptor, params.event)
        ]
        return {wire.INTERCEPTORS_KEY: descriptors}

    async def _invoke(self, ctx: ServerRequestContext[Any, Any], params: InvokeParams) -> dict[str, Any]:
        try:
            served = self._find(params.name)
            request = read_invocation(served.interceptor.name, params)
            if served.takes_session and request.context.session_id is not None:
                self._sessions.use(request.context.session_id)
            return await served.invoke(request)
        except InvocationError as error:
            raise _answer(error) from error

    def _find(self, name: object) -> ServedInterceptor:
        if not isinstance(name, str):
            raise InvalidInvocationError("", "name must be the name of an interceptor")
        served = self._served.get(name)
        if served is None:
            raise UnknownInterceptorError(name)
        return served


def _hooks_into(interceptor: Interceptor[..., Any], event: str) -> bool:
    patterns: Iterable[str] = (pattern for hook in interceptor.descriptor.hooks for pattern in hook.events)
    return any(overlaps(pattern, event) for pattern in patterns)


def _answer(error: InvocationError) -> MCPError:
    data = error.data
    try:
        check_sendable(data)
    except UnsendableError:
        # The peer's own words, echoed: a name, or keys in a reason.
        data = {"interceptor": "", "reason": "the invocation holds text that is not Unicode"}
    return MCPError(error.code, error.message, data)
