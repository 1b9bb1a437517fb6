"""What the gateway adds to a call over HTTP.

    uv run --no-sync python tests/benchmarks/bench_http.py

A raw driver calls a tool directly, through `midspan serve` without interceptors, and through it with a validator and a
mutator that do nothing, in turn, so that all see the same machine. Read the ratios: machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

HERE: Final = Path(__file__).parent
SIZES: Final = {"200 B": 200, "20 KB": 20_000, "5 MB": 5_000_000}
AT_ONCE: Final = 32
NO_OPS: Final = """
from typing import Any
from midspan_sdk import hookimpl, mutator, validator

@validator(events=["*"], phase="both")
def looks(payload: dict[str, Any]) -> None:
    return None

@mutator(events=["*"], phase="both")
def leaves(payload: dict[str, Any]) -> None:
    return None

@hookimpl
def midspan_interceptors() -> list[Any]:
    return [looks, leaves]
"""


class Driver:
    """One keep-alive connection, with as little work as a client can do."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._extra = ""
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> Driver:
        """Connect and do the handshake."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**23)
        begin = (
            '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
            '"capabilities":{},"clientInfo":{"name":"driver","version":"1"}}}'
        )
        head, _ = await self._post(begin)
        session = re.search(rb"mcp-session-id: *(\S+)", head, re.IGNORECASE)
        assert session is not None, head
        self._extra = f"mcp-session-id: {session[1].decode()}\r\nmcp-protocol-version: 2025-11-25\r\n"
        await self._post('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return self

    async def call(self, number: int, size: int) -> float:
        """Call the tool and return the seconds that it took."""
        arguments = f'{{"name":"blob","arguments":{{"size":{size}}}}}'
        body = f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{arguments}}}'
        started = perf_counter()
        _, length = await self._post(body)
        taken = perf_counter() - started
        assert length > size, length
        return taken

    async def _post(self, body: str) -> tuple[bytes, int]:
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: localhost:{self._port}\r\naccept: application/json, text/event-stream\r\n"
            f"content-type: application/json\r\n{self._extra}content-length: {len(body)}\r\n\r\n"
        )
        self._writer.write((head + body).encode())
        answer = await self._reader.readuntil(b"\r\n\r\n")
        lowered = answer.lower()
        if b"transfer-encoding: chunked" in lowered:
            length = 0
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                await self._reader.readexactly(size + 2)
                length += size
            await self._reader.readexactly(2)
            return answer, length
        found = re.search(rb"content-length: *(\d+)", lowered)
        length = int(found[1]) if found is not None else 0
        await self._reader.readexactly(length)
        return answer, length

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@contextlib.contextmanager
def running(command: Sequence[str | Path], says: str) -> Generator[tuple[int, int]]:
    """Run a server; yields its port and its process id."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = ""
            while not line.startswith(says):
                line = process.stderr.readline()
                assert line, f"{command} ended"
            # A server that cannot write its log stands still.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(re.findall(r"\d+", line)[-1]), process.pid
        finally:
            process.terminate()
            process.wait()


async def in_turn(ports: Sequence[int], size: int, count: int) -> list[float]:
    """Return the median time of a call for each port, calling them in turn."""
    drivers = [await Driver(port).open() for port in ports]
    taken: list[list[float]] = [[] for _ in ports]
    for number in range(1, count + 1):
        for one, driver in zip(taken, drivers, strict=True):
            one.append(await driver.call(number, size))
    for driver in drivers:
        driver.close()
    return [statistics.median(one[len(one) // 10 :]) for one in taken]


async def at_once(ports: Sequence[int], size: int, rounds: int) -> list[float]:
    """Return the median time of a call for each port, with many clients at once."""
    medians: list[float] = []
    for port in ports:
        drivers = [await Driver(port).open() for _ in range(AT_ONCE)]
        taken: list[float] = []

        async def work(driver: Driver, taken: list[float] = taken) -> None:
            taken.extend([await driver.call(number, size) for number in range(1, rounds + 1)])

        await asyncio.gather(*(work(driver) for driver in drivers))
        for driver in drivers:
            driver.close()
        medians.append(statistics.median(taken))
    return medians


def report(title: str, medians: Sequence[float]) -> None:
    """Print one line."""
    direct = medians[0]
    cells = [f"{one * 1000:9.2f} ms ({one / direct:4.2f})" for one in medians]
    print(f"{title:28}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


def resident(pid: int) -> int:
    """Return a process's resident memory in MB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) // 1000 if found is not None else 0


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure what the gateway adds to a call over HTTP.")
    parser.add_argument("--calls", type=int, default=300, help="calls of 200 B in turn; larger ones are fewer")
    parser.add_argument("--peer", action="append", choices=["sdk", "raw"], help="default: both")
    options = parser.parse_args()
    columns = "".join(f"{name:>24}" for name in ("direct", "midspan, relay only", "midspan, 2 no-ops"))
    for kind in options.peer or ["sdk", "raw"]:
        with contextlib.ExitStack() as stack:
            port, _ = stack.enter_context(running([sys.executable, HERE / "http_peer.py", kind], "peer: "))
            plugin = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "no_ops.py"
            plugin.write_text(NO_OPS)
            command = [sys.executable, "-m", "midspan", "serve", "--port", "0", "--url", f"http://127.0.0.1:{port}/mcp"]
            relay, relay_pid = stack.enter_context(running(command, "midspan: serving "))
            judged, judged_pid = stack.enter_context(running([*command, "--plugin-file", plugin], "midspan: serving "))
            ports = [port, relay, judged]
            idle = f"idle: {resident(relay_pid)} MB, {resident(judged_pid)} MB"
            print(f"\nserver: {kind}; {idle}\n{'':28}{columns}")
            for name, size in SIZES.items():
                count = max(10, options.calls * 200 // max(200, size // 50))
                report(f"{name}, in turn, p50", asyncio.run(in_turn(ports, size, count)))
            for name, size in SIZES.items():
                report(f"{name}, {AT_ONCE} at once, p50", asyncio.run(at_once(ports, size, 2 if size > 10**6 else 15)))
            print(f"after: {resident(relay_pid)} MB, {resident(judged_pid)} MB")


if __name__ == "__main__":
    main()
