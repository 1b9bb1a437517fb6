"""What `midspan plugins install` takes, and what it refuses before anything is run."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from midspan.cli._group import invoke

Install = Callable[..., Path]
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Say:
    monkeypatch.chdir(tmp_path)

    def say(*arguments: str) -> tuple[int, str, str]:
        code = invoke(["plugins", "install", "--dry-run", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return say


@pytest.fixture
def specs(say: Say) -> Callable[..., list[str]]:
    def specs(*arguments: str) -> list[str]:
        code, out, err = say(*arguments)
        assert (code, err) == (0, "")
        (line,) = out.splitlines()
        words = shlex.split(line)
        return words[next(place for place, word in enumerate(words) if word.endswith("constraints.txt")) + 1 :]

    return specs


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    for name in ("project", "old"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / "pyproject.toml").touch()
    (tmp_path / "old" / "setup.py").touch()
    (tmp_path / "plain").mkdir()
    (tmp_path / "midspan_x-1.0-py3-none-any.whl").touch()
    (tmp_path / "midspan_sdk-9.0-py3-none-any.whl").touch()


@pytest.mark.parametrize(
    "spec",
    [
        "midspan-pii",
        "midspan-pii[models]>=0.2,<1; python_version >= '3.11'",
        "midspan-pii @ git+https://git.example/pii@v1",
        "git+https://git.example/pii@v1",
        "https://files.example/midspan_x-1.0-py3-none-any.whl",
        "git+ssh://git@git.example/pii",
    ],
)
def test_a_requirement_or_a_url_is_passed_on_as_it_is(spec: str, specs: Callable[..., list[str]]) -> None:
    assert specs(spec) == [spec]


def test_a_local_path_becomes_absolute(specs: Callable[..., list[str]], tmp_path: Path) -> None:
    wheel = "midspan_x-1.0-py3-none-any.whl"
    assert specs(wheel, "./project", "old/", "./project[more]") == [
        str(tmp_path / wheel),
        str(tmp_path / "project"),
        str(tmp_path / "old"),
        f"{tmp_path / 'project'}[more]",
    ]
    assert specs("-e", "project", "--editable", "old") == [
        *("--editable", str(tmp_path / "project")),
        *("--editable", str(tmp_path / "old")),
    ]


def test_credentials_are_not_printed(say: Say) -> None:
    _, out, _ = say("x @ git+https://t0ken@git.example/x", "https://me:s3cret@files.example/y.whl", "git+ssh://git@h/z")
    assert "t0ken" not in out
    assert "s3cret" not in out
    assert "git+https://***@git.example/x" in out
    assert "git+ssh://git@h/z" in out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--", "-r"], "'-r' is not a requirement: name a package, a path or a URL"),
        (
            ["--", "x", " --index-url=https://evil.example"],
            "'--index-url=https://evil.example' is not a requirement: name a package, a path or a URL",
        ),
        ([""], "'' is not a requirement: name a package, a path or a URL"),
        (["x", "y>>1"], "'y>>1' is not a requirement, such as 'midspan-pii>=0.2': Expected "),
        (["x --hash=sha256:0"], "'x --hash=sha256:0' is not a requirement, such as 'midspan-pii>=0.2': Expected "),
        (["./nowhere"], "'./nowhere' is neither a file nor a folder"),
        (["gone-1-py3-none-any.whl"], "'gone-1-py3-none-any.whl' is neither a file nor a folder"),
        (["./plain"], "'./plain' cannot be installed: it is a folder without a pyproject.toml"),
        (["-e", "plain"], "'plain' cannot be installed: it is a folder without a pyproject.toml"),
        (
            ["-e", "midspan_x-1.0-py3-none-any.whl"],
            "'midspan_x-1.0-py3-none-any.whl' cannot be installed editable: it is not a folder with a pyproject.toml",
        ),
        (["-e", "-r"], "'-r' is neither a file nor a folder"),
        (
            ["Midspan.SDK>=0.2"],
            "midspan-sdk is the host itself, not a plugin: upgrade it with the tool that installed it",
        ),
        (
            ["./midspan_sdk-9.0-py3-none-any.whl"],
            "midspan-sdk is the host itself, not a plugin: upgrade it with the tool that installed it",
        ),
        ([], "nothing to install: name a package, a path or a URL, or list what you need as `requires` in the config"),
    ],
)
def test_what_cannot_be_installed_is_refused_in_one_line(arguments: list[str], line: str, say: Say) -> None:
    code, out, err = say(*arguments)
    assert (code, out) == (2, "")
    (said,) = err.splitlines()
    assert said.startswith(f"midspan: error: {line}")


# what the config requires


def config(folder: Path, text: str) -> str:
    file = folder / "guards.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_without_a_spec_what_the_config_requires_and_is_not_there_is_installed(
    specs: Callable[..., list[str]], fake_distribution: Install, tmp_path: Path
) -> None:
    fake_distribution("midspan-acme-pii", version="0.2")
    file = config(tmp_path, 'requires = ["midspan-acme-pii>=0.2", "midspan-acme-pii>1", "midspan-acme-b"]\n')
    assert specs("--config", file) == ["midspan-acme-pii>1", "midspan-acme-b"]
    assert specs("--config", file, "midspan-acme-c") == ["midspan-acme-c"]
    assert specs("--config", file, "--upgrade")[-3:] == [
        "midspan-acme-pii>=0.2",
        "midspan-acme-pii>1",
        "midspan-acme-b",
    ]


def test_what_is_there_already_is_said_so(say: Say, fake_distribution: Install, tmp_path: Path) -> None:
    fake_distribution("midspan-acme-pii", version="0.2")
    file = config(tmp_path, 'requires = ["midspan-acme-pii"]\n')
    assert say("--config", file) == (0, "everything that the config requires is installed\n", "")


@pytest.mark.parametrize("value", ['"midspan-pii"', "[1]"])
def test_requires_that_is_no_list_of_texts_is_refused_with_its_place(value: str, say: Say, tmp_path: Path) -> None:
    file = config(tmp_path, f"requires = {value}\n")
    code, out, err = say("--config", file)
    assert (code, out) == (2, "")
    assert (
        err == f'midspan: error: {file}:1:1: requires: must be a list of requirements, such as ["midspan-pii>=0.2"]\n'
    )


def test_an_option_in_requires_reaches_no_installer(say: Say, tmp_path: Path) -> None:
    file = config(tmp_path, 'requires = ["--index-url=https://evil.example"]\n')
    code, out, err = say("--config", file)
    assert (code, out) == (2, "")
    assert "is not a requirement" in err
