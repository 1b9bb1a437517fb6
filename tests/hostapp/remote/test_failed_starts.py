"""What stops a start: one line that says which interceptor server, why, and how to start without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hostapp.relay.harness import alive, poll

from .ways import HERE, config, failed_start, processes, served_command, table

CENTRAL = "interceptor_servers.central"
WITHOUT = "; to start without it: enabled = false in [interceptor_servers.central]"
NOBODY = "http://127.0.0.1:9/mcp"

UNREACHABLE: dict[str, tuple[dict[str, Any], str, str]] = {
    "down": ({"url": f"{NOBODY}?key=hush"}, NOBODY, "cannot be reached: All connection attempts failed"),
    "down, over SSE": (
        {"url": f"{NOBODY}?key=hush", "transport": "sse"},
        NOBODY,
        "cannot be reached: All connection attempts failed",
    ),
    "no program": (
        {"command": "/no/such/program", "args": ["--key=hush"]},
        "/no/such/program",
        "cannot be reached: cannot start '/no/such/program': not found; install it or give its full path",
    ),
    "ends": (
        {"command": "sh", "args": ["-c", "exit 3 # hush"]},
        "sh",
        "cannot be reached: it closed the connection before it answered",
    ),
    "no interceptors": (
        {"command": sys.executable, "args": [str(HERE / "echo_server.py"), "hush"]},
        sys.executable,
        "serves no interceptors: it does not know interceptors/list",
    ),
}


@pytest.mark.parametrize("case", UNREACHABLE)
def test_a_server_that_cannot_be_used_is_named_with_what_to_do_and_no_secret(tmp_path: Path, case: str) -> None:
    keys, shown, problem = UNREACHABLE[case]
    line = failed_start("run", config(tmp_path, table(CENTRAL, **keys)))
    assert line == f"interceptor server 'central' ({shown}): {problem}{WITHOUT}"


def test_serve_says_so_too(tmp_path: Path) -> None:
    line = failed_start("serve", config(tmp_path, table(CENTRAL, url=NOBODY)))
    assert (
        line == f"interceptor server 'central' ({NOBODY}): cannot be reached: All connection attempts failed{WITHOUT}"
    )


def test_all_that_are_down_stand_in_the_line_and_those_that_are_up_do_not_stay(tmp_path: Path) -> None:
    tables = (
        table(CENTRAL, url=NOBODY),
        table("interceptor_servers.good", **served_command(tmp_path)),
        table("interceptor_servers.other", command="/no/such/program"),
    )
    line = failed_start("run", config(tmp_path, *tables))
    assert line.startswith("interceptor server 'central'")
    assert "(and 1 more: interceptor server 'other' (/no/such/program): cannot be reached: " in line
    assert "check" not in line  # contacts nobody, and so would not tell
    (child,) = processes(tmp_path)
    poll(lambda: not alive(child))


NO_RM = '.interceptors."guards.no_rm"'
MISFITS: dict[str, tuple[str, dict[str, Any], str]] = {
    "an override for nobody, nearly right": (
        '.interceptors."guards.no_rn"',
        {"mode": "audit"},
        ".\"guards.no_rn\": the server offers no such interceptor; did you mean 'guards.no_rm'?",
    ),
    "an override for nobody": (
        ".interceptors.x",
        {"mode": "audit"},
        ".x: the server offers no such interceptor; it offers guards.environment, guards.no_rm, guards.no_sudo, "
        "guards.redact",
    ),
    "a priority for a validator": (
        NO_RM,
        {"priority": 3},
        '."guards.no_rm".priority: only mutators have a priority; validators run in parallel',
    ),
    "an answer of a validator": (NO_RM, {"may_answer": True}, '."guards.no_rm".may_answer: only mutators answer'),
    "wider hooks": (
        NO_RM,
        {"hooks": [{"events": ["*"], "phase": "request"}]},
        "\"guards.no_rm\".hooks: may only narrow; '*' in the request phase is outside what the interceptor declares",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_an_override_that_does_not_fit_is_named_by_its_line_and_key(tmp_path: Path, case: str) -> None:
    place, keys, problem = MISFITS[case]
    file = config(tmp_path, table(CENTRAL, **served_command(tmp_path)), table(f"{CENTRAL}{place}", **keys))
    line = failed_start("run", file)
    assert line.startswith(f"{file}:")
    assert "interceptor_servers.central.interceptors" in line
    assert line.endswith(problem)
    number = int(line.removeprefix(f"{file}:").partition(":")[0])
    assert file.read_text().splitlines()[number - 1].startswith((f"[{CENTRAL}{place}", *keys))


ONE = """
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
def one() -> None: ...

@hookimpl
def midspan_interceptors():
    return [one]
"""


@pytest.mark.parametrize(("key", "value"), [("priority", 3), ("may_answer", True)])
def test_a_policy_that_no_interceptor_of_the_server_takes_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    plugin = tmp_path / "one.py"
    plugin.write_text(ONE)
    file = config(tmp_path, table(CENTRAL, **{key: value}, **served_command(tmp_path, plugin)))
    line = failed_start("run", file)
    assert line == (
        f"{file}:2:1: interceptor_servers.central.{key}: no interceptor of this server takes it, only mutators do"
    )


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"url": NOBODY, "headers": {"X-Key": "${NO_SUCH_VARIABLE}"}}, "needs the environment variable NO_SUCH"),
        ({"url": NOBODY, "headers": {"X-Key": "file:/no/such/file"}}, "the file that it names cannot be read"),
    ],
)
def test_a_secret_that_is_not_there_is_told_before_anything_is_contacted(
    tmp_path: Path, keys: dict[str, Any], problem: str
) -> None:
    file = config(tmp_path, table(CENTRAL, **keys))
    line = failed_start("run", file)
    assert line.startswith(f"{file}:3:12: interceptor_servers.central.headers.X-Key: {problem}")
    assert "reached" not in line


def test_what_is_not_enabled_is_not_contacted_and_needs_no_secret(tmp_path: Path) -> None:
    import subprocess

    from .ways import INITIALIZE, MIDSPAN

    off = table(CENTRAL, url=NOBODY, enabled=False, headers={"X-Key": "${NO_SUCH_VARIABLE}"})
    done = subprocess.run(
        [*MIDSPAN, "run", "--config", str(config(tmp_path, off)), "--server", "echo"],
        input=json.dumps(INITIALIZE) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "relay only" in done.stderr
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "echo"
