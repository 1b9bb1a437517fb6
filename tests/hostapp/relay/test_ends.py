"""How a connection ends: nothing said in time is lost, nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan.relay import Action, Deferred, OversizedLine, Side, SpawnError

from .harness import alive, b64, gone, open_link, request, send, unanswered, written

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("step", "code"), [(("exit", 0), 0), (("exit", 3), 3), (("kill", 15), 143), (("kill", 9), 137)]
)
async def test_the_servers_exit_code_is_passed_on(log: Path, step: tuple[Any, ...], code: int) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, step))
        assert await link.rest() == [unanswered(1)]
        assert await link.running == code


async def test_after_the_clients_last_word_the_server_may_finish(log: Path) -> None:
    late = [b'{"jsonrpc":"2.0","id":1,"result":%d}' % number for number in range(1000)]
    async with open_link(log, at_end=[send(*late), ("exit", 5)]) as link:
        await link.send(request(1, "go", None, ("read", 0)))
        assert await link.finish() == 5
        assert await link.rest() == late


async def test_a_server_that_exits_at_once_ends_the_gateway(log: Path) -> None:
    async with open_link(log, at_start=[send("first and last"), ("exit", 7)]) as link:
        assert await link.rest() == [b"first and last"]
        assert await link.running == 7


async def test_what_a_server_said_before_it_ended_reaches_a_slow_reader(log: Path) -> None:
    line = b"x" * 9_999
    async with open_link(log, reading=False) as link:
        await link.send(request(1, "go", None, ("flood", b64(line + b"\n"), 400), ("exit", 0)))
        # The server is dead when all that is left fits into pipes and buffers; only then does the client begin.
        received = bytearray()
        while chunk := await anyio.to_thread.run_sync(os.read, link.descriptor, 65536):
            received += chunk
        assert bytes(received) == (line + b"\n") * 400 + unanswered(1) + b"\n"
        assert await link.running == 0


class Slow:
    """A judge that takes its time over what the server says."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    def judge(self, side: Side, line: bytes) -> Action | Deferred:
        return Action(forward=line) if side is Side.CLIENT else Deferred(self._wait(line), ordered=True)

    async def _wait(self, line: bytes) -> Action:
        await self.may_end.wait()
        return Action(forward=line)

    def oversized(self, side: Side, line: OversizedLine) -> Action:
        raise NotImplementedError

    def close(self) -> None:
        pass


async def test_what_a_server_said_before_it_ended_is_judged_to_the_end(log: Path, tmp_path: Path) -> None:
    judge = Slow()
    async with open_link(log, judge=judge) as link:
        await link.send(request(1, "go", None, ("tell", str(tmp_path / "pid")), send("last words"), ("exit", 0)))
        await gone((await written(tmp_path / "pid"))["pid"])
        # A dead server's output may not stay silent for long. Here it is the judge that takes its time.
        assert await asyncio.wait({link.running}, timeout=2.0) == (set(), {link.running})
        judge.may_end.set()
        assert await link.rest() == [b"last words", unanswered(1)]


async def test_a_client_that_hangs_up_ends_server_and_grandchildren(log: Path, tmp_path: Path) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, ("child", str(tmp_path / "child")), ("tell", str(tmp_path / "self"))))
        pids = [(await written(tmp_path / name))["pid"] for name in ("child", "self")]
        assert all(alive(pid) for pid in pids)
        link.hang_up()
        assert await link.running == 0
        await gone(*pids)


async def test_a_server_deaf_to_all_requests_to_end_is_gone_within_five_seconds(log: Path, tmp_path: Path) -> None:
    async with open_link(log, deaf=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP], stay=True) as link:
        await link.send(request(1, "go", None, ("child", str(tmp_path / "child")), ("tell", str(tmp_path / "self"))))
        pids = [(await written(tmp_path / name))["pid"] for name in ("child", "self")]
        link.hang_up()
        with anyio.fail_after(5):
            assert await link.running == 128 + signal.SIGKILL
            await gone(*pids)


async def test_a_grandchild_that_holds_the_output_does_not_hold_the_gateway(log: Path, tmp_path: Path) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, ("child", str(tmp_path / "child")), send("bye"), ("exit", 4)))
        assert await link.receive() == b"bye"
        with anyio.fail_after(3):
            assert await link.running == 4
            await gone((await written(tmp_path / "child"))["pid"])


async def test_a_server_that_closes_its_output_is_told_to_end(log: Path) -> None:
    async with open_link(log, at_end=[("exit", 6)]) as link:
        await link.send(request(1, "go", None, send("bye"), ("close", 1)))
        assert await link.rest() == [b"bye", unanswered(1)]
        assert await link.running == 6


async def test_a_server_that_closes_its_input_still_speaks(log: Path) -> None:
    async with open_link(log, at_start=[("close", 0), send("one")], at_end=[send("two")], stay=True) as link:
        assert await link.receive() == b"one"
        assert await link.receive() == b"two"
        # The client learns of it as it would without a gateway: it can write no more.
        with pytest.raises(BrokenPipeError):
            await link.write(b"x\n" * 1_000_000)
        assert not link.running.done()


async def test_a_cancelled_gateway_leaves_no_process(log: Path, tmp_path: Path) -> None:
    async with open_link(log, deaf=[signal.SIGTERM], stay=True) as link:
        await link.send(request(1, "go", None, ("child", str(tmp_path / "child")), ("tell", str(tmp_path / "self"))))
        pids = [(await written(tmp_path / name))["pid"] for name in ("child", "self")]
        link.running.cancel()
        await asyncio.wait({link.running})
        await gone(*pids)
        link.running = asyncio.create_task(_nothing())


async def _nothing() -> int:
    return 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/command", "x"], "cannot start '/no/such/command': not found"),
        ([str(Path(__file__))], "Permission denied"),
        (["/"], "Permission denied"),
        ([sys.executable, "a\0b"], "null byte"),
    ],
)
async def test_a_command_that_cannot_be_started_is_named_with_the_reason(
    log: Path, command: list[str], words: str
) -> None:
    with pytest.raises(SpawnError, match=words):
        async with open_link(log, command=command) as link:
            await link.running
