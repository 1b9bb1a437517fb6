"""`midspan check`: all that is wrong at once, a line each."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.cli._group import invoke

Check = Callable[..., str]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Write a config into the working directory, run `midspan check`, and return what it prints."""
    monkeypatch.chdir(tmp_path)

    def printed(config: str, *arguments: str, code: int = 2) -> str:
        Path("midspan.toml").write_text(inspect.cleandoc(config), "utf-8")
        assert invoke(["check", "--config", "midspan.toml", *arguments]) == code
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return printed


def test_all_is_well(check: Check) -> None:
    config = "[servers]\na.command = 'sh'\nb.command = 'sh'\n[plugins.secrets]\nenabled = true"
    assert check(config, code=0) == (
        "All is well: 1 plugin with 2 interceptors in front of 2 servers. Nothing was started.\n"
    )
    assert check("", code=0) == "All is well: 0 plugins with 0 interceptors. Nothing was started.\n"


def test_everything_that_is_wrong_is_told_in_the_order_of_the_file(check: Check) -> None:
    config = """
        [servers.dev-files]
        command = "no-such-program"

        [plugins.dev]
        use = "policy"
        enabled = true
        servers = ["dev-*", "lab-*"]
        config = { deny = ["rm", "rm"] }

        [plugins.gone]
        enabled = true

        [plugins.off]
    """
    assert check(config) == (
        "midspan.toml:2:1: error: servers.dev-files.command: cannot start 'no-such-program': not found; install it or "
        "give its full path\n"
        "midspan.toml:4:10: warning: plugin 'policy' as 'dev' (midspan-policy 0.1.0): deny[1] ('rm') never decides: "
        "deny[0] ('rm') matches all of it before; remove one of the two\n"
        "midspan.toml:7:21: warning: plugins.dev.servers[1]: 'lab-*' matches no server of the config; the servers are "
        "dev-files\n"
        "midspan.toml:10:10: error: plugins.gone: no installed plugin has this id; `midspan plugins install "
        "midspan-gone` if there is such a package (stops dev-files)\n"
        "midspan.toml:13:10: warning: plugins.off: does not say whether it is enabled, so it is off; write `enabled = "
        "true` or `enabled = false`\n"
        "Found 2 errors and 3 warnings.\n"
    )


def test_a_config_that_cannot_be_read_is_told_whole(check: Check) -> None:
    said = check("[plugins.secrets]\nenabled = true\nmode = 'of'\ntimeout = 3\n[servers.a]\ncomand = 'sh'")
    lines = said.splitlines()
    assert [line.split(": ")[:3] for line in lines[:-1]] == [
        ["midspan.toml:3:1", "error", "plugins.secrets.mode"],
        ["midspan.toml:4:1", "error", "plugins.secrets.timeout"],
        ["midspan.toml:6:1", "error", "servers.a.comand"],
    ]
    assert lines[-1] == "Found 3 errors; the rest is checked when this can be read."


def test_the_json_has_every_place(check: Check) -> None:
    told = json.loads(check("[plugins.gone]\nenabled = true\n[servers.a]\ncommand = 'sh'", "--json"))
    assert told == {
        "problems": [
            {
                "severity": "error",
                "message": "plugins.gone: no installed plugin has this id; `midspan plugins install midspan-gone` if "
                "there is such a package",
                "file": "midspan.toml",
                "line": 1,
                "column": 10,
                "key": "plugins.gone",
                "servers": ["a"],
            }
        ],
        "plugins": 0,
        "interceptors": 0,
        "servers": [],
    }


def test_nothing_of_a_check_is_started(check: Check, tmp_path: Path) -> None:
    config = f"""
        [servers.a]
        command = "touch"
        args = ["{tmp_path / "started"}"]
        [plugins.audit]
        enabled = true
        config = {{ path = "{tmp_path / "audit.jsonl"}" }}
    """
    assert check(config, code=0).startswith("All is well: 1 plugin with 0 interceptors in front of 1 server.")
    assert [file.name for file in tmp_path.iterdir()] == ["midspan.toml"]
