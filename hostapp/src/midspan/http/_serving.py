"""Running an ASGI application: sockets, signals, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from midspan.errors import OperatorError
from midspan.http._front import Front
from midspan.http._guard import is_loopback

logger = logging.getLogger("midspan.gateway")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_GRACE: Final = 3
"""Seconds that requests under way may take when the server stops."""
_FLUSH: Final = 1
"""Seconds in which clients may take the last bytes of their responses."""
_KEEP_ALIVE: Final = 75
"""Seconds that an idle connection of a client is kept: longer than clients keep theirs, so that they end it."""
_LONGEST_HEAD: Final = 64 * 1024


def listen(host: str, port: int) -> socket.socket:
    """Open the socket that the server listens on.

    Args:
        host: a name or address; `localhost` means 127.0.0.1.
        port: 0 takes any free one.

    Raises:
        OperatorError: the address is not this machine's, the port is taken, or the name means nothing.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            "127.0.0.1" if host == "localhost" else host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OperatorError(f"cannot listen on {host}: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        hint = "; choose another --port" if error.errno == errno.EADDRINUSE else ""
        raise OperatorError(f"cannot listen on {host} port {port}: {error.strerror}{hint}") from error
    return listener


def is_public(listener: socket.socket) -> bool:
    """Tell whether others than this machine can reach a socket."""
    return not is_loopback(listener.getsockname()[0])


def url_of(listener: socket.socket, path: str) -> str:
    """Return the URL under which a socket is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"


class _Protocol(HttpToolsProtocol):
    """Bounds the head of a request, which the parser does not."""

    _head = 0
    _in_head = True

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            # What this chunk holds may be body; only earlier ones are certainly head.
            if self._head > _LONGEST_HEAD:
                self.send_400_response("the head of the request is too long")
                return
            self._head += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head, self._in_head = 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head, self._in_head = 0, True
        super().on_message_complete()


class _Server(uvicorn.Server):
    """Waits for a signal instead of looking ten times a second whether one came."""

    def __init__(
        self, config: uvicorn.Config, stop: asyncio.Event, stopping: Callable[[], None], front: Front | None
    ) -> None:
        super().__init__(config)
        self._stop = stop
        self._stopping = stopping
        self._front = front
        self._hurry = asyncio.Event()

    async def main_loop(self) -> None:
        await self._stop.wait()
        self._stopping()
        if self._front is not None:
            # The socket stays open meanwhile: who asks whether this is ready gets an answer.
            self.config.timeout_graceful_shutdown = await self._drain(self._front)

    async def _drain(self, front: Front) -> int:
        """Let requests under way finish. Return the seconds in which connections may take the last bytes."""
        idle, hurry = asyncio.create_task(front.idle()), asyncio.create_task(self._hurry.wait())
        await asyncio.wait({idle, hurry}, timeout=_GRACE, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        hurry.cancel()
        if front.under_way:
            logger.warning("stopping: gave up requests under way: %d", front.under_way)
            return 0
        return _FLUSH

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        # Only the main thread hears signals.
        numbers = _SIGNALS if threading.current_thread() is threading.main_thread() else ()
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        # A second signal does not wait for requests under way.
        if self._stop.is_set():
            self.force_exit = True
            self._hurry.set()
        self._stop.set()


async def run_server(
    app: Any,
    listener: socket.socket,
    *,
    stop: asyncio.Event | None = None,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal (SIGTERM, SIGINT) asks for the end.

    Args:
        app: the ASGI application.
        listener: from `listen`; closed in the end.
        stop: asks for the end too, when it is set.
        stopping: called when the end begins, to let streams end that would go on for ever.
    """
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_GRACE,
    )
    front = app if isinstance(app, Front) else None
    await _Server(config, stop or asyncio.Event(), stopping, front).serve(sockets=[listener])
