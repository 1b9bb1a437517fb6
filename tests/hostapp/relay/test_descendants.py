"""What a server started ends with it, wherever it went; and what it did not start is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from midspan.relay import _child, _holding

from .harness import Link, Step, alive, gone, open_link, poll, request, result, send, server_command, written
from .test_run_command import CLIENT, gateway, running, told

pytestmark = pytest.mark.anyio

WAYS = {"own group": ("group",), "own session": ("session",), "daemon": ("daemon",)}
LINUX = pytest.mark.skipif(not _holding.CAN_KEEP, reason="elsewhere nothing tells whose a daemon is")


# Without a keeper nothing tells whose a daemon is.
KEPT = [pytest.param((True, name), marks=LINUX, id=f"{name} with a keeper") for name in WAYS]
SETTINGS = [*KEPT, *(pytest.param((False, name), id=name) for name in WAYS if name != "daemon")]
BOTH = pytest.mark.parametrize("setting", [KEPT[0], pytest.param((False, "own group"), id="no keeper")], indirect=True)


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, str]:
    """Return whether a keeper stands between gateway and server, and how a descendant leaves the server's group."""
    if not request.param[0]:
        monkeypatch.setattr(_holding, "CAN_KEEP", False)
    return request.param


@pytest.fixture
def kept(setting: tuple[bool, str]) -> bool:
    """Whether a keeper stands between gateway and server, as on Linux, or the server is the gateway's own child."""
    return setting[0]


@pytest.fixture
def way(setting: tuple[bool, str]) -> tuple[str, ...]:
    """How a descendant leaves the group of its server."""
    return WAYS[setting[1]]


def child(folder: Path, name: str, *ways: str) -> Step:
    return ("child", str(folder / name), *ways)


async def start(link: Link, folder: Path, **children: tuple[str, ...]) -> list[int]:
    """Let the server start children, and return their ids."""
    steps = [child(folder, name, *ways) for name, ways in children.items()]
    await link.send(request(1, "go", None, *steps))
    pids = [(await written(folder / name))["pid"] for name in children]
    assert all(map(alive, pids))
    return pids


@contextmanager
def bystander(*, stays: bool = True) -> Generator[int]:
    """Start a child of this process in a session of its own; or an orphan, whose parent has ended."""
    program = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
    if not stays:
        program = f"import os; os.fork() and os._exit(0)\n{program}"
    command = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            yield pid
            assert alive(pid)
        finally:
            os.kill(pid, signal.SIGKILL)


# Who dies with the client


@LINUX
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_client_that_is_killed_takes_descendants_of_every_kind_with_it(
    log: Path, tmp_path: Path, stubborn: bool
) -> None:
    kinds = {f"{name} {mood}": (*way, mood) for name, way in WAYS.items() for mood in ("polite", "deaf")}
    steps = [child(tmp_path, name, *ways) for name, ways in kinds.items()]
    call = request(1, "go", None, *steps, ("tell", str(tmp_path / "self")), send(result(1, {}))).decode()
    server: dict[str, Any] = {"deaf": [signal.SIGTERM], "stay": True} if stubborn else {}
    with running([sys.executable, "-I", "-S", "-c", CLIENT, call, *gateway(log, **server)]) as client:
        ours = [told(tmp_path / name)["pid"] for name in (*kinds, "self")]
        assert all(map(alive, ours))
        client.kill()
        poll(lambda: not any(map(alive, ours)), 5.0)


async def test_who_left_the_group_is_asked_to_end_before_it_is_killed(
    log: Path, tmp_path: Path, way: tuple[str, ...], kept: bool
) -> None:
    async with open_link(log, stay=not kept) as link:
        pids = await start(link, tmp_path, polite=(*way, "polite"), deaf=(*way, "deaf"))
        link.hang_up()
        with anyio.fail_after(5):
            assert await link.running == (0 if kept else 128 + signal.SIGTERM)
            await gone(*pids)
    assert (tmp_path / "polite.asked").exists()


# Without a keeper nothing tells whose it was that is in a session of its own.
@pytest.mark.parametrize("setting", [*KEPT, (False, "own group")], indirect=True)
async def test_descendants_do_not_outlive_a_server_that_ends_by_itself(
    log: Path, tmp_path: Path, way: tuple[str, ...]
) -> None:
    async with open_link(log) as link:
        pids = await start(link, tmp_path, polite=(*way, "polite"))
        await link.send(request(2, "go", None, ("exit", 3)))
        with anyio.fail_after(5):
            assert await link.running == 3
            await gone(*pids)
    assert (tmp_path / "polite.asked").exists()


async def test_a_signal_that_ends_the_server_ends_who_left_its_group(
    log: Path, tmp_path: Path, way: tuple[str, ...]
) -> None:
    async with open_link(log) as link:
        pids = await start(link, tmp_path, polite=(*way, "polite"))
        os.kill(os.getpid(), signal.SIGTERM)
        assert await link.running == 128 + signal.SIGTERM
        await gone(*pids)
    assert (tmp_path / "polite.asked").exists()


async def test_a_cancelled_gateway_leaves_no_descendant(log: Path, tmp_path: Path, way: tuple[str, ...]) -> None:
    async with open_link(log, deaf=[signal.SIGTERM], stay=True) as link:
        pids = await start(link, tmp_path, deaf=(*way, "deaf"))
        link.running.cancel()
        await asyncio.wait({link.running})
        await gone(*pids)
        link.running = asyncio.create_task(_nothing())


async def _nothing() -> int:
    return 0


@LINUX
def test_a_gateway_that_is_killed_takes_all_with_it_too(log: Path, tmp_path: Path) -> None:
    steps = [child(tmp_path, name, *way, "deaf") for name, way in WAYS.items()]
    call = request(1, "go", None, *steps, ("tell", str(tmp_path / "self")))
    with running(gateway(log, deaf=[signal.SIGTERM], stay=True)) as process:
        assert process.stdin is not None
        process.stdin.write(call + b"\n")
        process.stdin.flush()
        ours = [told(tmp_path / name)["pid"] for name in (*WAYS, "self")]
        process.kill()
        poll(lambda: not any(map(alive, ours)), 5.0)


# Who does not


async def test_the_end_of_one_server_signals_nobody_else(
    log: Path, tmp_path: Path, way: tuple[str, ...], kept: bool
) -> None:
    with bystander(), bystander(stays=False):
        async with open_link(log) as other, open_link(tmp_path / "second.log", stay=not kept) as link:
            theirs = await start(other, tmp_path, theirs=(*way, "polite"))
            ours = await start(link, tmp_path, ours=(*way, "deaf"))
            link.hang_up()
            await link.running
            await gone(*ours)
            assert all(map(alive, theirs))
            assert not (tmp_path / "theirs.asked").exists()
            await other.works()
            os.kill(theirs[0], signal.SIGKILL)  # without a keeper it would not be found


# The keeper


@asynccontextmanager
async def with_keeper(log: Path, folder: Path) -> AsyncGenerator[tuple[Link, psutil.Process, psutil.Process]]:
    """Return a link, its server's process and the keeper's."""
    async with open_link(log) as link:
        await link.send(request(1, "go", None, ("tell", str(folder / "self"))))
        server = psutil.Process((await written(folder / "self"))["pid"])
        keeper = server.parent()
        assert keeper is not None
        assert keeper.pid != os.getpid()
        yield link, server, keeper


@LINUX
async def test_an_orphan_that_ended_is_reaped_while_the_server_goes_on(log: Path, tmp_path: Path) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, child(tmp_path, "orphan", "daemon", "brief")))
        orphan = (await written(tmp_path / "orphan"))["pid"]
        await anyio.to_thread.run_sync(poll, lambda: not psutil.pid_exists(orphan))
        await link.works()


@LINUX
async def test_a_keeper_does_not_end_when_asked_by_mistake(log: Path, tmp_path: Path) -> None:
    async with with_keeper(log, tmp_path) as (link, _, keeper):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            keeper.send_signal(number)
        await link.works()
        link.hang_up()
        await link.running
        await gone(keeper.pid)


@LINUX
async def test_a_keeper_that_is_killed_takes_the_server_with_it(log: Path, tmp_path: Path) -> None:
    async with with_keeper(log, tmp_path) as (link, server, keeper):
        keeper.kill()
        assert await link.running == 128 + signal.SIGKILL
        await gone(server.pid)


@LINUX
async def test_a_server_hears_of_signals_what_it_would_hear_without_a_keeper(log: Path, tmp_path: Path) -> None:
    status: list[str] = []
    for can_keep in (True, False):
        command = ["sh", "-c", f"grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status > '{tmp_path}/status'; cat"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_holding, "CAN_KEEP", can_keep)
            async with open_link(log, command=command) as link:
                await link.finish()
        status.append((tmp_path / "status").read_text())
    assert status[0] == status[1] != ""


# How it is started


@BOTH
async def test_the_environment_given_is_all_that_the_server_has(log: Path, tmp_path: Path, kept: bool) -> None:
    folder = tmp_path / "füld er"
    folder.mkdir()
    environment = {"LC_ALL": "C.UTF-8", "EMPTY": "", "ä": "ö", "LONG": "x" * 100_000}
    command = server_command(log, at_start=[("tell", str(tmp_path / "self"))])
    server = await _child.spawn(command, env=environment, cwd=str(folder))
    try:
        seen = await written(tmp_path / "self")
        assert seen == {"pid": server.pid, "cwd": str(folder), "environment": environment}
        assert await server.stop() == 0
    finally:
        server.kill()


@BOTH
async def test_the_program_is_looked_for_in_the_path_given(tmp_path: Path, kept: bool) -> None:
    (tmp_path / "first").mkdir()
    for folder, mode in (("first", 0o644), ("second", 0o755)):
        file = tmp_path / folder / "my-server"
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\nexit 7\n")
        file.chmod(mode)
    path = os.pathsep.join(str(tmp_path / name) for name in ("none", "first", "second"))
    server = await _child.spawn(["my-server"], env={"PATH": path})
    await server.exited.wait()
    assert await server.stop() == 7
    server.kill()


@BOTH
async def test_a_working_directory_that_is_not_there_is_named(log: Path, tmp_path: Path, kept: bool) -> None:
    missing = str(tmp_path / "none")
    with pytest.raises(_child.SpawnError, match="its working directory is not there: ") as raised:
        await _child.spawn(server_command(log), cwd=missing)
    assert missing in str(raised.value)
    with pytest.raises(_child.SpawnError, match="'/no/such/command': not found"):
        await _child.spawn(["/no/such/command"], cwd=str(tmp_path))


@BOTH
@pytest.mark.parametrize(
    ("words", "reason"), [(["/no/such"], "not found"), ([__file__], "Permission denied"), (["a\0b"], "null")]
)
async def test_what_cannot_be_started_says_so(words: list[str], reason: str, kept: bool) -> None:
    with pytest.raises(_child.SpawnError, match=reason):
        await _child.spawn(words)


@BOTH
@pytest.mark.parametrize(("step", "code"), [(("exit", 3), 3), (("kill", signal.SIGKILL), 137)])
async def test_the_exit_code_is_the_servers(log: Path, step: Step, code: int, kept: bool) -> None:
    async with open_link(log) as link:
        await link.send(request(1, "go", None, step))
        assert await link.running == code
