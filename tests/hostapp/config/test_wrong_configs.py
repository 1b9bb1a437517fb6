"""What an operator is told of a wrong config: one line, with the file, the place, the cause, and what to do.

The configs and their lines are in `wrong_configs.toml`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from midspan.cli._group import invoke

Install = Callable[..., Path]

BARE = """
from midspan_sdk import hookimpl

@hookimpl
def midspan_interceptors(config, instance):
    return []
"""
NAMED = """
from midspan_sdk import hookimpl, validator

@validator(events=["*"], phase="request", name="acme")
def it():
    return None

@hookimpl
def midspan_interceptors(config, instance):
    return [it]
"""
GUARD = """
from pydantic import BaseModel, ConfigDict, Field, field_validator
from midspan_sdk import hookimpl

class Rule(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    depth: int = Field(default=1, ge=1)

class Settings(BaseModel):
    word: str = ""
    limit: int | list[str] | None = Field(default=None)
    rule: Rule | None = None
    boom: str = ""

    @field_validator("word")
    @classmethod
    def _known(cls, word):
        if word:
            raise ValueError(f"{word!r} is not known, {word.upper()} neither")
        return word

    @field_validator("boom")
    @classmethod
    def _explodes(cls, boom):
        if boom:
            raise RuntimeError(f"cannot connect with {boom}")
        return boom

@hookimpl
def midspan_config():
    return Settings
"""
SECRET = "hunter2-s3cr3t"


class Case(NamedTuple):
    """A wrong config, and the line that it gets."""

    name: str
    text: str
    line: str
    others: Mapping[str, str] = {}


CASES = [
    Case(**case) for case in tomllib.loads(Path(__file__).with_name("wrong_configs.toml").read_text("utf-8"))["case"]
]


@pytest.fixture
def plugins(fake_distribution: Install) -> None:
    """Install a plugin without a config, one whose author gave a name, and one with a config of its own."""
    fake_distribution("midspan-bare", plugins={"bare": "fake_bare"}, modules={"fake_bare": BARE})
    fake_distribution("midspan-named", plugins={"named": "fake_named"}, modules={"fake_named": NAMED})
    fake_distribution("midspan-guard", plugins={"guard": "fake_wrong_guard"}, modules={"fake_wrong_guard": GUARD})


def written(case: Case, folder: Path) -> Path:
    for name, text in case.others.items():
        (folder / name).write_text(text, "utf-8")
    file = folder / "midspan.toml"
    file.write_text(case.text, "utf-8")
    return file


def expected(line: str, folder: Path) -> str:
    off = r"(to start without it: --no-plugin \1, or `enabled = false` in [plugins.\1])"
    return f"midspan: error: {re.sub(r'<off ([a-z0-9-]+)>', off, line)}\n".replace("TMP", str(folder))


def test_there_are_enough_cases_and_each_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_wrong_config_is_one_line_that_says_what_where_and_what_to_do(
    case: Case, plugins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    file = written(case, tmp_path)
    # An address that is nobody's: what should be refused and is not does not go on serving.
    assert invoke(["serve", "--config", str(file), "--host", "192.0.2.1", "--insecure"]) == 2
    captured = capsys.readouterr()
    assert captured.err == expected(case.line, tmp_path)
    assert captured.out == ""
    assert SECRET.lower() not in captured.err.lower()
    for words in ("Input should", "valid string", "valid boolean", "_type", "pydantic", "dictionary", "None"):
        assert words not in captured.err


def named(name: str) -> Case:
    (case,) = (case for case in CASES if case.name == name)
    return case


@pytest.mark.parametrize("name", ["unclosed", "two", "var-unset", "inc-missing", "var-server"])
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["run", "--server", "x"]])
def test_the_same_line_comes_from_the_command_as_a_process(name: str, command: list[str], tmp_path: Path) -> None:
    case = named(name)
    done = subprocess.run(
        [sys.executable, "-m", "midspan", *command, "--config", str(written(case, tmp_path))],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == expected(case.line, tmp_path)


# The file itself


@pytest.mark.parametrize(
    ("arguments", "variable", "line"),
    [
        (["--config", "TMP/none.toml"], None, "TMP/none.toml: no such file (named by --config)"),
        ([], "TMP/none.toml", "TMP/none.toml: no such file (named by MIDSPAN_CONFIG)"),
        ([], "conf/midspan.toml", "MIDSPAN_CONFIG must be an absolute path, not 'conf/midspan.toml'"),
        ([], "TMP", "TMP: cannot be read: Is a directory"),
        (
            ["--config", "TMP"],
            None,
            "Invalid value for '--config': File 'TMP' is a directory. (see `midspan serve --help`)",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_who_named_it(
    arguments: list[str],
    variable: str | None,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if variable is not None:
        monkeypatch.setenv("MIDSPAN_CONFIG", variable.replace("TMP", str(tmp_path)))
    assert invoke(["serve", *(each.replace("TMP", str(tmp_path)) for each in arguments)]) == 2
    assert capsys.readouterr().err == expected(line, tmp_path)


def test_a_file_that_is_not_utf8_is_told_with_the_place_of_what_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "midspan.toml"
    file.write_bytes("[servers.x]\ncommand = 'é".encode() + b"\xff'\n")
    assert invoke(["serve", "--config", str(file)]) == 2
    assert capsys.readouterr().err == expected("TMP/midspan.toml:2:13: is not UTF-8 text; save it as UTF-8", tmp_path)
