"""A cloned repository as the working directory: what lies there is neither read nor imported."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from midspan.cli._group import invoke

WARNING = (
    "midspan: warning: ./midspan.toml is not read: midspan reads no config from the working directory; "
    "name it with --config if it is yours"
)
MIDSPAN = str(Path(sys.executable).with_name("midspan"))
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}
CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "rm", "arguments": {}}}

SHADOWS = (
    "click",
    "importlib_metadata",
    "mcp",
    "midspan_audit",
    "midspan_policy",
    "midspan_sdk",
    "pluggy",
    "psutil",
    "pydantic",
    "pydantic_core",
    "sitecustomize",
    "usercustomize",
    "uvicorn",
)
"""What midspan imports, and what Python itself does at its start."""
STANDARD = ("asyncio", "json", "tomllib", "typing")


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


@pytest.fixture
def hostile(tmp_path: Path, marks: Path) -> Path:
    """A folder whose modules each leave a mark when they are imported."""
    folder = tmp_path / "cloned"
    (folder / "midspan").mkdir(parents=True)
    for name in (*SHADOWS, *STANDARD, "midspan/__init__", "midspan/__main__"):
        mark = marks / name.replace("/", ".")
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\nraise SystemExit('taken over')\n")
    info = folder / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[midspan.plugins]\nevil = midspan_policy\n")
    (folder / "midspan.toml").write_text("[plugins.policy]\nenabled = false\n")
    return folder


@pytest.fixture
def own() -> Path:
    """The operator's own config, which denies a tool."""
    path = Path(click.get_app_dir("midspan")) / "midspan.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[plugins.policy]\nenabled = true\nconfig = { deny = ['rm'] }\n")
    return path


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    (tmp_path / "server.py").write_text(SERVER)
    # `-P`: what the server itself imports is not midspan's to guard.
    return [sys.executable, "-P", str(tmp_path / "server.py")]


def done(command: list[str], folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, cwd=folder, check=True)


def test_the_modules_there_would_leave_a_mark(hostile: Path, marks: Path) -> None:
    for name in SHADOWS:
        subprocess.run([sys.executable, "-c", f"import {name}"], cwd=hostile, capture_output=True, check=False)
    assert {mark.name for mark in marks.iterdir()} >= set(SHADOWS) - {"sitecustomize", "usercustomize"}


def test_run_neither_reads_nor_imports_anything_there(hostile: Path, marks: Path, own: Path, server: list[str]) -> None:
    lines = "".join(json.dumps(message) + "\n" for message in (INITIALIZE, CALL))
    ran = done([MIDSPAN, "run", "--", *server], hostile, lines)
    answers = {message["id"]: message for message in map(json.loads, ran.stdout.splitlines())}
    assert "capabilities" in answers[1]["result"]
    assert answers[2]["result"]["isError"] is True, "the operator's own policy is in force"
    assert ran.stderr.splitlines().count(WARNING) == 1
    assert not list(marks.iterdir())


def test_serve_neither_reads_nor_imports_anything_there(
    hostile: Path, marks: Path, own: Path, server: list[str]
) -> None:
    command = [MIDSPAN, "serve", "--port", "0", "--", *server]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=hostile) as process:
        timer = threading.Timer(60, process.kill)
        timer.start()
        assert process.stderr is not None
        said = ""
        try:
            while (found := re.search(r"http://\S+/mcp", said)) is None:
                line = process.stderr.readline()
                assert line, said
                said += line
            request = urllib.request.Request(
                found[0],
                json.dumps(INITIALIZE).encode(),
                {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
            )
            with urllib.request.urlopen(request, timeout=30) as response:
                assert b"serverInfo" in response.read()
            process.send_signal(signal.SIGTERM)
            said += process.stderr.read()
        finally:
            timer.cancel()
            process.kill()
    assert said.splitlines().count(WARNING) == 1, said
    assert not list(marks.iterdir())


@pytest.mark.parametrize(
    "python", [[MIDSPAN], [sys.executable, "-P", "-m", "midspan"]], ids=["midspan", "python -P -m"]
)
@pytest.mark.parametrize(
    "arguments", [["plugins", "list"], ["plugins", "show", "policy"], ["interceptors", "serve"], ["audit", "--help"]]
)
def test_no_command_reads_or_imports_anything_there(
    python: list[str], arguments: list[str], hostile: Path, marks: Path, own: Path
) -> None:
    ran = done([*python, *arguments], hostile)
    assert ran.stderr.splitlines().count(WARNING) == 1
    assert "evil" not in ran.stdout
    assert not list(marks.iterdir())


def test_python_m_imports_no_library_from_there(hostile: Path, marks: Path, own: Path) -> None:
    # Before any line of midspan runs, `-m` itself takes a folder `midspan` there, and what that imports; see `-P`.
    for taken in ("midspan/__init__", "midspan/__main__", *STANDARD):
        (hostile / f"{taken}.py").unlink()
    (hostile / "midspan").rmdir()
    ran = done([sys.executable, "-m", "midspan", "plugins", "list"], hostile)
    assert ["policy", "enabled"] in [[*line.split()[:1], *line.split()[3:4]] for line in ran.stdout.splitlines()]
    assert ran.stderr.splitlines().count(WARNING) == 1
    assert not list(marks.iterdir())


# When it is said


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., int]:
    """Run a command beside a `midspan.toml`, and count the warnings."""
    (tmp_path / "midspan.toml").write_text("[plugins.policy]\n")
    monkeypatch.chdir(tmp_path)

    def said(*arguments: str) -> int:
        assert invoke(["plugins", "list", *arguments]) == 0
        return capsys.readouterr().err.splitlines().count(WARNING)

    return said


def test_it_is_said_when_there_is_no_other_config_and_when_there_is(said: Callable[..., int], tmp_path: Path) -> None:
    assert said() == 1
    (tmp_path / "other.toml").touch()
    assert said("--config", "other.toml") == 1


@pytest.mark.parametrize("named", ["midspan.toml", "./midspan.toml", "{folder}/midspan.toml", "link.toml"])
def test_it_is_not_said_of_the_file_that_is_read(named: str, said: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "link.toml").symlink_to("midspan.toml")
    assert said("--config", named.format(folder=tmp_path)) == 0


def test_it_is_not_said_of_a_file_that_the_config_includes(said: Callable[..., int], own: Path, tmp_path: Path) -> None:
    own.write_text(f"include = ['{tmp_path}/midspan.toml']\n")
    assert said() == 0


def test_it_is_not_said_of_a_folder_of_that_name(said: Callable[..., int], tmp_path: Path) -> None:
    os.rename(tmp_path / "midspan.toml", tmp_path / "file")
    (tmp_path / "midspan.toml").mkdir()
    assert said() == 0


def test_help_says_nothing_of_it(said: Callable[..., int]) -> None:
    assert said("--help") == 0
