"""A config that changes again and again while 32 clients call: `midspan serve` as a process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.hostapp.cli.processes import INITIALIZE, Served, serving, table
from tests.hostapp.http.wire import Connection
from tests.hostapp.relay.harness import request, server_command
from tests.hostapp.reloading.logs import log_line

pytestmark = pytest.mark.anyio

CLIENTS = 32
CALLS = 5_000
SWAPS = 20
BAD = frozenset({3, 7, 11, 12, 18})
MARKING = """
from pydantic import BaseModel
from midspan_sdk import hookimpl, mutator


class Config(BaseModel):
    number: int = 0


@mutator(events=["tools/call"], phase="request", timeout=60)
def mark(payload, config, state):
    state["number"] = config.number
    return {**payload, "arguments": {"number": config.number}}


@mutator(events=["tools/call"], phase="response", timeout=60)
def tell(payload, config, state, request):
    numbers = [state.get("number"), request["arguments"]["number"], config.number]
    return {**payload, "_meta": {**payload.get("_meta", {}), "numbers": numbers}}


@hookimpl
def midspan_config():
    return Config


@hookimpl
def midspan_interceptors():
    return [mark, tell]
"""

COUNTING = """
from midspan_sdk import hookimpl, mutator, validator


@validator(events=["tools/call"], phase="request", timeout=60)
async def count(payload, session_state):
    session_state["calls"] = session_state.get("calls", 0) + 1


@mutator(events=["tools/call"], phase="response", timeout=60)
async def total(payload, session_state):
    return {**payload, "_meta": {**payload.get("_meta", {}), "calls": session_state["calls"]}}


@hookimpl
def midspan_interceptors():
    return [count, total]
"""


class Progress:
    """How many calls were answered; others wait for it to get somewhere."""

    def __init__(self) -> None:
        self.calls = 0
        self._moved = asyncio.Condition()

    async def move(self) -> None:
        async with self._moved:
            self.calls += 1
            self._moved.notify_all()

    async def reached(self, calls: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self.calls >= calls)


@asynccontextmanager
async def session(served: Served) -> AsyncGenerator[tuple[Connection, list[tuple[str, str]]]]:
    authority = served.urls[0].split("/")[2]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(":")[2]))
    connection = Connection(reader, writer, authority)
    fields = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
    try:
        begun = await connection.send("POST", request(0, "initialize", INITIALIZE), path="/mcp")
        name = begun.header("mcp-session-id")
        assert name is not None
        yield connection, [*fields, ("mcp-session-id", name)]
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def config(number: int, server: str, *, bad: bool) -> str:
    number_line = f'number = "many {number}"' if bad else f"number = {number}"
    plugins = f"[plugins.marking]\nenabled = true\n[plugins.marking.config]\n{number_line}\n"
    return f"{server}\n{plugins}\n[plugins.counting]\nenabled = true\n"


async def test_no_call_is_lost_none_is_judged_by_two_chains_and_sessions_go_on(tmp_path: Path) -> None:
    for name, source in (("marking", MARKING), ("counting", COUNTING)):
        await anyio.Path(tmp_path / f"{name}.py").write_text(source)
    server = table("files", server_command(tmp_path / "log"))
    file = anyio.Path(tmp_path / "midspan.toml")
    await file.write_text(config(0, server, bad=False))
    progress = Progress()
    seen: list[list[int]] = []
    applied = {0}
    swapped = asyncio.Event()

    async def client(served: Served) -> None:
        async with session(served) as (connection, fields):
            numbers: list[int] = []
            for number in count(1):
                if swapped.is_set() and progress.calls >= CALLS:
                    break
                line = request(number, "tools/call", {"name": "echo", "arguments": {}})
                answer = await connection.send("POST", line, fields, path="/mcp")
                result: Any = answer.json()
                meta = result["result"]["_meta"]
                asked, sent, answered = meta["numbers"]
                assert asked == sent == answered, meta
                assert meta["calls"] == number, meta
                numbers.append(answered)
                await progress.move()
            seen.append(numbers)

    async def swapper(served: Served) -> None:
        for number in range(1, SWAPS + 1):
            await progress.reached(progress.calls + CALLS // (SWAPS + 1) // 2)
            await file.write_text(config(number, server, bad=number in BAD))
            line = await log_line(served.process, "was read again", "is not applied")
            assert ("is not applied" in line) == (number in BAD), line
            if number not in BAD:
                assert "files: ~" not in line
                assert "config of marking" in line
                applied.add(number)
        await progress.reached(progress.calls + CLIENTS)  # the last one decides on something too
        swapped.set()

    plugins = [part for name in ("marking", "counting") for part in ("--plugin-file", str(tmp_path / f"{name}.py"))]
    async with (
        serving("--config", str(file), *plugins, endpoints=2) as served,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(swapper(served))
        for _ in range(CLIENTS):
            group.create_task(client(served))
    assert progress.calls >= CALLS
    assert len(applied) == 1 + SWAPS - len(BAD)
    assert {number for numbers in seen for number in numbers} == applied
    assert all(numbers == sorted(numbers) for numbers in seen)
