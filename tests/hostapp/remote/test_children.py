"""A command's processes end with midspan, however that ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.hostapp.relay.harness import alive, poll
from tests.hostapp.relay.test_run_command import running

from .ways import INITIALIZE, MIDSPAN, client_of, config, processes, say, served_command, table

CENTRAL = "interceptor_servers.central"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a killed gateway takes its children along on Linux only")


@pytest.mark.anyio
async def test_nothing_is_left_after_the_client_has_gone(tmp_path: Path) -> None:
    async with client_of("run", config(tmp_path, table(CENTRAL, **served_command(tmp_path)))) as client:
        await say(client, "x")
        (child,) = processes(tmp_path)
        assert alive(child)
    assert not alive(child)


@pytest.mark.anyio
async def test_nothing_is_left_when_serve_is_told_to_end(tmp_path: Path) -> None:
    async with client_of("serve", config(tmp_path, table(CENTRAL, **served_command(tmp_path)))) as client:
        await say(client, "x")
        (child,) = processes(tmp_path)
    assert not alive(child)


def command(folder: Path, *tables: str) -> list[str]:
    return [*MIDSPAN, "run", "--config", str(config(folder, *tables)), "--server", "echo"]


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGKILL, marks=LINUX), signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name
)
def test_nothing_is_left_after_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    import json

    with running(command(tmp_path, table(CENTRAL, **served_command(tmp_path)))) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        (child,) = processes(tmp_path)
        assert alive(child)
        process.send_signal(number)
        process.wait(20)
        poll(lambda: not alive(child))


@LINUX
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda one: one.name)
def test_nothing_is_left_of_a_start_that_was_ended(tmp_path: Path, number: signal.Signals) -> None:
    # `$$` is one `$` in the config.
    script = f"echo > {tmp_path}/$$$$.pid; trap '' TERM; while :; do sleep 0.1; done"
    with running(command(tmp_path, table(CENTRAL, command="sh", args=["-c", script]))) as process:
        poll(lambda: processes(tmp_path) != [])
        (child,) = processes(tmp_path)
        process.send_signal(number)
        assert process.wait(20) != 0
        poll(lambda: not alive(child))
