"""Guard one stdio server for one stdio client, until either ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Generator, Sequence
from typing import Any, Final

from midspan.relay._child import ChildProcess, spawn
from midspan.relay._lines import MAX_LINE, FileWriter, LineReader, PipeWriter, open_reader, open_writer
from midspan.relay._relay import Judge, relay

_DRAIN: Final = 1.0
"""Seconds without output after which a dead server has said all; descendants can hold its pipe open for ever."""

_LAST_WORDS: Final = 0.3
"""Seconds for what is still on its way when a signal, or the client's end, stops the gateway."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _Signals:
    """Passes signals on to the server's group, and notes that one came."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self._early: list[int] = []
        self._child: ChildProcess | None = None

    @contextlib.contextmanager
    def caught(self) -> Generator[None]:
        """Catch them. One that was ignored when this process started (`nohup`) stays ignored."""
        loop = asyncio.get_running_loop()
        numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def pass_on_to(self, child: ChildProcess) -> None:
        """Name the server; it gets what came before too."""
        self._child = child
        for number in self._early:
            child.signal_group(number)

    def _on_signal(self, number: int) -> None:
        self.came.set()
        if self._child is None:
            self._early.append(number)
        else:
            self._child.signal_group(number)


async def run_stdio(
    command: Sequence[str], judge: Judge, *, streams: tuple[int, int], max_message: int = MAX_LINE
) -> int:
    """Start the server, relay, and end with it.

    The end of the client's input alone ends nothing: the server learns of it and may finish, and what it says until
    then still reaches the client.

    Args:
        command: the server's command line.
        judge: decides on each message.
        streams: descriptors of the client's input and output, from `claim_standard_streams`.
        max_message: the longest message in bytes.

    Returns:
        The server's exit code; 128 + N when signal N ended it.

    Raises:
        SpawnError: the server cannot be started; the streams are as they were.
    """
    signals = _Signals()
    with signals.caught():
        child = await spawn(command)
        signals.pass_on_to(child)
        try:
            client_in = await open_reader(streams[0], limit=max_message)
            client_out = await open_writer(streams[1])
            child.stdout.limit = max_message
            try:
                return await _relay_for(child, judge, client_in, client_out, signals.came)
            finally:
                client_in.close()
                client_out.abort()
        finally:
            child.kill()


async def _relay_for(
    child: ChildProcess,
    judge: Judge,
    client_in: LineReader,
    client_out: PipeWriter | FileWriter,
    signalled: asyncio.Event,
) -> int:
    relaying = asyncio.create_task(relay(client_in, client_out, child.stdin, child.stdout, judge))
    exited = asyncio.create_task(child.exited.wait())
    # These two end the gateway, whatever else is under way.
    over = {asyncio.create_task(client_out.lost.wait()), asyncio.create_task(signalled.wait())}
    tasks: set[asyncio.Task[Any]] = {relaying, exited, *over}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if exited.done() and not relaying.done() and not _any_done(over):
            # However slow the judge or the client: what the server said before its end is delivered.
            tasks.add(asyncio.create_task(_let_output_end(child)))
            await asyncio.wait({relaying, *over}, return_when=asyncio.FIRST_COMPLETED)
        code = await child.stop(signalled=signalled.is_set())
        if not relaying.done():
            await asyncio.wait({relaying}, timeout=_LAST_WORDS)
        if relaying.done():
            with contextlib.suppress(BrokenPipeError):
                relaying.result()
        closing = asyncio.create_task(client_out.aclose())
        tasks.add(closing)
        await asyncio.wait({closing, *over}, return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            await asyncio.wait({closing}, timeout=_LAST_WORDS)
        return code
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _let_output_end(child: ChildProcess) -> None:
    await child.stdout.quiet(_DRAIN)
    child.end_group()
    child.stdout.close()


def _any_done(tasks: set[asyncio.Task[Any]]) -> bool:
    return any(task.done() for task in tasks)
