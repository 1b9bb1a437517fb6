"""Ways to put the matrix's guards into a chain."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.server import Server
from remote_guards import all_guards

from midspan_sdk import Chain, ChainExecutionResult, FailedResult
from midspan_sdk.mcp import InterceptorsExtension

HERE = Path(__file__).parent
Fill = Callable[..., Awaitable[None]]
"""Puts all guards of the matrix into a chain: `await fill(chain, overrides=...)`."""


@asynccontextmanager
async def hosted(client: AbstractAsyncContextManager[Client]) -> AsyncGenerator[Client]:
    """Hold a client open in a task of its own, so that it shares no cancel scope with whoever uses it."""
    opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    done = anyio.Event()

    async def hold() -> None:
        try:
            async with client as entered:
                opened.set_result(entered)
                await done.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    task = asyncio.create_task(hold())
    try:
        yield await opened
    finally:
        done.set()
        await task


def server_of(*contributions: object, name: str = "guards") -> Server[Any]:
    """Return a server of interceptors."""
    server = Server(name)
    InterceptorsExtension(*contributions).install(server)
    return server


def guards_child() -> Client:
    """Return a client, not open yet, that starts a child process with the matrix's guards."""
    return Client(StdioServerParameters(command=sys.executable, args=[str(HERE / "guards_server.py")]))


async def fill_locally(chain: Chain, **options: Any) -> None:
    """Put the guards into a chain without any server."""
    chain.add(*all_guards(), **options)


def filling_from(source: Any) -> Fill:
    """Return what puts the guards of a server into a chain."""

    async def fill(chain: Chain, **options: Any) -> None:
        await chain.add_server(source, **options)

    return fill


class Scripted:
    """A child process of `scripted_server.py`, and its plan and log.

    Attributes:
        plan: what it does; written by `write`.
    """

    def __init__(self, folder: Path, name: str, *descriptors: dict[str, Any], **plan: Any) -> None:
        self.plan: dict[str, Any] = {"name": name, "descriptors": list(descriptors), **plan}
        self._plan = folder / f"{name}.plan.json"
        self._log = folder / f"{name}.log"
        self.write()

    def write(self, **changes: Any) -> None:
        """Change the plan; it counts from the next message on."""
        self.plan.update(changes)
        new = self._plan.with_suffix(".new")
        new.write_text(json.dumps(self.plan), encoding="utf-8")
        new.replace(self._plan)

    def client(self) -> Client:
        """Return a client, not open yet, that starts a child."""
        script = str(HERE / "scripted_server.py")
        command = [script, str(self._plan), str(self._log)]
        return Client(StdioServerParameters(command=sys.executable, args=command), mode="legacy")

    def log(self) -> list[dict[str, Any]]:
        """Return what the children noted."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text(encoding="utf-8").splitlines()]

    @property
    def starts(self) -> int:
        """How many children were started."""
        return sum("started" in line for line in self.log())

    def invocations(self, name: str | None = None) -> int:
        """How many invocations arrived, of one interceptor or of all."""
        return sum(line.get("method") == "interceptor/invoke" and name in (None, line["name"]) for line in self.log())

    def running(self) -> list[int]:
        """Return the ids of the children that are still there."""
        return [pid for pid in {line["pid"] for line in self.log()} if _is_there(pid)]


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(seen: Callable[[], bool]) -> None:
    """Wait until something can be seen that nothing tells of, such as a line of another process."""
    with anyio.fail_after(10):
        while not seen():  # noqa: ASYNC110 - nobody sets an event
            await anyio.sleep(0.01)


async def call(chain: Chain, **options: Any) -> ChainExecutionResult:
    """Execute a chain, on a request for a tool unless the options say otherwise."""
    defaults: dict[str, Any] = {"event": "tools/call", "phase": "request", "payload": {"name": "x", "nothing": None}}
    with anyio.fail_after(15):
        return await chain.execute(**{**defaults, **options})


async def until_passed(chain: Chain) -> None:
    """Execute a chain until it lets a message pass."""
    with anyio.fail_after(10):
        while (await call(chain)).status != "success":  # noqa: ASYNC110 - nobody sets an event
            await anyio.sleep(0.02)


def text_of(value: Any) -> str:
    """Return the JSON without durations: tells 1 from 1.0 and true, and one order of keys from another."""

    def kept(fields: dict[str, Any]) -> dict[str, Any]:
        return {key: one for key, one in fields.items() if key not in ("durationMs", "totalDurationMs")}

    return json.dumps(json.loads(json.dumps(value), object_hook=kept))


def reasons(result: ChainExecutionResult) -> dict[str, str | None]:
    """Return, by interceptor, why it failed, or None."""
    return {
        one.interceptor: one.error["data"]["reason"] if isinstance(one, FailedResult) else None
        for one in result.results
    }


def described(name: str, kind: str = "validation", **fields: Any) -> dict[str, Any]:
    """Return a descriptor."""
    hooks = [{"events": ["tools/call"], "phase": phase} for phase in ("request", "response")]
    return {"name": name, "type": kind, "hooks": hooks, **fields}
