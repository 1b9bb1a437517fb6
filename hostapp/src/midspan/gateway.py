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
    from midspan.http import Front, Headers, Health, HTTPRelay
    from midspan.interception import Asking, Deciding, Denials, Regime, Regimes, Retired
    from midspan.relay import Backend, Judge, RestartPolicy, RestartWhen
    from midspan_sdk import Chain

    AnyBackend = str | Sequence[str] | Server[Any] | MCPServer | Transport | Callable[[], Transport]

__all__ = ["MAX_MESSAGE", "PATH", "Gateway", "TransportName", "asgi_app", "default_name", "mount"]

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
            `replace_chain` puts another in its place.
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
        swappable: whether `replace_chain` may be called. Such a gateway follows all messages, also while nothing acts
            on them, and asks servers over HTTP for answers that are not compressed.

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
        swappable: bool = False,
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
        self._events = _patterns(chain, events)
        self._regimes: Regimes | None = None
        if expose_interceptors and chain is None:
            raise OperatorError("expose_interceptors serves the interceptors of a chain; give a chain too")
        if chain is not None or coerce_input_schemas or swappable:
            from midspan.interception import Regimes

            regime = _regime(
                chain,
                self._events,
                denials,
                _asking(ask_timeout, state_key),
                coerce_input_schemas=coerce_input_schemas,
                expose_interceptors=expose_interceptors,
            )
            self._regimes = Regimes(regime, swappable=swappable)
        self._name = name or default_name(cast("object", backend))
        self._restart: RestartWhen = restart
        self._max_message = max_message
        self._served: HTTPRelay | BridgeEndpoint | None = None

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
        conversations = Conversations(self._regimes, self._name) if self._regimes is not None else None
        return HTTPRelay(upstream, conversations, max_message=self._max_message)

    def _bridge(self) -> BridgeEndpoint:
        from midspan.bridge import BridgeEndpoint

        shared = None if self._url is not None else self._backend()
        return BridgeEndpoint(
            self._backend if shared is None else lambda _: shared,
            self._regimes,
            self._name,
            max_message=self._max_message,
            restart=self._policy,
        )

    def check(self) -> None:
        """Check what can be told without starting the server or connecting to it.

        Raises:
            OperatorError: a command's program is not found, or its working directory is none; an interceptor that is
                to be exposed cannot be.
        """
        self._start_exposure()
        if self._command:
            from midspan.relay import CommandBackend, ConnectError

            try:
                CommandBackend(self._command, env=self._env, cwd=self._cwd).check()
            except ConnectError as error:
                raise OperatorError(str(error)) from error

    async def run_stdio(self, streams: tuple[int, int] | None = None, *, hangup_ends: bool = True) -> int:
        """Serve one client over stdio until it, or the server, ends. Works with or without `async with gateway:`.

        Args:
            streams: descriptors of the client's input and output, closed in the end. By default stdin and stdout, which
                then belong to the protocol alone: what else is printed goes to stderr.
            hangup_ends: whether SIGHUP ends the gateway, as SIGTERM and SIGINT do, and is passed on to the server.

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
                hangup_ends=hangup_ends,
            )
        except ConnectError as error:
            raise OperatorError(str(error)) from error

    def _judge(self) -> Judge:
        from midspan.relay import PassAll

        regimes = self._regimes
        if regimes is None or not (regimes.swappable or regimes.current.acts):
            return PassAll()
        from midspan.interception import ChainJudge, ConnectionContext, local_flow, local_user

        context = ConnectionContext(server=self._name, principal=local_user(), flow=local_flow())
        judge = ChainJudge(regimes, context)
        if not regimes.may_expose:
            return judge
        from midspan.exposing import ExposingJudge

        self._start_exposure()
        return ExposingJudge(judge, regimes)

    def _start_exposure(self) -> None:
        if self._regimes is not None and self._regimes.current.exposure is not None:
            self._regimes.current.exposure.start()

    def replace_chain(
        self,
        chain: Chain | None,
        *,
        events: Iterable[str] | None = None,
        denials: Denials | None = None,
        coerce_input_schemas: bool | None = None,
        expose_interceptors: bool | None = None,
        ask_timeout: float | None = None,
    ) -> Retired:
        """Put another chain in the place of the one in force, between two messages, while clients are connected.

            async with new:
                await gateway.replace_chain(new).wait()
                ...  # whoever entered the old chain may leave it now

        What begins from now on is decided by the new chain, and by the other arguments where they are given; without,
        they stay as they were. What has begun (a request with its answer, a notification, an invocation of an exposed
        interceptor) stays with the old one, which must stay entered until nothing is under way with it any more. What
        comes later than that, such as the answer to a request that was cancelled, the new chain decides on.

        To keep what handlers know of sessions, make the new one with `Chain(succeeding=old)`. It is entered already,
        and stays the caller's, as the old one does. Call this where the gateway runs, in its event loop.

        Args:
            chain: as for the gateway; None relays only from now on.
            events: as for the gateway, as are all others.
            denials: see there.
            coerce_input_schemas: see there.
            expose_interceptors: see there. Clients learn of the capability when they connect, and not later.
            ask_timeout: see there.

        Returns:
            Tells when the old chain is not used any more.

        Raises:
            OperatorError: an argument does not fit; the chain in force stays.
            RuntimeError: the gateway is not swappable.
        """
        regimes = self._regimes
        if regimes is None or not regimes.swappable:
            raise RuntimeError("the chain of this gateway cannot be replaced; make it with swappable=True")
        before = regimes.current
        patterns = self._events if events is None else _patterns(chain, events)
        exposes = before.exposure is not None if expose_interceptors is None else expose_interceptors
        if expose_interceptors and chain is None:
            raise OperatorError("expose_interceptors serves the interceptors of a chain; give a chain too")
        regime = _regime(
            chain,
            patterns,
            before.denials if denials is None else denials,
            before.asking if ask_timeout is None else before.asking.lasting(ask_timeout),
            coerce_input_schemas=before.coerce if coerce_input_schemas is None else coerce_input_schemas,
            expose_interceptors=exposes,
        )
        if regime.exposure is not None:
            regime.exposure.start()
        self._events = patterns
        return regimes.replace(regime)

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
        self._start_exposure()
        await self._endpoint.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections to the server; end those that were started."""
        await self._endpoint.__aexit__(kind, error, traceback)


def default_name(backend: object) -> str:
    """Return what interceptors know a server by that was given no name; see `Gateway`."""
    if isinstance(backend, str):
        return urlsplit(backend).netloc
    if isinstance(backend, Sequence):
        return os.path.basename(str(cast("Sequence[object]", backend)[0]))
    name = getattr(backend, "name", None)
    return name if isinstance(name, str) else "server"


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
            application enters them. More may be mounted later.
        allowed_hosts: as in `Gateway.asgi_app`, like the next two.
        allowed_origins: see there.
        any_address: see there.
        running: entered when a server starts the application by itself, and left when it stops.
        health: as in `Gateway.asgi_app`.
    """
    from midspan.http import Front, Guard

    guard = Guard(hosts=allowed_hosts, origins=allowed_origins, any_address=any_address)
    front = Front({}, guard, running=running, health=health)
    for path, gateway in gateways.items():
        mount(front, path, gateway)
    return front


def mount(front: Front, path: str, gateway: Gateway | None, *, refused: str | None = None) -> None:
    """Serve a path of an application from now on.

    Args:
        front: the application.
        path: relative to where the application is mounted.
        gateway: what serves it; None for a server that is not served.
        refused: why it is not.
    """
    from midspan.http import RefusingEndpoint

    if gateway is None:
        front.put(path, RefusingEndpoint(refused or "it has no guard that works"))
    else:
        front.put(path, gateway._endpoint)  # pyright: ignore[reportPrivateUsage] - of this module, and no business of others


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


def _patterns(chain: Chain | None, events: Iterable[str] | None) -> Sequence[str] | None:
    if events is None:
        return None
    if chain is None:
        raise OperatorError("events says what a chain decides on; give a chain too")
    from midspan.interception import checked_events

    return checked_events(events)


def _regime(
    chain: Chain | None,
    events: Sequence[str] | None,
    denials: Denials | None,
    asking: Asking,
    *,
    coerce_input_schemas: bool,
    expose_interceptors: bool,
) -> Regime:
    from midspan.interception import Regime, narrowed
    from midspan_sdk import Chain

    if chain is None:
        chain = Chain()
    # Without this it would be told by the first message only.
    if not isinstance(cast("object", chain), Chain):
        raise OperatorError(f"the chain must be a Chain, not {type(chain).__name__}; chain.add(...) takes interceptors")
    exposure = None
    if expose_interceptors:
        from midspan.exposing import Exposure

        exposure = Exposure(chain)
    deciding: Deciding = chain if events is None else narrowed(chain, events)
    return Regime(deciding, denials, coerce_input_schemas=coerce_input_schemas, exposure=exposure, asking=asking)


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
