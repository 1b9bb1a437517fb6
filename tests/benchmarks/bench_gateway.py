"""What the gateway adds to a call, and what it takes to be there.

    uv run --no-sync python tests/benchmarks/bench_gateway.py [--stdio] [--http] [--memory] [--sizes 200B] [--quick]

A raw driver calls a tool through every contender in the same run, a few calls each in turn, so that all see the same
machine: directly, through a relay that copies and reads nothing, through midspan, and through FastMCP's proxy. Read the
ratios: machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import sleep
from typing import Final

from contenders import BARE_RELAY, FASTMCP, HERE, MIDSPAN, PEER, Files, fastmcp, serving
from drive import AT_ONCE, NoResultError, Session
from drive_http import HTTPSession
from drive_stdio import StdioSession
from resident import Memory, memory_of

SIZES: Final = {"200B": 200, "20KB": 20_000, "5MB": 5_000_000}
BARE: Final = "bare relay"
DIRECT: Final = "direct"
PROXY: Final = FASTMCP.replace("==", " ") + " create_proxy"

Calling = Callable[[Session, int], list[float]]


def rounds_of(size: int, at_once: bool, quick: bool) -> tuple[int, int]:
    """Return how many rounds there are, and how many calls each contender gets in one."""
    if size > 10**6:
        return (2, AT_ONCE) if at_once else (2 if quick else 6, 3)
    return (3 if quick else 8, 4 * AT_ONCE) if at_once else (4 if quick else 24, 25)


def measure(sessions: Mapping[str, Session], calling: Calling, rounds: int, count: int) -> dict[str, list[float]]:
    """Let the contenders take turns; returns the seconds of each call, none for who hands out no result."""
    taken: dict[str, list[float]] = {name: [] for name in sessions}
    names = list(sessions)
    for number in range(rounds):
        start = number % len(sessions)
        for name in list(sessions)[start:] + list(sessions)[:start]:  # nobody is always behind the same one
            if name not in names:
                continue
            try:
                taken[name] += calling(sessions[name], count)
            except NoResultError:
                names.remove(name)
                taken[name] = []
    return taken


def compare(title: str, sessions: Mapping[str, Session], base: str, options: argparse.Namespace) -> None:
    """Measure all sizes, in turn and at once, and print a table for each."""
    for at_once in (False, True):
        for label in options.sizes:
            size = SIZES[label]

            def calling(session: Session, count: int, size: int = size, at_once: bool = at_once) -> list[float]:
                if at_once:
                    return session.at_once(size, count)
                session.in_turn(size, 1)  # a pause may have cost a connection
                return session.in_turn(size, count)

            rounds, count = rounds_of(size, at_once, options.quick)
            warm = measure(sessions, calling, 1, AT_ONCE if at_once else 2)
            able = {name: session for name, session in sessions.items() if warm[name]}
            taken = warm | measure(able, calling, rounds, count)
            way = f"{AT_ONCE} at a time" if at_once else "in turn"
            report(f"{title}, {label}, {way}, {rounds * count} calls each", taken, base)


def report(title: str, taken: Mapping[str, Sequence[float]], base: str) -> None:
    """Print a table."""
    print(f"\n{title}\n{'':32}{'p50 ms':>10}{'p95 ms':>10}   p50 to {base}")
    reference = statistics.median(taken[base])
    for name, seconds in taken.items():
        if not seconds:
            print(f"{name:32}   hands out no result of this size")
            continue
        p50 = statistics.median(seconds)
        p95 = statistics.quantiles(seconds, n=20)[-1]
        print(f"{name:32}{p50 * 1000:10.3f}{p95 * 1000:10.3f}{p50 / reference:10.2f}", flush=True)


def over_stdio(files: Files, python: str | None, options: argparse.Namespace) -> None:
    """Compare over stdio."""
    server = [*PEER, "stdio"]
    commands = {DIRECT: server, BARE: [*BARE_RELAY, "stdio", *server]}
    for name, extra in files.options().items():
        commands[name] = [*MIDSPAN, "run", *extra, "--", *server]
    if python is not None:
        commands[PROXY] = [python, str(HERE / "fastmcp_proxy.py"), "stdio", *server]
    with contextlib.ExitStack() as stack:
        sessions: dict[str, Session] = {}
        for name, command in commands.items():
            sessions[name] = stack.enter_context(contextlib.closing(StdioSession(command, files.environment)))
        compare("stdio", sessions, BARE, options)


def over_http(files: Files, python: str | None, kind: str, options: argparse.Namespace) -> None:
    """Compare over HTTP, in front of a kind of server."""
    with contextlib.ExitStack() as stack:
        port, _ = stack.enter_context(serving([*PEER, f"http-{kind}"], files.environment))
        url = f"http://127.0.0.1:{port}/mcp"
        commands = {BARE: [*BARE_RELAY, "tcp", str(port)]}
        for name, extra in files.options().items():
            commands[name] = [*MIDSPAN, "serve", "--port", "0", "--url", url, *extra]
        if python is not None:
            commands[PROXY] = [python, str(HERE / "fastmcp_proxy.py"), "http", url]
        ports = {DIRECT: port}
        for name, command in commands.items():
            ports[name], _ = stack.enter_context(serving(command, files.environment))
        runner = stack.enter_context(asyncio.Runner())
        sessions: dict[str, Session] = {}
        for name, port in ports.items():
            sessions[name] = stack.enter_context(contextlib.closing(HTTPSession(port, runner)))
        compare(f"HTTP, {kind} server", sessions, DIRECT, options)


def at_rest(files: Files) -> None:
    """Print the memory of idle gateways."""
    print(f"\nidle, after 20 calls\n{'':32}{'resident MB':>12}{'of it private':>15}")
    with contextlib.ExitStack() as stack:
        port, _ = stack.enter_context(serving([*PEER, "http-raw"], files.environment))
        runner = stack.enter_context(asyncio.Runner())
        server = [*PEER, "stdio"]
        for name, extra in files.options_at_rest().items():
            command = [*MIDSPAN, "run", *extra, "--", *server]
            # The first start compiles.
            memory = [rest_over_stdio(command, files.environment) for _ in range(2)][-1]
            print(f"midspan run, {name:19}{memory.resident:12.1f}{memory.private:15.1f}", flush=True)
        for name, extra in files.options_at_rest().items():
            command = [*MIDSPAN, "serve", "--port", "0", "--url", f"http://127.0.0.1:{port}/mcp", *extra]
            memory = [rest_over_http(command, files.environment, runner) for _ in range(2)][-1]
            print(f"midspan serve, {name:17}{memory.resident:12.1f}{memory.private:15.1f}", flush=True)
        command = [*BARE_RELAY, "stdio", *server]
        memory = rest_over_stdio(command, files.environment)
        print(f"{'bare asyncio relay, stdio':32}{memory.resident:12.1f}{memory.private:15.1f}", flush=True)


def rest_over_stdio(command: Sequence[str], environment: Mapping[str, str]) -> Memory:
    """Start, call, wait, look."""
    with contextlib.closing(StdioSession(command, environment)) as session:
        session.in_turn(SIZES["200B"], 20)
        sleep(1)
        return memory_of(session.pid)


def rest_over_http(command: Sequence[str], environment: Mapping[str, str], runner: asyncio.Runner) -> Memory:
    """Start, call, wait, look."""
    with serving(command, environment) as (port, pid):
        session = HTTPSession(port, runner)
        session.in_turn(SIZES["200B"], 20)
        session.close()
        sleep(1)
        return memory_of(pid)


def main() -> None:
    """Measure what was asked for; all of it by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stdio", action="store_true", help="compare over stdio")
    parser.add_argument("--http", action="store_true", help="compare over HTTP")
    parser.add_argument("--memory", action="store_true", help="measure idle gateways")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES), help="of the results")
    parser.add_argument("--servers", nargs="+", choices=["raw", "sdk"], default=["raw", "sdk"], help="behind HTTP")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--no-fastmcp", action="store_true", help="leave FastMCP's proxy out")
    options = parser.parse_args()
    everything = not (options.stdio or options.http or options.memory)
    python = None
    if not options.no_fastmcp and (everything or options.stdio or options.http):
        python = fastmcp()
        if python is None:
            print(f"{FASTMCP} cannot be installed here: its rows are left out", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        if everything or options.stdio:
            over_stdio(files, python, options)
        if everything or options.http:
            for kind in options.servers:
                over_http(files, python, kind, options)
        if everything or options.memory:
            at_rest(files)


if __name__ == "__main__":
    main()
