"""Serves interceptors on an MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError

from midspan_sdk import Interceptor, InvocationError, Store, wire
from midspan_sdk.mcp._params import InvokeParams, ListParams
from midspan_sdk.serving._capability import add_capability
from midspan_sdk.serving._service import MAX_SESSIONS, InterceptorService, error_data

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer


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
        self._service = InterceptorService(*contributions, store=store, max_sessions=max_sessions)

    @property
    def interceptors(self) -> tuple[Interceptor[..., Any], ...]:
        """The interceptors served, in the order of registration."""
        return self._service.interceptors

    def settings(self) -> dict[str, Any]:
        """Return the capability's settings.

        `supportedEvents`, sorted; `context`, the keys of an invocation's context that some interceptor needs:
        `interceptorState` (the exchange's state, returned in the result's `info`), `request` (the request's payload, in
        the response phase); `stateGroups`, whose state an interceptor shares where its name does not say. An invoker
        that does not read them gets -32602 from the interceptors concerned.
        """
        return self._service.settings()

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
        self._service.end_session(session_id)

    async def _advertise(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict):
            return add_capability(result, self.settings(), handshake=True)
        return result

    async def _list(self, ctx: ServerRequestContext[Any, Any], params: ListParams) -> dict[str, Any]:
        try:
            return self._service.listing(params.plain())
        except ValueError as error:
            raise MCPError(wire.INVALID_PARAMS, "Invalid params", {"reason": str(error)}) from None

    async def _invoke(self, ctx: ServerRequestContext[Any, Any], params: InvokeParams) -> dict[str, Any]:
        try:
            return await self._service.invoke(params.plain())
        except InvocationError as error:
            raise MCPError(error.code, error.message, error_data(error)) from error
