"""The gateway as a Python API."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast, get_args
from urllib.parse import urlsplit

from midspan._web import URLFault, field_names, field_value, shown_url, url_fault
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.server import Server
    from mcp.server.mcpserver import MCPServer

    from midspan.bridge import BridgeEndpoint
    from midspan.exposing import Exposure
    from midspan.http import Front, Headers, Health, HTTPRelay
    from midspan.interception import Asking, Deciding, Denials
    from midspan.relay import Backend, Judge, RestartPolicy, RestartWhen
    from midspan_sdk import Chain

    AnyBackend = str | Sequence[str] | Server[Any] | MCPServer | Transport | Callable[[], Transport]

__all__ = ["MAX_MESSAGE", "PATH", "Gateway", "TransportName"]

PATH: Final = "/mcp"
"""Where the endpoint is, by convention."""
MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Default limit of one message in bytes."""

_URL_FAULTS: Final = {
    URLFault.NO_URL: ": it is no URL",
    URLFault.NO_SERVER: ": give the URL of the server, like http://localhost:8000/mcp",
    URLFault.CREDENTIALS: " with credentials in the URL; let the client send an Authorization header",
    URLFault.FRAGMENT: ": a fragment is never sent to a server; leave it out",
}
_AS_A_LIST: Final = "a command is given as a list, such as ['npx', 'some-server']"

TransportName = Literal["http", "sse"]
_RESTARTS: Final = ("never", "on-failure", "always")


class Gateway:
    """Puts a chain between clients and a server.

        async with chain, Gateway("http://localhost:8000/mcp", chain) as gateway:
            app = gateway.asgi_app()

        async with chain:
            await Gateway(["npx", "some-server"], chain).run_stdio()

    Both eras of the protocol pass: the handshake revisions and 2026-07-28. A message that no interceptor acts on passes
    as it came.

    Args:
        backend: the server: a URL; a command as a list, which is started for each connection; an `MCPServer` or
            low-level `Server` of the SDK, which is run for each; one of the SDK's transports, which serves a single
            connection, or a function that returns a new one.
        chain: decides on every message; None, or one that has neither entries nor observers when the gateway starts,
            relays only. It stays the caller's: sinks and queued observers need `async with chain:` around the gateway.
        events: the JSON-RPC methods, or globs whose `*` crosses `/`, that the chain decides on here; all others pass
            as they came. None: all.
        transport: of a URL: `http` is streamable HTTP, `sse` the HTTP+SSE transport of 2024-11-05.
        headers: for every request to a URL, such as credentials. A client's own headers get on to a server that is
            reached over streamable HTTP by an HTTP front, and these replace them.
        env: the whole environment of a command; by default this process's.
        cwd: the working directory of a command; by default this process's.
        name: what interceptors know the server by; by default the URL's host and port, the command's name, the
            server object's name, or `server`.
        restart: whether a command that ends while clients use it is started anew: `never`, `on-failure` or `always`,
            with growing pauses. The new server gets the handshake that the client had with the old one.
        denials: what the sender of a blocked message is told.
        coerce_input_schemas: give `{"type": "object"}` as `inputSchema` to tools that the server lists without one,
            which many clients refuse. Those that a mutator took it from get it in any case.
        expose_interceptors: serve the chain's interceptors that run in this process to clients, as they are configured
            there: the gateway answers `interceptors/list` and `interceptor/invoke` by itself, in the place of a server
            that has them too, and advertises the capability. What they keep for a client's invocations is apart from
            what they keep for the traffic.
        max_message: the longest message in bytes.
        ask_timeout: seconds in which the user answers what a handler asks; then the handler fails.
        state_key: seals what a client of 2026-07-28 carries while its user is asked: at least 32 letters or digits at
            random, the same for all processes behind one address. By default the environment's `MIDSPAN_STATE_KEY`,
            else one that is made for this process.

    Raises:
        OperatorError: the backend is none that can be relayed to, or an argument does not fit it.
    """

    def __init__(
        self,
        backend: AnyBackend,
        chain: Chain | None = None,
        *,
        events: Iterable[str] | None = None,
        transport: TransportName = "http",
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        name: str | None = None,
        restart: RestartWhen = "never",
        denials: Denials | None = None,
        coerce_input_schemas: bool = False,
        expose_interceptors: bool = False,
        max_message: int = MAX_MESSAGE,
        ask_timeout: float = 300.0,
        state_key: str | None = None,
    ) -> None:
        self._url: str | None = None
        self._command: list[str] = []
        self._sdk: Backend | None = None
        if isinstance(backend, str):
            self._url = _checked_url(backend)
        elif isinstance(backend, Sequence):
            self._command = _checked_command(cast("Sequence[object]", backend))
        else:
            from midspan.bridge import sdk_backend

            self._sdk = sdk_backend(backend)
        if self._url is None and (headers is not None or transport != "http"):
            raise OperatorError("headers and transport belong to a backend that is a URL")
        if not self._command and (env is not None or cwd is not None or restart != "never"):
            raise OperatorError("env, cwd and restart belong to a backend that is a command")
        _check_choice("transport", transport, get_args(TransportName))
        _check_choice("restart", restart, _RESTARTS)
        if max_message < 1:
            raise OperatorError(f"max_message is a number of bytes above zero, not {max_message}")
        self._transport = transport
        self._headers = _header_fields(headers or {})
        self._env = env
        self._cwd = cwd
        self._chain = _narrowed(_empty_chain() if chain is None and coerce_input_schemas else chain, events)
        self._coerce = coerce_input_schemas
        self._exposure = _exposure(chain) if expose_interceptors else None
        self._name = name or self._default_name(cast("object", backend))
        self._restart: RestartWhen = restart
        self._denials = denials
        self._max_message = max_message
        self._asking = _asking(ask_timeout, state_key) if self._chain is not None else None
        self._served: HTTPRelay | BridgeEndpoint | None = None

    def _default_name(self, backend: object) -> str:
        if self._url is not None:
            return urlsplit(self._url).netloc
        if self._command:
            return os.path.basename(self._command[0])
        name = getattr(backend, "name", None)
        return name if isinstance(name, str) else "server"

    def _backend(self, client_headers: Headers = ()) -> Backend:
        """Return what opens connections.

        Args:
            client_headers: of the HTTP request that a connection is opened for.
        """
        if self._command:
            from midspan.relay import CommandBackend

            return CommandBackend(self._command, env=self._env, cwd=self._cwd)
        if self._url is not None:
            from midspan.bridge import HTTPBackend, SSEBackend

            kind = SSEBackend if self._transport == "sse" else HTTPBackend
            own = {name for name, _ in self._headers}
            passed = [(key, text) for key, text in client_headers if key == b"authorization" and key not in own]
            return kind(self._url, [*self._headers, *passed])
        assert self._sdk is not None
        return self._sdk

    @property
    def _policy(self) -> RestartPolicy:
        from midspan.relay import RestartPolicy

        return RestartPolicy(self._restart)

    @property
    def _endpoint(self) -> HTTPRelay | BridgeEndpoint:
        if self._served is None:
            to_http = self._url is not None and self._transport == "http"
            self._served = self._relay(cast("str", self._url)) if to_http else self._bridge()
        return self._served

    def _relay(self, url: str) -> HTTPRelay:
        from midspan.http import Conversations, HTTPRelay, Upstream

        upstream = Upstream(url, self._headers)
        conversations = None
        if self._chain is not None:
            conversations = Conversations(
                self._chain,
                self._name,
                self._denials,
                coerce_input_schemas=self._coerce,
                exposure=self._exposure,
                asking=self._asking,
            )
        return HTTPRelay(upstream, conversations, max_message=self._max_message)

    def _bridge(self) -> BridgeEndpoint:
        from midspan.bridge import BridgeEndpoint

        shared = None if self._url is not None else self._backend()
        return BridgeEndpoint(
            self._backend if shared is None else lambda _: shared,
            self._chain,
            self._name,
            self._denials,
            max_message=self._max_message,
            restart=self._policy,
            coerce_input_schemas=self._coerce,
            exposure=self._exposure,
            asking=self._asking,
        )

    def check(self) -> None:
        """Check what can be told without starting the server or connecting to it.

        Raises:
            OperatorError: a command's program is not found, or its working directory is none; an interceptor that is
                to be exposed cannot be.
        """
        if self._exposure is not None:
            self._exposure.start()
        if self._command:
            from midspan.relay import CommandBackend, ConnectError

            try:
                CommandBackend(self._command, env=self._env, cwd=self._cwd).check()
            except ConnectError as error:
                raise OperatorError(str(error)) from error

    async def run_stdio(self, streams: tuple[int, int] | None = None) -> int:
        """Serve one client over stdio until it, or the server, ends. Works with or without `async with gateway:`.

        Args:
            streams: descriptors of the client's input and output, closed in the end. By default stdin and stdout, which
                then belong to the protocol alone: what else is printed goes to stderr.

        Returns:
            The exit code of a server that is a command; 128 + N when signal N ended it. Of others 0, or 1 when the
            connection was lost.

        Raises:
            OperatorError: the server cannot be started or reached; the streams are still open then.
        """
        from midspan.relay import ConnectError, claim_standard_streams, run_stdio

        try:
            return await run_stdio(
                self._backend(),
                self._judge(),
                streams=streams or claim_standard_streams(),
                max_message=self._max_message,
                restart=self._policy,
            )
        except ConnectError as error:
            raise OperatorError(str(error)) from error

    def _judge(self) -> Judge:
        from midspan.relay import PassAll

        if self._chain is None:
            return PassAll()
        from midspan.interception import ChainJudge, ConnectionContext, acts, local_flow, local_user

        if not (self._coerce or self._exposure is not None or acts(self._chain)):
            return PassAll()
        context = ConnectionContext(server=self._name, principal=local_user(), flow=local_flow())
        judge = ChainJudge(self._chain, context, self._denials, coerce_input_schemas=self._coerce, asking=self._asking)
        if self._exposure is None:
            return judge
        self._exposure.start()
        return self._exposure.around(judge)

    def asgi_app(
        self,
        path: str = PATH,
        *,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        any_address: bool = False,
        health: Health | None = None,
    ) -> Front:
        """Return an ASGI application, to be run by a server, or mounted in Starlette or FastAPI.

        A server that runs it by itself starts and stops the gateway. Mounted, it serves requests inside of
        `async with gateway:`, which belongs into the lifespan of the application around it.

        Args:
            path: the endpoint's, relative to where the application is mounted.
            allowed_hosts: names that the `Host` of a request may have beside the loopback ones.
            allowed_origins: origins that pages may have, beside those on an accepted host.
            any_address: accept every IP address as `Host`; for servers that listen on more than loopback.
            health: answers `/healthz` and `/readyz` beside the endpoint, also to others than the allowed hosts. A
                server that runs the application by itself keeps its state; mounted, whoever mounts it does.
        """
        return asgi_app(
            {path: self},
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            any_address=any_address,
            running=self,
            health=health,
        )

    def stop(self) -> None:
        """End the streams that are open for what the server may want to say; requests under way go on."""
        if self._served is not None:
            self._served.stop()

    async def __aenter__(self) -> Self:
        """Start. Connects to nothing yet."""
        if self._exposure is not None:
            self._exposure.start()
        await self._endpoint.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections to the server; end those that were started."""
        await self._endpoint.__aexit__(kind, error, traceback)


def asgi_app(
    gateways: Mapping[str, Gateway],
    *,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    any_address: bool = False,
    running: AbstractAsyncContextManager[Any] | None = None,
    health: Health | None = None,
) -> Front:
    """Return one ASGI application for several gateways.

    Args:
        gateways: by the path of their endpoint, relative to where the application is mounted. Whoever runs the
            application enters them.
        allowed_hosts: as in `Gateway.asgi_app`, like the next two.
        allowed_origins: see there.
        any_address: see there.
        running: entered when a server starts the application by itself, and left when it stops.
        health: as in `Gateway.asgi_app`.
    """
    from midspan.http import Front, Guard

    guard = Guard(hosts=allowed_hosts, origins=allowed_origins, any_address=any_address)
    endpoints = {path: gateway._endpoint for path, gateway in gateways.items()}  # pyright: ignore[reportPrivateUsage] - of this module, and no business of others
    return Front(endpoints, guard, running=running, health=health)


def _checked_url(url: str) -> str:
    fault = url_fault(url)
    if fault is None:
        return url
    if "://" not in url and len(url.split()) > 1:
        # What stands behind the first word may be a secret.
        raise OperatorError(f"cannot relay to {url.split()[0]!r}: it is no URL; {_AS_A_LIST}")
    hint = "" if "://" in url else f"; {_AS_A_LIST}"
    raise OperatorError(f"cannot relay to {shown_url(url)!r}{_URL_FAULTS[fault]}{hint}")


def _checked_command(words: Sequence[object]) -> list[str]:
    command = [word for word in words if isinstance(word, str)]
    if not command or not command[0] or len(command) != len(words):
        raise OperatorError(f"{_AS_A_LIST}: texts only, the program first")
    return command


def _check_choice(argument: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise OperatorError(f"{argument} is {' or '.join(map(repr, choices))}, not {given!r}")


def _asking(timeout: float, key: str | None) -> Asking:
    from midspan.interception import Asking

    return Asking(timeout=timeout, key=key if key is not None else os.environ.get("MIDSPAN_STATE_KEY") or None)


def _empty_chain() -> Chain:
    from midspan_sdk import Chain

    return Chain()


def _narrowed(chain: Chain | None, events: Iterable[str] | None) -> Deciding | None:
    if chain is None:
        if events is not None:
            raise OperatorError("events says what a chain decides on; give a chain too")
        return None
    from midspan_sdk import Chain

    # Without this it would be told by the first message only.
    if not isinstance(cast("object", chain), Chain):
        raise OperatorError(f"the chain must be a Chain, not {type(chain).__name__}; chain.add(...) takes interceptors")
    if events is None:
        return chain
    from midspan.interception import narrowed

    return narrowed(chain, events)


def _exposure(chain: Chain | None) -> Exposure:
    if chain is None:
        raise OperatorError("expose_interceptors serves the interceptors of a chain; give a chain too")
    from midspan.exposing import Exposure

    return Exposure(chain)


def _header_fields(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    try:
        field_names(headers)
        for value in headers.values():
            field_value(value)
        return [(name.lower().encode(), value.strip(" \t").encode()) for name, value in headers.items()]
    except UnicodeEncodeError:
        raise OperatorError("headers must have values that are Unicode text") from None
    except ValueError as error:
        raise OperatorError(f"headers {error}") from None
