"""Guard one server for one stdio client, until either ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Generator
from typing import Any, Final

from midspan.relay._channel import Backend, Connection, LineWriter
from midspan.relay._lines import MAX_LINE, FileWriter, LineReader, PipeWriter, open_reader, open_writer
from midspan.relay._relay import Judge, relay
from midspan.relay._supervised import NEVER, RestartPolicy, Supervised

_LAST_WORDS: Final = 0.3
"""Seconds for what is still on its way when a signal, or the client's end, stops the gateway."""

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


class _Signals:
    """Passes signals on to the server, and notes that one came.

    Args:
        hangup: whether SIGHUP is one of them.
    """

    def __init__(self, *, hangup: bool) -> None:
        self._numbers = (*_ENDING, signal.SIGHUP) if hangup else _ENDING
        self.came = asyncio.Event()
        self.early: list[int] = []
        self._server: Connection | None = None

    @contextlib.contextmanager
    def caught(self) -> Generator[None]:
        """Catch them. One that was ignored when this process started (`nohup`) stays ignored."""
        loop = asyncio.get_running_loop()
        # Only the main thread hears signals.
        wanted = self._numbers if threading.current_thread() is threading.main_thread() else ()
        numbers = [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def awaited(self, opening: asyncio.Task[Any]) -> bool:
        """Wait for a connection. Return whether it was opened, or failed; a signal ends waiting that takes long."""
        signalled = asyncio.create_task(self.came.wait())
        try:
            await asyncio.wait({opening, signalled}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                await asyncio.wait({opening}, timeout=_LAST_WORDS)
            return opening.done()
        finally:
            signalled.cancel()
            if not opening.done():
                opening.cancel()
                await asyncio.wait({opening})

    def pass_on_to(self, server: Connection) -> None:
        """Name the server; it gets what came before too."""
        self._server = server
        for number in self.early:
            server.signal(number)

    def _on_signal(self, number: int) -> None:
        self.came.set()
        if self._server is None:
            self.early.append(number)
        else:
            self._server.signal(number)


async def run_stdio(
    backend: Backend,
    judge: Judge,
    *,
    streams: tuple[int, int],
    max_message: int = MAX_LINE,
    restart: RestartPolicy = NEVER,
    hangup_ends: bool = True,
) -> int:
    """Connect to the server, relay, and end with it.

    The end of the client's input alone ends nothing: the server learns of it and may finish, and what it says until
    then still reaches the client.

    Args:
        backend: the server.
        judge: decides on each message.
        streams: descriptors of the client's input and output, from `claim_standard_streams`.
        max_message: the longest message in bytes.
        restart: whether to go on with a new server when this one ends.
        hangup_ends: whether SIGHUP ends the gateway, as SIGTERM and SIGINT do; else it is left to whoever hears it.

    Returns:
        The server's exit code, when it is a process; 128 + N when signal N ended it, or the attempt to reach it.

    Raises:
        ConnectError: there is no connection to the server; the streams are as they were.
    """
    signals = _Signals(hangup=hangup_ends)
    with signals.caught():
        opening = asyncio.create_task(Supervised.open(backend, limit=max_message, policy=restart))
        if not await signals.awaited(opening):
            return 128 + signals.early[0]
        server = opening.result()
        signals.pass_on_to(server)
        try:
            client_in = await open_reader(streams[0], limit=max_message)
            client_out = await open_writer(streams[1])
            try:
                return await _relay_for(server, judge, client_in, client_out, signals.came)
            finally:
                client_in.close()
                client_out.abort()
        finally:
            server.kill()


async def _relay_for(
    server: Connection,
    judge: Judge,
    client_in: LineReader,
    client_out: PipeWriter | FileWriter,
    signalled: asyncio.Event,
) -> int:
    relaying = asyncio.create_task(relay(client_in, client_out, server.to_server, server.from_server, judge))
    # These two end the gateway, whatever else is under way.
    over = {asyncio.create_task(client_out.lost.wait()), asyncio.create_task(signalled.wait())}
    tasks: set[asyncio.Task[Any]] = {relaying, *over}
    try:
        # However slow the judge or the client: what the server said before its end is delivered.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        code = await server.stop(signalled=signalled.is_set())
        if not relaying.done():
            await asyncio.wait({relaying}, timeout=_LAST_WORDS)
        if relaying.done():
            with contextlib.suppress(BrokenPipeError):
                relaying.result()
        await _flush(client_out, over, tasks)
        return code
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _flush(client_out: LineWriter, over: set[asyncio.Task[Any]], tasks: set[asyncio.Task[Any]]) -> None:
    closing = asyncio.create_task(client_out.aclose())
    tasks.add(closing)
    await asyncio.wait({closing, *over}, return_when=asyncio.FIRST_COMPLETED)
    if not closing.done():
        await asyncio.wait({closing}, timeout=_LAST_WORDS)
