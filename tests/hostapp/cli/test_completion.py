"""Completion in the shell: click's protocol on the real command, and a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MIDSPAN = Path(sys.executable).with_name("midspan")
HEAVY = {"anyio", "mcp", "mcp_types", "midspan_sdk", "pluggy", "pydantic", "rich", "starlette", "uvicorn"}

CONFIG = """
[servers.files]
command = "x"
[servers.search]
url = "http://localhost/mcp"
[servers."bad name*"]
command = "x"
[plugins.pii-dev]
use = "policy"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "midspan.toml"
    file.write_text(CONFIG, "utf-8")
    return file


def asked(words: str, *, shell: str = "bash", **variables: str) -> subprocess.CompletedProcess[str]:
    """Complete the last word, as the script of a shell asks for it."""
    count = len(words.split()) - (not words.endswith(" "))
    question = {"_MIDSPAN_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    return subprocess.run(
        [sys.executable, "-m", "midspan"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **question, **variables},
    )


def completed(words: str, **variables: str) -> list[str]:
    done = asked(words, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line.startswith("plain,")]


def test_sub_commands_and_options_complete() -> None:
    assert {"completion", "run", "serve", "plugins"} <= set(completed("midspan "))
    assert completed("midspan r") == ["run"]
    assert completed("midspan plugins li") == ["list"]
    assert completed("midspan run --log-f") == ["--log-format"]
    assert completed("midspan serve --log-format ") == ["text", "json"]
    assert completed("midspan completion ") == ["bash", "fish", "zsh"]
    assert completed("midspan --ver") == ["--version"]


def test_plugins_complete_from_metadata_and_the_config(config: Path) -> None:
    assert completed("midspan plugins show ") == ["audit", "policy", "secrets"]
    assert completed("midspan run --plugin p", MIDSPAN_CONFIG=str(config)) == ["pii-dev", "policy"]
    assert completed(f"midspan serve --config {config} --no-plugin pi") == ["pii-dev"]


def test_servers_complete_from_the_config_that_is_named(config: Path) -> None:
    assert completed(f"midspan run --config {config} --server ") == ["files", "search"]
    assert completed("midspan serve --server s", MIDSPAN_CONFIG=str(config)) == ["search"]
    assert completed("midspan serve --server ") == []


def test_a_command_behind_the_dashes_is_a_file() -> None:
    assert asked("midspan run -- ").stdout == "file,\n"


@pytest.mark.parametrize("text", ["not = toml =", "servers = 3", "[servers]\nx = '${HOME}'\n[other]\ny = '${HOME}'"])
def test_a_broken_config_completes_to_nothing_in_silence(text: str, config: Path) -> None:
    config.write_text(text, "utf-8")
    for words in (f"midspan run --config {config} --server ", "midspan run --config /no/such/file --server "):
        assert completed(words, MIDSPAN_CONFIG=str(config)) == []
    assert completed("midspan run --plugin pol", MIDSPAN_CONFIG=str(config)) == ["policy"]


@pytest.mark.parametrize("words", ["midspan nope ", "midspan policy ", "midspan run --nope x "])
def test_what_is_no_command_completes_to_nothing_in_silence(words: str) -> None:
    assert completed(words) == []


def test_a_question_that_nobody_understands_is_silent_too() -> None:
    for shell in ("tcsh", "bash_what"):
        done = asked("midspan ", shell=shell)
        assert (done.stdout, done.stderr) == ("", "")
    done = asked("midspan ", COMP_CWORD="no number")
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("words", ["midspan ", "midspan run --plugin ", "midspan serve --server ", "midspan plugins "])
def test_completing_imports_nothing_heavy(words: str, config: Path) -> None:
    program = (
        "import atexit, sys\n"
        f"heavy = {HEAVY!r}\n"
        "atexit.register(lambda: print('heavy:', sorted(heavy & sys.modules.keys())))\n"
        "from midspan.cli import main\n"
        "main()\n"
    )
    count = len(words.split())
    question = {"_MIDSPAN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **question, "MIDSPAN_CONFIG": str(config)},
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"
    assert len(done.stdout.splitlines()) > 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_in_its_own_way(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "midspan", "completion", shell], capture_output=True, text=True, timeout=60, check=True
    )
    assert f"_MIDSPAN_COMPLETE={shell}_complete" in done.stdout
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("bash") is None or not MIDSPAN.exists(), reason="needs bash and the script `midspan`")
def test_bash_completes(config: Path) -> None:
    script = f"""
    PATH={MIDSPAN.parent}:$PATH
    eval "$(midspan completion bash)"
    complete -p midspan
    COMP_WORDS=(midspan run --server s); COMP_CWORD=3
    _midspan_completion midspan
    echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "MIDSPAN_CONFIG": str(config)},
    )
    registered, answer = done.stdout.splitlines()
    assert "_midspan_completion" in registered
    assert answer == "search"
    assert done.stderr == ""
