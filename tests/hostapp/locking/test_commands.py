"""The real command: a client that asks a gateway whose guards are not as they were locked gets the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import CONFIG, GUARD, Acme
from .test_imports import tamper

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"reached": True}}), flush=True)
"""
CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "rm", "arguments": {}}}
SECONDS = 30


def midspan(acme: Acme, *arguments: str, says: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "PYTHONPATH": str(acme.site), **environment}
    known.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "midspan", *arguments]
    return subprocess.run(
        command,
        input=says,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=known,
        cwd=acme.site.parent,
    )


def answer(
    acme: Acme, *options: str, command: tuple[str, ...] = ("run",), **environment: str
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Let a client make one call; return the answer, and how the gateway ended."""
    server = ("--", sys.executable, "-c", SERVER) if command == ("run",) else ()
    given = (*command, "--config", str(acme.config), *options, *server)
    done = midspan(acme, *given, says=json.dumps(CALL) + "\n", **environment)
    (line,) = done.stdout.splitlines()
    return json.loads(line), done


def changed_byte(acme: Acme) -> None:
    acme.file("_words.py").write_text('WORD = "rn"\n')


def patch_release(acme: Acme) -> None:
    acme.uninstall()
    acme.install(
        version="1.0.1",
        guard=GUARD.replace('phase="request")\ndef check', 'phase="request", fail_open=True)\ndef check'),
    )


def other_owner(acme: Acme) -> None:
    acme.uninstall()
    acme.install("evil-acme")


def other_priority(acme: Acme) -> None:
    acme.config.write_text(f"{CONFIG}priority = 0\n")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (changed_byte, "midspan-acme 1.0: locked_acme/_words.py: expected sha256:"),
        (patch_release, "midspan-acme 1.0.1: version: expected 1.0, found 1.0.1 (and "),
        (other_owner, "plugin 'acme': expected midspan-acme 1.0, found evil-acme 1.0 (and "),
        (other_priority, "acme.first (midspan-acme 1.0): priority (request): expected 10, found 0 (and "),
    ],
)
def test_the_client_is_told_what_differs_and_the_server_is_not_reached(
    acme: Acme, change: Callable[[Acme], None], told: str
) -> None:
    change(acme)
    got, done = answer(acme, "--locked")
    assert got["id"] == CALL["id"]
    assert got["error"]["message"].startswith(f"midspan: --locked: {told}")
    assert "`midspan plugins lock --diff` shows all)" in got["error"]["message"]
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith(f"midspan: error: --locked: {told}")
    diff = midspan(acme, "plugins", "lock", "--diff", "--config", str(acme.config))
    assert diff.returncode == 2, "what stops a start is in the diff"
    assert told.partition(":")[0] in diff.stdout


def test_what_is_as_it_was_locked_runs_from_source_and_not_from_tampered_bytecode(acme: Acme) -> None:
    tamper(acme.file("_words.py"), "WORD = 'tampered'")
    got, _ = answer(acme)
    assert got["result"] == {"reached": True}, "without the lock the tampered bytecode runs"
    got, done = answer(acme, "--locked")
    assert got["result"]["isError"] is True
    assert done.returncode == 0


def test_the_variable_does_what_the_option_does(acme: Acme) -> None:
    changed_byte(acme)
    got, _ = answer(acme, MIDSPAN_LOCKED="1")
    assert got["error"]["message"].startswith("midspan: --locked: midspan-acme 1.0: ")


def test_interceptors_serve_and_serve_refuse_too(acme: Acme) -> None:
    changed_byte(acme)
    got, _ = answer(acme, "--locked", command=("interceptors", "serve"))
    assert got["error"]["message"].startswith("midspan: --locked: midspan-acme 1.0: ")
    done = midspan(acme, "serve", "--locked", "--config", str(acme.config), "--port", "0", "--", "none")
    assert done.returncode == 2
    assert done.stderr.startswith("midspan: error: --locked: midspan-acme 1.0: ")


def test_a_relay_without_any_plugin_wants_the_lock_too(acme: Acme, tmp_path: Path) -> None:
    # With the config gone, nothing is enabled; that must not be a way around the lock.
    done = midspan(acme, "run", "--locked", "--", "none", says=json.dumps(CALL) + "\n", XDG_CONFIG_HOME=str(tmp_path))
    assert "there is no lock" in json.loads(done.stdout)["error"]["message"]
    assert done.returncode == 2
