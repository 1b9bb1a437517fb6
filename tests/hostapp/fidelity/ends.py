"""Both ends of a connection, in a test's hands."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio

from tests.patience import PATIENCE

from .client.link import Arrival, Link, Params
from .direct import Direct
from .eras import SUBSCRIPTION_KEY, Era, dig
from .exact import assert_same
from .gateways import Address, Front, gateway_to
from .pairs import Case, Form
from .server.asked import Heard
from .server.over_http import serve_http
from .server.over_sse import serve_sse
from .server.over_stdio import serve_stdio
from .server.server import Script, Server, awkward_server


@dataclass(kw_only=True)
class Ends:
    """A client and a server, and whatever is between them.

    Attributes:
        case: what that is.
        link: the client's connection.
        server: the server.
    """

    case: Case
    link: Link
    server: Server
    _front: Front | Direct
    _stack: AsyncExitStack = field(repr=False)

    async def another(self) -> Link:
        """Connect another client: one more of an HTTP gateway's, or one with a gateway process of its own."""
        return await self._stack.enter_async_context(self._front.connect(self.case.era))

    async def begin(self, version: str | None = None) -> Arrival:
        """Say hello, and wait until the server knows that it was heard."""
        answer = await self.link.begin(version)
        if self.case.era is Era.HANDSHAKE:
            await self.server.got("notifications/initialized")
        return answer

    async def exchange(
        self,
        method: str,
        params: Params | None = None,
        *,
        result: object = None,
        error: object = None,
        more: str = "",
        script: Script | None = None,
        status: str = "200 OK",
        **options: Any,
    ) -> Arrival:
        """Send a request, and assert that both sides got what the other one sent, and nothing else.

        Args:
            method: of the request.
            params: its params.
            result: the server's answer, as JSON or as a value.
            error: in place of a result.
            more: further keys of both envelopes, as JSON that begins with a comma.
            script: does something else than to answer at once; it answers in the end.
            status: of an HTTP response with an error.
            options: of `Link.start`.
        """

        async def answers(asked: Any) -> None:
            if error is not None:
                await asked.fail(error, more, status=status)
            else:
                await asked.answer("{}" if result is None else result, more)

        self.server.on(method, script or answers)
        before = len(self.server.heard)
        arrival = await self.link.request(method, params, more=more, **options)
        heard = [heard for heard in self.server.heard[before:] if heard.method]
        assert [each.method for each in heard] == [method]
        self.assert_heard(heard[0], self.link.sent[-1] if script is None else self._request(method))
        self.assert_arrived(arrival, self.server.said[-1])
        return arrival

    def _request(self, method: str) -> bytes:
        return next(raw for raw in reversed(self.link.sent) if f'"method":"{method}"'.encode() in raw)

    def assert_heard(self, heard: Heard, sent: bytes) -> None:
        """Assert that the server got what the client sent."""
        ours, theirs = heard.raw, sent
        if self.case.renames:
            ours, theirs = unnamed(ours), unnamed(theirs)
        assert_same(ours, theirs)

    def assert_arrived(self, arrival: Arrival, said: bytes) -> None:
        """Assert that the client got what the server said."""
        ours, theirs = arrival.raw, said
        if self.case.renames:
            ours, theirs = unnamed(ours), unnamed(theirs)
        assert_same(ours, theirs)


def unnamed(raw: bytes) -> bytes:
    """Return a message without what a gateway may rename: ids, progress tokens, and ids of subscriptions."""
    message = json.loads(raw)
    for holder, key in (
        (message, "id"),
        (dig(message, "params"), "progressToken"),
        (dig(message, "params"), "requestId"),
        (dig(message, "params", "_meta"), "progressToken"),
        (dig(message, "params", "_meta"), SUBSCRIPTION_KEY),
        (dig(message, "result", "_meta"), SUBSCRIPTION_KEY),
    ):
        if isinstance(holder, dict) and key in holder:
            holder[key] = "renamed"
    return json.dumps(message).encode()


def _serve(case: Case, server: Server) -> AbstractAsyncContextManager[Address]:
    if case.back == "stdio":
        return serve_stdio(server)
    return serve_http(server) if case.back == "http" else serve_sse(server)


@asynccontextmanager
async def _front_of(case: Case, address: Address) -> AsyncGenerator[Front | Direct]:
    if case.pair is None:
        yield Direct(case.back, address)
        return
    async with gateway_to(case.pair, address, judged=case.judged) as front:
        yield front


@asynccontextmanager
async def connected(case: Case, form: Form = "json", *, patience: float = PATIENCE) -> AsyncGenerator[Ends]:
    """Start a server, a gateway if the case has one, and connect a client that has said nothing yet."""
    server = awkward_server(form)
    try:
        with anyio.fail_after(patience):
            async with AsyncExitStack() as stack:
                group = await stack.enter_async_context(anyio.create_task_group())
                group.start_soon(_raise_first, server)
                stack.callback(group.cancel_scope.cancel)
                address = await stack.enter_async_context(_serve(case, server))
                front = await stack.enter_async_context(_front_of(case, address))
                link = await stack.enter_async_context(front.connect(case.era))
                yield Ends(case=case, link=link, server=server, _front=front, _stack=stack)
                assert not server.complaints, server.complaints
    except BaseExceptionGroup as errors:
        raise _cause(errors) from None


@asynccontextmanager
async def talking(case: Case, form: Form = "json", **options: Any) -> AsyncGenerator[Ends]:
    """Connect a client that has said hello."""
    async with connected(case, form, **options) as ends:
        await ends.begin()
        yield ends


def _cause(error: BaseException) -> BaseException:
    """Return the one fault that passed through however many groups of tasks."""
    inner = cast("tuple[BaseException, ...]", getattr(error, "exceptions", ()))
    return _cause(inner[0]) if len(inner) == 1 else error


async def _raise_first(server: Server) -> None:
    await server.failures.reach(1)
    raise server.failures[0]
