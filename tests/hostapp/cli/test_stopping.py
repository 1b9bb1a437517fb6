"""How `run`, `serve` and `interceptors serve` end: in order, in bounded time, with nothing left behind.

Real processes and signals. What hangs here hangs for ever; the times are the documented bounds.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.hostapp.cli.commands import INITIALIZE, Running, call, echo_server, is_running, started
from tests.hostapp.http.wire import HANDSHAKE, Connection, read_head

pytestmark = pytest.mark.anyio

PLUGIN = """
import asyncio, logging, os, signal, time
from contextlib import asynccontextmanager
from midspan_sdk import hookimpl, sink, validator

log = logging.getLogger(__name__)

@asynccontextmanager
async def life():
    log.info("entered")
    {entering}
    yield None
    {leaving}
    log.info("left")

@sink(events=["tools/call"], phase="request")
async def tap(payload):
    {tapping}

@validator(events=["tools/call"], phase="request", timeout=1000.0)
async def judge(payload):
    if payload["name"] == "slow":
        log.info("judging")
        {judging}

@validator(events=["tools/call"], phase="request", timeout=0.3, blocking=True, fail_open=True)
def thread(payload):
    {working}

@hookimpl
def midspan_lifespan(): return life()

@hookimpl
def midspan_interceptors(): return [tap, judge, thread]
"""

FOR_EVER = "await asyncio.Event().wait()"
DEAF = """
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.info("swallowed")
"""
HOLDS = "time.sleep(1000)"
MASKED = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT]); log.info('masked')"
"""From now on the system gives these signals to other threads than the main one."""
STUBBORN = "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)"
STAYS = "signal.pause()"

Ways = Callable[..., list[str]]


@pytest.fixture
def options(tmp_path: Path) -> Ways:
    """Write a plugin file and a config with the audit plugin, and return the options that name them."""

    def write(**parts: str) -> list[str]:
        parts = {
            "entering": "pass",
            "leaving": "pass",
            "tapping": "pass",
            "judging": "pass",
            "working": "pass",
            **parts,
        }
        (tmp_path / "slow.py").write_text(PLUGIN.format(**parts), "utf-8")
        config = tmp_path / "midspan.toml"
        config.write_text(f"[plugins.audit]\nenabled = true\nconfig = {{ path = '{tmp_path}/audit.jsonl' }}\n", "utf-8")
        return ["--config", str(config), "--plugin-file", str(tmp_path / "slow.py")]

    return write


def audited(folder: Path) -> list[tuple[str, str]]:
    """Return event and phase of each record."""
    lines = (folder / "audit.jsonl").read_text("utf-8").splitlines()
    return [(one["event"], one["phase"]) for one in map(json.loads, lines)]


async def ended(running: Running, number: int, *, within: float) -> int:
    """Send a signal, and see that the process ends in time."""
    before = time.monotonic()
    code = await running.stop(number)
    assert time.monotonic() - before < within
    await running.rest()
    return code


class Session:
    """A session with `midspan serve`."""

    def __init__(self, port: int, session: str) -> None:
        self._port = port
        self._session = session
        self._open: list[Connection] = []

    async def connect(self) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._open.append(Connection(reader, writer, f"localhost:{self._port}"))
        return self._open[-1]

    @property
    def fields(self) -> list[tuple[str, str]]:
        return [*HANDSHAKE, ("mcp-session-id", self._session)]

    async def ask(self, message: dict[str, Any]) -> Any:
        connection = await self.connect()
        return (await connection.post(json.dumps(message).encode(), self.fields)).json()

    def close(self) -> None:
        for connection in self._open:
            connection.writer.close()


@asynccontextmanager
async def serving(*arguments: str) -> AsyncGenerator[tuple[Running, Session]]:
    """Run `midspan serve` with a session."""
    async with started("serve", "--port", "0", *arguments) as running:
        line = await running.line(lambda line: line.startswith("midspan: serving "))
        port = int(line.rpartition(":")[2].partition("/")[0])
        first = Session(port, "")
        connection = await first.connect()
        begun = await connection.post(json.dumps(INITIALIZE).encode())
        session = Session(port, begun.header("mcp-session-id") or "")
        try:
            yield running, session
        finally:
            first.close()
            session.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("way", ["run", "serve"])
async def test_a_signal_ends_it_in_order_and_every_answered_call_is_in_the_audit(
    way: str, number: int, options: Ways, tmp_path: Path
) -> None:
    server = echo_server(tmp_path)
    if way == "run":
        async with started("run", *options(), "--", *server) as running:
            pid = (await running.ask(call(1)))["result"]["pid"]
            for count in range(2, 20):
                await running.ask(call(count))
            assert await ended(running, number, within=5) in (128 + number, 1)  # Python's own code after SIGINT
    else:
        async with serving(*options(), "--", *server) as (running, session):
            pid = (await session.ask(call(1)))["result"]["pid"]
            for count in range(2, 20):
                await session.ask(call(count))
            assert await ended(running, number, within=5) == 0
    calls = [one for one in audited(tmp_path) if one[0] == "tools/call"]
    assert calls.count(("tools/call", "request")) == calls.count(("tools/call", "response")) == 19
    assert running.said[-1] == "midspan: midspan_plugin_file_slow: left"
    assert not is_running(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_server_of_interceptors_in_order(number: int, options: Ways) -> None:
    async with started("interceptors", "serve", *options(judging=FOR_EVER)) as running:
        await running.ask(INITIALIZE)
        running.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        hook = {"event": "tools/call", "phase": "request"}
        params: dict[str, Any] = {"name": "slow.judge", **hook, "payload": {"name": "slow", "arguments": {}}}
        running.send({"jsonrpc": "2.0", "id": 1, "method": "interceptor/invoke", "params": params})
        await running.line(lambda line: line.endswith("judging"))
        assert await ended(running, number, within=5) == 0
        assert running.said[-1].endswith(": left")


async def test_a_lifespan_that_cannot_be_left_is_given_up(options: Ways, tmp_path: Path) -> None:
    async with started("run", *options(leaving=FOR_EVER), "--", *echo_server(tmp_path)) as running:
        pid = (await running.ask(call(1)))["result"]["pid"]
        assert await ended(running, signal.SIGTERM, within=10) == 128 + signal.SIGTERM
        assert running.said[-1] == ("midspan: error: the lifespan of plugin 'slow' was not left within 6 s; gave it up")
    assert len(audited(tmp_path)) == 2
    assert not is_running(pid)


async def test_what_swallows_its_cancellation_is_given_up_after_15_seconds(options: Ways, tmp_path: Path) -> None:
    async with serving(*options(leaving=DEAF), "--", *echo_server(tmp_path)) as (running, session):
        pid = (await session.ask(call(1)))["result"]["pid"]
        before = time.monotonic()
        assert await ended(running, signal.SIGTERM, within=20) == 1
        assert time.monotonic() - before > 14
        assert any(line.endswith("swallowed") for line in running.said)
        assert running.said[-1] == "midspan: error: did not stop within 15 s; gave up what was still under way"
    assert not is_running(pid)


async def test_a_second_signal_hurries_it(options: Ways, tmp_path: Path) -> None:
    async with started("run", *options(leaving=DEAF), "--", *echo_server(tmp_path)) as running:
        await running.ask(call(1))
        running.process.send_signal(signal.SIGTERM)
        # The server is gone, and the lifespan is being left.
        assert running.process.stdout is not None
        assert await running.process.stdout.read() == b""
        assert await ended(running, signal.SIGINT, within=5) == 1
        assert "gave up what was still under way" in running.said[-1]


async def test_a_signal_that_does_not_wake_the_main_thread_counts_too(options: Ways, tmp_path: Path) -> None:
    # Which thread gets a signal is for the system to choose, and the one it wakes need not be the one that handles it.
    async with started("run", *options(leaving=f"{MASKED}\n{DEAF}"), "--", *echo_server(tmp_path)) as running:
        await running.ask(call(1))
        running.process.send_signal(signal.SIGTERM)
        await running.line(lambda line: line.endswith("masked"))
        assert running.process.stdout is not None
        assert await running.process.stdout.read() == b""
        assert await ended(running, signal.SIGINT, within=5) == 1


async def test_signals_that_do_not_reach_a_main_thread_that_is_held_count_too(options: Ways, tmp_path: Path) -> None:
    async with started("run", *options(judging=f"{MASKED}; {HOLDS}"), "--", *echo_server(tmp_path)) as running:
        await running.ask(call(1))
        running.send(call(2, "slow"))
        await running.line(lambda line: line.endswith("masked"))
        running.process.send_signal(signal.SIGTERM)
        assert await ended(running, signal.SIGINT, within=5) == 1


async def test_a_handler_that_holds_the_event_loop_does_not_keep_it(options: Ways, tmp_path: Path) -> None:
    async with started("run", *options(judging=HOLDS), "--", *echo_server(tmp_path)) as running:
        pid = (await running.ask(call(1)))["result"]["pid"]
        running.send(call(2, "slow"))
        await running.line(lambda line: line.endswith("judging"))
        running.process.send_signal(signal.SIGTERM)
        # Another one: two of the same number may come as one.
        assert await ended(running, signal.SIGINT, within=5) == 1
        assert f"the event loop is held at {tmp_path}/slow.py, line " in running.said[-1]
    assert len(audited(tmp_path)) == 2
    assert not is_running(pid)


def test_a_stderr_that_nobody_reads_does_not_keep_it(options: Ways, tmp_path: Path) -> None:
    given = options(leaving="os.write(2, bytes(10_000_000))")
    command = [sys.executable, "-m", "midspan", "run", *given, "--", *echo_server(tmp_path)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(call(1)).encode() + b"\n")
            process.stdin.flush()
            pid = json.loads(process.stdout.readline())["result"]["pid"]
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read() == b""
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 1
        finally:
            process.kill()
    assert not is_running(pid)


@pytest.mark.parametrize("command", ["run", "interceptors serve"])
async def test_a_signal_while_it_starts_ends_it_at_once(command: str, options: Ways, tmp_path: Path) -> None:
    server = ("--", *echo_server(tmp_path)) if command == "run" else ()
    async with started(*command.split(), *options(entering=FOR_EVER), *server) as running:
        await running.line(lambda line: line.endswith("entered"))
        assert await ended(running, signal.SIGTERM, within=5) == 128 + signal.SIGTERM
        assert not [line for line in running.said if "error" in line]


@pytest.mark.parametrize("way", ["run", "serve"])
async def test_a_handler_that_hangs_in_a_thread_does_not_hold_it_up(way: str, options: Ways, tmp_path: Path) -> None:
    given, server = options(working=HOLDS), echo_server(tmp_path)
    if way == "run":
        async with started("run", *given, "--", *server) as running:
            assert "result" in await running.ask(call(1))
            assert await ended(running, signal.SIGTERM, within=5) == 128 + signal.SIGTERM
    else:
        async with serving(*given, "--", *server) as (running, session):
            assert "result" in await session.ask(call(1))
            assert await ended(running, signal.SIGTERM, within=5) == 0
    assert running.said[-1].endswith(": left")


async def test_a_sink_that_hangs_is_given_up(options: Ways, tmp_path: Path) -> None:
    async with started("run", *options(tapping=FOR_EVER), "--", *echo_server(tmp_path)) as running:
        for count in range(20):
            await running.ask(call(count))
        # Each has a second of its own; all have five.
        assert await ended(running, signal.SIGTERM, within=9) == 128 + signal.SIGTERM
        (summary,) = [line for line in running.said if " dropped, " in line and "slow.tap" in line]
        dropped, failed = (int(word) for word in summary.replace(",", "").split() if word.isdigit())
        assert dropped + failed == 20
        assert dropped > 10
        assert running.said[-1].endswith(": left")
    assert len(audited(tmp_path)) == 40


@pytest.mark.parametrize("way", ["run", "serve"])
async def test_a_server_that_ignores_signals_is_killed(way: str, options: Ways, tmp_path: Path) -> None:
    server = echo_server(tmp_path, before=STUBBORN, after=STAYS)
    if way == "run":
        async with started("run", *options(), "--", *server) as running:
            pid = (await running.ask(call(1)))["result"]["pid"]
            assert await ended(running, signal.SIGTERM, within=6) == 128 + signal.SIGKILL
    else:
        async with serving(*options(), "--", *server) as (running, session):
            pid = (await session.ask(call(1)))["result"]["pid"]
            assert await ended(running, signal.SIGTERM, within=8) == 0
    assert "midspan: warning: the server did not end; killed it" in running.said
    assert running.said[-1].endswith(": left")
    assert not is_running(pid)


async def test_several_servers_that_ignore_signals_are_killed_at_the_same_time(tmp_path: Path) -> None:
    command, *arguments = echo_server(tmp_path, before=STUBBORN, after=STAYS)
    names = ("one", "two", "three")
    config = tmp_path / "midspan.toml"
    tables = [f"[servers.{name}]\ncommand = '{command}'\nargs = {json.dumps(arguments)}\n" for name in names]
    config.write_text("".join(tables), "utf-8")
    async with started("serve", "--port", "0", "--config", str(config)) as running:
        line = ""
        for _ in names:
            line = await running.line(lambda line: line.startswith("midspan: serving "))
        port = int(line.rpartition(":")[2].partition("/")[0])
        for name in names:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            connection = Connection(reader, writer, f"localhost:{port}")
            begun = await connection.send(
                "POST", json.dumps(INITIALIZE).encode(), HANDSHAKE, path=f"/servers/{name}/mcp"
            )
            assert begun.status == 200
            await connection.close()
        assert await ended(running, signal.SIGTERM, within=7) == 0
        assert running.said.count("midspan: warning: the server did not end; killed it") == 3


async def test_a_request_that_does_not_end_and_a_stream_do_not_keep_serve(options: Ways, tmp_path: Path) -> None:
    async with serving(*options(judging=FOR_EVER), "--", *echo_server(tmp_path)) as (running, session):
        stream, slow = await session.connect(), await session.connect()
        await stream.start("GET", fields=[("accept", "text/event-stream"), *session.fields[-1:]])
        assert (await read_head(stream.reader)).status == 200
        await slow.start("POST", json.dumps(call(1, "slow")).encode(), session.fields)
        await running.line(lambda line: line.endswith("judging"))
        assert await ended(running, signal.SIGTERM, within=8) == 0
        assert "midspan: warning: stopping: gave up requests under way: 1" in running.said
        assert running.said[-1].endswith(": left")


async def test_a_second_signal_does_not_wait_for_requests(options: Ways, tmp_path: Path) -> None:
    async with serving(*options(judging=FOR_EVER), "--", *echo_server(tmp_path)) as (running, session):
        slow, probe = await session.connect(), await session.connect()
        await slow.start("POST", json.dumps(call(1, "slow")).encode(), session.fields)
        await running.line(lambda line: line.endswith("judging"))
        running.process.send_signal(signal.SIGTERM)
        while (await probe.send("GET", fields=[], path="/readyz")).status == 200:
            pass
        assert await ended(running, signal.SIGTERM, within=2.5) == 0
        assert running.said[-1].endswith(": left")


async def test_the_client_s_end_is_bounded_too(options: Ways, tmp_path: Path) -> None:
    async with started("run", *options(leaving=FOR_EVER), "--", *echo_server(tmp_path)) as running:
        await running.ask(call(1))
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert await running.process.wait() == 0
        assert "was not left within 6 s" in (await running.rest())[-1]


def test_the_event_loop_of_a_command_can_be_closed() -> None:
    # Whoever calls a command as a function goes on, and Python closes the loop when it collects it.
    script = """
import asyncio
from midspan.cli._ending import run_to_end

async def work(ending):
    return 0

assert run_to_end(work) == 0
asyncio.get_event_loop_policy().get_event_loop().close()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
