"""Guard one stdio server for one stdio client, until either ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import Any, Final

from midspan.relay._child import ChildProcess, spawn
from midspan.relay._lines import MAX_LINE, open_reader, open_writer
from midspan.relay._relay import Judge, relay

_DRAIN: Final = 1.0
"""Seconds that a dead server's last output may take; descendants can hold its pipe open for ever."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def run_stdio(
    command: Sequence[str], judge: Judge, *, streams: tuple[int, int], max_message: int = MAX_LINE
) -> int:
    """Start the server, relay, and end with it.

    Args:
        command: the server's command line.
        judge: decides on each message.
        streams: descriptors of the client's input and output, from `claim_standard_streams`.
        max_message: the longest message in bytes.

    Returns:
        The server's exit code; 128 + N when signal N ended it.

    Raises:
        SpawnError: the server cannot be started.
    """
    child = await spawn(command)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _on_signal, child, number, stopping)
    client_in = await open_reader(streams[0], limit=max_message)
    client_out = await open_writer(streams[1])
    relaying = asyncio.create_task(relay(client_in, client_out, child.stdin, child.stdout, judge))
    ends: dict[asyncio.Task[Any], str] = {
        relaying: "server output",
        asyncio.create_task(child.wait()): "server",
        asyncio.create_task(client_out.lost.wait()): "client",
        asyncio.create_task(stopping.wait()): "signal",
    }
    try:
        await _until_over(relaying, ends)
        code = await child.stop()
        error = relaying.exception() if relaying.done() and not relaying.cancelled() else None
        if error is not None and not isinstance(error, BrokenPipeError):
            raise error
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                await client_out.aclose()
        return code
    finally:
        for task in ends:
            task.cancel()
        child.end_group()
        client_in.close()
        child.stdout.close()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _until_over(relaying: asyncio.Task[None], ends: dict[asyncio.Task[Any], str]) -> None:
    """Wait for the first end. The end of the client's input alone is none: the server learns of it and may finish."""
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if any(ends[task] == "server" for task in done):
        # Descendants that outlive the server would keep its output open.
        await _settle(relaying, _DRAIN)


async def _settle(relaying: asyncio.Task[None], seconds: float) -> None:
    with contextlib.suppress(TimeoutError, BrokenPipeError):
        async with asyncio.timeout(seconds):
            await asyncio.shield(relaying)


def _on_signal(child: ChildProcess, number: int, stopping: asyncio.Event) -> None:
    child.signal_group(number)
    stopping.set()
