"""Real commands as processes: started, listened to, signalled, and never left behind."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.hostapp.cli.processes import midspan


class Running:
    """A running command.

    Attributes:
        process: it.
        said: the lines of stderr that were read.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []

    async def line(self, wanted: Callable[[str], bool]) -> str:
        """Read stderr until a line is one that is wanted, and return that."""
        assert self.process.stderr is not None
        while True:
            line = (await self.process.stderr.readline()).decode()
            assert line, self.said
            self.said.append(line.rstrip("\n"))
            if wanted(self.said[-1]):
                return self.said[-1]

    async def rest(self) -> list[str]:
        """Read the rest of stderr."""
        assert self.process.stderr is not None
        more = (await self.process.stderr.read()).decode().splitlines()
        self.said += more
        return more

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a request over stdio and return the next message."""
        self.send(message)
        return await self.answer()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message over stdio."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def answer(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        return json.loads(await self.process.stdout.readline())

    async def stop(self, number: int) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def started(*arguments: str, **variables: str) -> AsyncGenerator[Running]:
    """Start a command, and leave nothing of it behind."""
    async with midspan(*arguments, **variables) as process:
        yield Running(process)


def call(number: int, name: str = "look") -> dict[str, Any]:
    """Return a tool call."""
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}


ECHO = """
import json, os, signal, sys
{before}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = {{"pid": os.getpid()}} if message["method"] != "initialize" else {{
            "protocolVersion": "2025-11-25", "capabilities": {{}}, "serverInfo": {{"name": "echo", "version": "1"}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
{after}
"""

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}},
}


def echo_server(folder: Path, *, before: str = "", after: str = "") -> list[str]:
    """Write a server that answers everything with its process id, and return its command.

    Args:
        folder: where to write it.
        before: code that it runs at its start.
        after: code that it runs when its input has ended.
    """
    file = folder / "echo.py"
    file.write_text(ECHO.format(before=before, after=after), "utf-8")
    return [sys.executable, str(file)]


def is_running(pid: int) -> bool:
    """Tell whether a process runs, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
