"""What a running command writes to stderr: text and JSON."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.hostapp.cli.commands import Running, call, echo_server, started
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio

NOISY = r"""
import logging
from midspan_sdk import hookimpl, mutator, validator

log = logging.getLogger(__name__)

@validator(events=["tools/call"], phase="request", fail_open=True)
def speaks(payload):
    log.debug("a detail")
    log.warning("%s", "two\nlines \x1b[31mred\x07 \u202e")
    raise ValueError("fails\x1b[0m")

@mutator(events=["tools/call"], phase="response")
def breaks(payload):
    raise KeyError("one\ntwo")

@hookimpl
def midspan_interceptors(): return [speaks, breaks]
"""


CARELESS = """
import logging, warnings
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
def wrong(payload):
    logging.getLogger(__name__).warning("%d", "not a number")
    warnings.warn("out of date", stacklevel=1)

@hookimpl
def midspan_interceptors(): return [wrong]
"""


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """A plugin file that logs and fails."""
    file = tmp_path / "noisy.py"
    file.write_text(NOISY, "utf-8")
    return file


async def stderr_of(*arguments: str, **variables: str) -> list[str]:
    """Run a command in front of a server, make one call, and return what stderr got."""
    async with started(*arguments, **variables) as running:
        assert (await running.ask(call(1)))["id"] == 1
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert await running.process.wait() == 0
        return await running.rest()


async def test_text_is_a_line_for_each_record_and_a_traceback_for_errors_alone(noisy: Path, tmp_path: Path) -> None:
    lines = await stderr_of("run", "--plugin-file", str(noisy), "--", *echo_server(tmp_path))
    assert lines[0] == "midspan: warning: midspan_plugin_file_noisy: two lines �[31mred� �"
    assert lines[1].startswith("midspan: warning: noisy.speaks failed: ")
    assert lines[2].startswith("midspan: error: noisy.breaks failed: ")
    assert lines[3] == "    Traceback (most recent call last):"
    assert len(lines) > 4
    assert all(line.startswith("    ") for line in lines[3:])
    assert all(line.isprintable() for line in lines)


async def test_json_is_an_object_for_each_record(noisy: Path, tmp_path: Path) -> None:
    begun = datetime.now(UTC)
    given = ("--log-format", "json", "--log-level", "debug", "--plugin-file", str(noisy))
    lines = await stderr_of("run", *given, "--", *echo_server(tmp_path))
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    mine = [one for one in found if one.get("plugin") == "noisy"]
    detail, warning, speaks, breaks = mine
    assert (detail["level"], detail["message"]) == ("debug", "a detail")
    assert warning["message"] == "two\nlines \x1b[31mred\x07 \u202e"
    assert warning["logger"] == "midspan_plugin_file_noisy"
    assert (speaks["interceptor"], speaks["level"]) == ("noisy.speaks", "warning")
    assert "ValueError" in speaks["exception"]
    assert (breaks["interceptor"], breaks["instance"], breaks["level"]) == ("noisy.breaks", "noisy", "error")
    assert breaks["exception"].startswith("Traceback")
    moment = datetime.fromisoformat(breaks["timestamp"])
    assert begun - timedelta(seconds=1) <= moment <= datetime.now(UTC)
    assert breaks["timestamp"].endswith("Z")
    assert len(breaks["timestamp"]) == len("2026-01-01T00:00:00.000Z")


async def test_all_that_serve_says_is_json(noisy: Path, tmp_path: Path) -> None:
    async with started(
        *("serve", "--port", "0", "--url", "http://127.0.0.1:1/mcp"), MIDSPAN_LOG_FORMAT="json"
    ) as running:
        await running.line(lambda line: "serving http" in line)
        assert await running.stop(signal.SIGTERM) == 0
        await running.rest()
        said = [json.loads(line) for line in running.said]
        assert said[0]["message"] == "relay only, no interceptor is enabled"
        assert said[1]["message"].startswith("serving http://127.0.0.1:")
        assert {one["level"] for one in said} == {"info"}


async def test_a_level_hides_what_is_below_it(noisy: Path, tmp_path: Path) -> None:
    server = echo_server(tmp_path)
    quiet = await stderr_of("run", "--log-level", "error", "--plugin-file", str(noisy), "--", *server)
    assert quiet[0].startswith("midspan: error: noisy.breaks failed")
    # The command line wins over the environment.
    loud = await stderr_of(
        *("run", "--log-level", "debug", "--plugin-file", str(noisy), "--", *server), MIDSPAN_LOG_LEVEL="error"
    )
    assert any("a detail" in line for line in loud)
    assert await stderr_of("run", "--", *server, MIDSPAN_LOG_LEVEL="warning") == []


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_log_call_that_is_wrong_is_one_line_and_so_is_a_warning_of_python(form: str, tmp_path: Path) -> None:
    plugin = tmp_path / "careless.py"
    plugin.write_text(CARELESS, "utf-8")
    given = ("--log-format", form, "--plugin-file", str(plugin))
    wrong, warning = await stderr_of("run", *given, "--", *echo_server(tmp_path))
    assert "a log record cannot be written" in wrong
    assert "careless.py, line 7" in wrong
    assert "UserWarning: out of date" in warning
    if form == "json":
        assert [json.loads(line)["level"] for line in (wrong, warning)] == ["error", "warning"]


async def test_what_the_server_writes_is_untouched(tmp_path: Path) -> None:
    server = echo_server(tmp_path, before="print('server: hello', file=sys.stderr, flush=True)")
    lines = await stderr_of("run", "--log-format", "json", "--", *server)
    assert "server: hello" in lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "--log-format", "json"), "no server"),
        (("run", "--config", "/no/such/file", "--log-format=json", "--", "cat"), "no such file"),
        (("serve", "--nope", "--log-format", "json"), "--nope"),
        (("serve", "--port", "x", "--log-format", "json"), "--port"),
        (("interceptors", "serve", "--log-format", "json"), "nothing to serve"),
    ],
)
async def test_a_failed_start_is_json_too(arguments: tuple[str, ...], says: str) -> None:
    async with started(*arguments) as running:
        (line,) = await failed(running)
        assert json.loads(line)["level"] == "error"
        assert says in json.loads(line)["message"]


@pytest.mark.parametrize("arguments", [("serve", "--nope"), ("run",)])
async def test_the_environment_asks_for_json_of_a_failed_start(arguments: tuple[str, ...]) -> None:
    async with started(*arguments, MIDSPAN_LOG_FORMAT="json") as running:
        (line,) = await failed(running)
        assert json.loads(line)["level"] == "error"


async def failed(running: Running) -> list[str]:
    """Close the input of a command that cannot start, and return what it said."""
    assert running.process.stdin is not None
    running.process.stdin.close()
    lines = await running.rest()
    assert await running.process.wait() == 2
    return lines


async def test_what_is_behind_the_dashes_is_the_server_s(tmp_path: Path) -> None:
    async with started("run", "--nope", "--", "server", "--log-format", "json") as running:
        (line,) = await failed(running)
        assert line.startswith("midspan: error: ")


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_for_a_terminal_alone(variables: dict[str, str], coloured: bool, noisy: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "midspan", "run", "--plugin-file", str(noisy), "--", *echo_server(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        command,
        input=json.dumps(call(1)) + "\n",
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**environment, **variables},
        timeout=PATIENCE,
        check=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # how Linux tells the end of a terminal
        pass
    os.close(ours)
    assert done.stdout
    assert b"warning:" in shown
    assert (b"\x1b[" in shown) is coloured


def test_a_bug_is_json_too() -> None:
    program = (
        "import midspan.cli._server as s, sys\n"
        "def broken(self): raise RuntimeError('not meant')\n"
        "s.ServerChoice.check = broken\n"
        "from midspan.cli import main\n"
        "sys.argv = ['midspan', 'serve', '--log-format', 'json']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert json.loads(line)["exception"].endswith("RuntimeError: not meant")
