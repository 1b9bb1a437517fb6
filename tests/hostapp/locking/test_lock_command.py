"""`midspan plugins lock`: the file, and what `--diff` shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from midspan.cli._group import invoke
from midspan.config import ConfigSource
from midspan.errors import OperatorError
from midspan.locking import lock_path

from .conftest import CONFIG, GUARD, PACKAGE, Acme, forget


def lock(acme: Acme, *options: str, code: int = 0) -> None:
    assert invoke(["plugins", "lock", "--config", str(acme.config), *options]) == code
    forget()


def test_the_lock_is_beside_its_config_under_its_name(tmp_path: Path) -> None:
    assert lock_path(ConfigSource.of(tmp_path / "midspan.toml")) == tmp_path / "midspan.lock"
    assert lock_path(ConfigSource.of(tmp_path / "lab.toml")) == tmp_path / "lab.lock"
    assert lock_path(ConfigSource.of(tmp_path / "my.lock")) == tmp_path / "my.lock.lock"


def test_without_a_config_it_is_in_the_user_s_config_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert lock_path(ConfigSource()) == tmp_path / "midspan" / "midspan.lock"
    assert invoke(["plugins", "lock", "--plugin", "secrets"]) == 0
    assert set(json.loads((tmp_path / "midspan" / "midspan.lock").read_text())["plugins"]) == {"secrets"}


def test_it_is_said_what_was_locked(acme: Acme, capsys: pytest.CaptureFixture[str]) -> None:
    acme.lock_file.unlink()
    lock(acme)
    first = capsys.readouterr().out
    assert first.startswith(f"{acme.lock_file}: 1 plugin, ")
    assert first.endswith(" distributions, 4 interceptors\n")
    lock(acme)
    assert capsys.readouterr().out == f"{first.rstrip()} (unchanged)\n"


def test_the_same_environment_gives_the_same_bytes(acme: Acme) -> None:
    before = acme.lock_file.read_bytes()
    acme.lock_file.unlink()
    lock(acme)
    assert acme.lock_file.read_bytes() == before
    assert list(acme.lock_file.parent.glob(".midspan.lock*")) == []


def test_a_new_lock_is_for_all_to_read_and_one_that_is_there_keeps_its_mode_and_place(acme: Acme) -> None:
    acme.lock_file.unlink()
    lock(acme)
    assert acme.lock_file.stat().st_mode & 0o777 == 0o644
    versioned = acme.lock_file.with_name("versioned.json")
    acme.lock_file.rename(versioned)
    versioned.chmod(0o640)
    versioned.write_text("{}")
    acme.lock_file.symlink_to(versioned)
    lock(acme)
    assert acme.lock_file.is_symlink()
    assert versioned.stat().st_mode & 0o777 == 0o640
    assert json.loads(versioned.read_text())["version"] == 1


def test_a_read_only_lock_is_left_as_it_is(acme: Acme, capsys: pytest.CaptureFixture[str]) -> None:
    acme.lock_file.write_text("{}")
    acme.lock_file.chmod(0o444)
    lock(acme, code=2)
    assert capsys.readouterr().err == f"midspan: error: {acme.lock_file}: cannot be written: it is read-only\n"
    assert acme.lock_file.read_text() == "{}"


SETS = """
from pydantic import BaseModel
from midspan_sdk import hookimpl, validator

class Settings(BaseModel):
    words: set[str] = set("abcdefgh")

@validator(events=set(["a/b", "c/d", "e/f", "g/h"]), phase="request")
def check(payload): ...

@hookimpl
def midspan_config(): return Settings

@hookimpl
def midspan_interceptors(): return [check]
"""


def test_what_comes_from_sets_is_in_one_order(acme: Acme) -> None:
    acme.install("midspan-acme", version="2.0", guard=SETS)
    (acme.site / "midspan_acme-1.0.dist-info").rename(acme.site / "gone")
    command = [sys.executable, "-m", "midspan", "plugins", "lock", "--config", str(acme.config)]
    written = set[str]()
    for seed in "123":
        environment = {**os.environ, "PYTHONPATH": str(acme.site), "PYTHONHASHSEED": seed}
        subprocess.run(command, env=environment, cwd=acme.site.parent, check=True, capture_output=True, timeout=60)
        written.add(acme.lock_file.read_text())
    (text,) = written
    assert "configSchema" in text


def test_it_has_a_line_for_each_file_and_nothing_of_this_machine(acme: Acme) -> None:
    text = acme.lock_file.read_text()
    lines = [line.strip() for line in text.splitlines()]
    assert sum(line.startswith('"locked_acme/') and ': "sha256:' in line for line in lines) == 3
    for folder in (acme.site, Path(sys.prefix), Path.home(), Path.cwd()):
        assert str(folder) not in text
    assert json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n" == text


def test_it_says_what_runs_in_which_order(acme: Acme) -> None:
    data = json.loads(acme.lock_file.read_text())
    assert data["plugins"] == {"acme": {"distribution": "midspan-acme", "version": "1.0", "entry_point": PACKAGE}}
    assert set(data["distributions"]["midspan-acme"]["files"]) == {
        ".dist-info/METADATA",
        ".dist-info/entry_points.txt",
        "locked_acme/__init__.py",
        "locked_acme/_words.py",
        "locked_acme/py.typed",
    }
    assert "midspan/locking/_lock.py" in data["distributions"]["midspan"]["files"]
    assert "midspan_sdk/__init__.py" in data["distributions"]["midspan-sdk"]["files"]
    (chain,) = data["chains"].values()
    assert [entry["name"] for entry in chain["entries"]] == ["acme.check", "acme.first", "acme.second", "acme.tap"]
    assert chain["mutators"] == {"request": ["acme.first", "acme.second"], "response": ["acme.first"]}
    assert chain["observers"] == [
        {
            "name": "acme.log",
            "durable": False,
            "plugin": "acme",
            "instance": "acme",
            "distribution": "midspan-acme==1.0",
        }
    ]
    first = chain["entries"][1]
    assert first["descriptor"]["priorityHint"] == 10
    assert (first["mode"], first["fail_open"], first["timeout_ms"]) == ("active", False, 250)
    assert first["priority"] == {"request": 10, "response": 10}


def test_no_differences_are_one_line_and_0(acme: Acme, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    lock(acme, "--diff")
    assert capsys.readouterr().out == f"{acme.lock_file}: no differences\n"


def test_the_diff_shows_files_and_what_a_release_makes_of_the_guard(
    acme: Acme, capsys: pytest.CaptureFixture[str]
) -> None:
    acme.uninstall()
    acme.install(
        version="1.0.1",
        guard=GUARD.replace('phase="request")\ndef check', 'phase="request", fail_open=True)\ndef check'),
    )
    before = acme.lock_file.read_bytes()
    capsys.readouterr()
    lock(acme, "--diff", code=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "midspan-acme"
    assert lines[1:4] == ["  midspan-acme 1.0.1: version", "  - 1.0", "  + 1.0.1"]
    place = lines.index("  acme.check (midspan-acme 1.0.1): fail_open")
    assert lines[place + 1 : place + 3] == ["  - false", "  + true"]
    assert not any("\x1b" in line for line in lines)
    assert acme.lock_file.read_bytes() == before


def test_the_diff_shows_what_it_can_when_the_chain_cannot_be_built(
    acme: Acme, capsys: pytest.CaptureFixture[str]
) -> None:
    acme.file("__init__.py").write_text("raise RuntimeError('broken')\n")
    capsys.readouterr()
    lock(acme, "--diff", code=2)
    captured = capsys.readouterr()
    assert "  midspan-acme 1.0: locked_acme/__init__.py\n" in captured.out
    assert "cannot be imported: RuntimeError: broken" in captured.err


def test_the_diff_tells_of_a_chain_that_is_gone(acme: Acme, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(acme.lock_file.read_text())
    data["chains"]["files"] = data["chains"]["*"]
    acme.lock_file.write_text(json.dumps(data))
    capsys.readouterr()
    lock(acme, "--diff", code=2)
    assert capsys.readouterr().out.splitlines() == [
        "chains",
        "  the chain of server 'files'",
        "  - one",
        "  + no such server",
    ]


def test_the_diff_without_a_lock_says_how_to_write_one(acme: Acme, capsys: pytest.CaptureFixture[str]) -> None:
    acme.lock_file.unlink()
    lock(acme, "--diff", code=2)
    assert "there is no lock; write it with `midspan plugins lock`" in capsys.readouterr().err
    assert not acme.lock_file.exists()


def test_a_lock_that_cannot_be_written_leaves_the_old_one(acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    before = acme.lock_file.read_bytes()
    acme.config.write_text(f"{CONFIG}mode = 'audit'\n")

    def fails(source: str, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", fails)
    lock(acme, code=OperatorError.exit_code)
    assert acme.lock_file.read_bytes() == before
    assert list(acme.lock_file.parent.glob(".midspan.lock*")) == []


def test_what_cannot_be_built_is_not_locked(acme: Acme) -> None:
    before = acme.lock_file.read_bytes()
    acme.config.write_text(f"{CONFIG}[plugins.acme.config]\nx = 1\n")
    lock(acme, code=2)
    assert acme.lock_file.read_bytes() == before
