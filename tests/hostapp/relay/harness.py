"""A raw client, the gateway and a raw server, with the client's bytes in the test's hands."""

from __future__ import annotations

import asyncio
import base64
import json
import marshal
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio

from midspan.interception import ChainJudge, ConnectionContext, Denials, Regime, Regimes
from midspan.relay import MAX_LINE, NEVER, CommandBackend, Judge, PassAll, RestartPolicy, run_stdio
from midspan_sdk import Chain, Interceptor, Observer, Principal
from tests.patience import PATIENCE

RAW_SERVER = Path(__file__).with_name("raw_server.py")
GIVES = ("session", "store", "tools", "ask")
"""What the gateway gives to handlers."""
Step = tuple[Any, ...]


def b64(data: bytes | str) -> str:
    """Return bytes as they stand in a step."""
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def send(*lines: bytes | str) -> Step:
    """Build the step that writes whole lines to the client."""
    return ("send", b64(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)))


def program(*steps: Step) -> str:
    """Return steps as the value of a message's `do`."""
    return b64(marshal.dumps(_plain(steps)))


def _plain(steps: Sequence[Step]) -> list[Step]:
    """Return steps with signals as numbers, which can be marshalled."""
    return [tuple(int(part) if isinstance(part, int) else part for part in step) for step in steps]


def server_command(
    log: Path,
    *,
    at_start: Sequence[Step] = (),
    at_end: Sequence[Step] = (),
    deaf: Sequence[int] = (),
    stay: bool = False,
) -> list[str]:
    """Return the command line of a raw server."""
    options = {
        "log": str(log),
        "at_start": _plain(at_start),
        "at_end": _plain(at_end),
        "deaf": [int(number) for number in deaf],
        "stay": stay,
    }
    return [sys.executable, "-I", "-S", str(RAW_SERVER), b64(marshal.dumps(options))]


def request(message_id: object, method: str, params: Mapping[str, Any] | None = None, *steps: Step) -> bytes:
    """Return a request; with steps, the server does them instead of answering."""
    body = dict(params or {})
    if steps:
        body["do"] = program(*steps)
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": message_id, "method": method}
    if body:
        message["params"] = body
    return json.dumps(message).encode()


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return a notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = dict(params)
    return json.dumps(message).encode()


def result(message_id: object, value: Any) -> bytes:
    """Return a successful answer."""
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "result": value}).encode()


def unanswered(message_id: object) -> bytes:
    """Return what the gateway answers in the place of a server that ended."""
    error = {"code": -32000, "message": "midspan: the server ended before it answered"}
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "error": error}, separators=(",", ":")).encode()


def alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def poll(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what another process does.

    Raises:
        TimeoutError: it did not.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.003)


async def gone(*pids: int) -> None:
    """Wait until none of the processes runs."""
    await anyio.to_thread.run_sync(poll, lambda: not any(alive(pid) for pid in pids))


async def written(file: Path) -> dict[str, Any]:
    """Wait for a file that a raw server writes, and return what is in it."""
    await anyio.to_thread.run_sync(poll, file.exists)
    return json.loads(await anyio.Path(file).read_text())


@dataclass(kw_only=True)
class Link:
    """The client's side of a running gateway, and the server's view.

    Attributes:
        log: file in which the server notes every line it gets.
        judge: who decides in the gateway.
        running: comes to the gateway's exit code.
    """

    log: Path
    judge: Judge
    running: asyncio.Task[int]
    _to: int
    _from: int
    _received: asyncio.StreamReader = field(repr=False)
    _transport: asyncio.ReadTransport | None
    _open: set[int] = field(default_factory=set[int])

    @property
    def descriptor(self) -> int:
        """The client's input, for a client that takes it by itself (`reading=False`)."""
        return self._from

    async def write(self, data: bytes) -> None:
        """Write bytes to the gateway, without anything added."""
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._to, view)
            except BlockingIOError:
                await anyio.wait_writable(self._to)
            else:
                view = view[written:]

    async def send(self, *lines: bytes | str) -> None:
        """Write whole lines, in one piece."""
        await self.write(b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines))

    async def receive(self) -> bytes:
        """Return the next line, without its newline; empty at the end."""
        return (await self._received.readline()).removesuffix(b"\n")

    async def read(self) -> dict[str, Any]:
        """Return the next message."""
        return json.loads(await self.receive())

    async def rest(self) -> list[bytes]:
        """Return all further lines up to the end."""
        return (await self._received.read()).split(b"\n")[:-1]

    async def call(self, message_id: object, method: str, params: Mapping[str, Any] | None = None, *steps: Step) -> Any:
        """Send a request and return the next message."""
        await self.send(request(message_id, method, params, *steps))
        return await self.read()

    async def works(self, message_id: object = "still works") -> None:
        """Assert that the next thing to arrive is the answer to a good call."""
        answer = await self.call(message_id, "ping")
        assert answer == {"jsonrpc": "2.0", "id": message_id, "result": {}}

    def seen(self) -> list[bytes]:
        """Return what the server got, line by line. Exact once an answer to a later request is here."""
        return self.log.read_bytes().split(b"\n")[:-1] if self.log.exists() else []

    def seen_messages(self) -> list[dict[str, Any]]:
        """Return what the server got, as JSON."""
        return [cast("dict[str, Any]", json.loads(line)) for line in self.seen()]

    def hang_up(self, *, both: bool = True) -> None:
        """Close the client's output, and with `both` its input."""
        self._close(self._to)
        if both:
            self._close(self._from)
            if self._transport is not None:
                self._transport.close()

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

    async def finish(self) -> int:
        """Close the client's output and return the gateway's exit code."""
        self._close(self._to)
        return await self.running


@asynccontextmanager
async def open_link(
    log: Path,
    *,
    judge: Judge | None = None,
    max_message: int = MAX_LINE,
    command: Sequence[str] | None = None,
    reading: bool = True,
    restart: RestartPolicy = NEVER,
    **server: Any,
) -> AsyncGenerator[Link]:
    """Start the gateway in this process, between the test and a raw server.

    Args:
        log: where the server notes what it gets.
        judge: decides; `PassAll` by default.
        max_message: the gateway's limit in bytes.
        command: another server than the raw one.
        reading: whether the client takes what comes; without, `receive` waits for ever.
        restart: whether the gateway goes on with a new server.
        server: options of the raw server.
    """
    judge = judge or PassAll()
    gateway_in, to = os.pipe()
    from_, gateway_out = os.pipe()
    os.set_blocking(to, False)
    received = asyncio.StreamReader(limit=MAX_LINE)
    loop = asyncio.get_running_loop()
    transport = None
    if reading:
        pipe = os.fdopen(os.dup(from_), "rb", buffering=0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(received), pipe)
        os.close(from_)
        from_ = -1
    running = asyncio.create_task(
        run_stdio(
            CommandBackend(command or server_command(log, **server)),
            judge,
            streams=(gateway_in, gateway_out),
            max_message=max_message,
            restart=restart,
        )
    )
    link = Link(
        log=log,
        judge=judge,
        running=running,
        _to=to,
        _from=from_,
        _received=received,
        _transport=transport,
        _open={to, from_} - {-1},
    )
    try:
        with anyio.fail_after(PATIENCE):
            yield link
            link.hang_up()
            await link.running
    finally:
        link.hang_up()
        with anyio.CancelScope(shield=True):
            if not running.done():
                running.cancel()
            await asyncio.wait({running})


@asynccontextmanager
async def guarded(
    log: Path,
    *interceptors: Interceptor[..., Any],
    denials: Denials | None = None,
    observers: Sequence[Observer] = (),
    timeout: float = 5.0,
    coerce_input_schemas: bool = False,
    **options: Any,
) -> AsyncGenerator[Link]:
    """Start the gateway with a chain of these interceptors."""
    chain = Chain(observers=observers, timeout=timeout, gives=GIVES)
    chain.add(*interceptors)
    judge = judge_of(chain, denials, coerce_input_schemas=coerce_input_schemas)
    async with chain, open_link(log, judge=judge, **options) as link:
        yield link


def regimes_of(chain: Chain, denials: Denials | None = None, **options: Any) -> Regimes:
    """Return the regimes of a gateway whose chain is this."""
    return Regimes(Regime(chain, denials, **options))


def judge_of(chain: Chain, denials: Denials | None = None, *, coerce_input_schemas: bool = False) -> ChainJudge:
    """Return the judge of a connection whose chain is this."""
    context = ConnectionContext(server="raw", principal=Principal(type="user", id="tester"), flow="test")
    return ChainJudge(regimes_of(chain, denials, coerce_input_schemas=coerce_input_schemas), context)
