"""Which tool installs, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from midspan.errors import OperatorError

from .environments import Place, place

Install = Callable[..., Path]
PIP = ["/python", "-P", "-m", "pip", "install", "--constraint", "TEMP/constraints.txt"]
UV_PIP = ["BIN/uv", "pip", "install", "--python", "/python"]
PINS = ["--constraints", "TEMP/constraints.txt"]


@pytest.fixture(autouse=True)
def no_constraints_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    monkeypatch.delenv("UV_CONSTRAINT", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "Midspan_Acme"\n', encoding="utf-8")
    return folder


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(OperatorError) as caught:
        make()
    return caught.value.message


# pip and uv


def test_pip_installs_where_it_is(tmp_path: Path, project: Path) -> None:
    here = place(tmp_path)
    assert here.commands("midspan-pii>=1", editable=[str(project)]) == [
        [*PIP, "midspan-pii>=1", "--editable", "HERE/a project"]
    ]
    assert here.commands("midspan-pii", upgrade=True) == [[*PIP, "--upgrade", "midspan-pii"]]


def test_uv_installs_where_pip_is_not_and_upgrades_only_what_is_named(tmp_path: Path, project: Path) -> None:
    here = place(tmp_path, has_pip=False)
    assert here.commands("midspan-pii>=1") == [[*UV_PIP, *PINS, "midspan-pii>=1"]]
    upgrades = ["--upgrade-package", "midspan-pii", "--upgrade-package", "midspan-acme"]
    assert here.commands("midspan-pii", editable=[str(project)], upgrade=True) == [
        [*UV_PIP, *PINS, *upgrades, "midspan-pii", "--editable", "HERE/a project"]
    ]


def test_with_neither_pip_nor_uv_nothing_is_installed(tmp_path: Path) -> None:
    here = place(tmp_path, has_pip=False, programs=())
    assert refusal(lambda: here.commands("midspan-pii")) == (
        f"the environment {tmp_path / 'venvs' / 'midspan'} has no pip, and uv is not on PATH: "
        "run `/python -m ensurepip`, or install uv"
    )


def test_a_python_that_the_system_manages_is_left_alone(tmp_path: Path) -> None:
    here = place(tmp_path, externally_managed=True)
    assert refusal(lambda: here.commands("midspan-pii")) == (
        "nothing can be installed here: the system manages this Python (PEP 668). Install midspan with `uv tool "
        "install midspan`, `pipx install midspan`, or into a virtual environment, and run this command there"
    )


def test_a_program_in_the_working_directory_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = place(tmp_path, has_pip=False, programs=())
    here = Place(folder=here.folder, environment=replace(here.environment, search=None))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    (tmp_path / "uv").touch(mode=0o755)
    assert "uv is not on PATH" in refusal(lambda: here.commands("midspan-pii"))


# pipx


def pipx(*words: str) -> list[str]:
    variables = ["PIPX_HOME=HERE", "PIP_CONSTRAINT=TEMP/constraints.txt", "UV_CONSTRAINT=TEMP/constraints.txt"]
    return [*variables, "BIN/pipx", "inject", *words]


def test_pipx_injects_and_records(tmp_path: Path, project: Path) -> None:
    here = place(tmp_path, injected=[])
    assert here.commands("midspan-pii>=1", "midspan-b", editable=[str(project)]) == [
        pipx("midspan", "midspan-pii>=1", "midspan-b"),
        pipx("--editable", "midspan", "HERE/a project"),
    ]


def test_pipx_is_forced_only_where_it_would_leave_alone_what_it_injected_before(
    tmp_path: Path, project: Path, fake_distribution: Install
) -> None:
    fake_distribution("midspan-acme", version="1.0")
    here = place(tmp_path, injected=["midspan_acme"])
    assert here.commands("midspan-acme>=1") == [pipx("midspan", "midspan-acme>=1")]
    assert here.commands("midspan-acme>=2", "midspan-b") == [
        pipx("midspan", "midspan-b"),
        pipx("--force", "midspan", "midspan-acme>=2"),
    ]
    assert here.commands("midspan-acme", upgrade=True) == [pipx("--force", "midspan", "midspan-acme")]
    assert here.commands(editable=[str(project)]) == [pipx("--editable", "--force", "midspan", "HERE/a project")]


def test_constraints_of_the_operator_stay_beside_those_of_midspan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CONSTRAINT", "/own.txt")
    (command,) = place(tmp_path, injected=[]).commands("midspan-pii")
    assert "UV_CONSTRAINT=/own.txt TEMP/constraints.txt" in command


def test_an_environment_of_pipx_without_pipx_is_left_alone(tmp_path: Path) -> None:
    here = place(tmp_path, injected=[], programs=["uv"])
    assert refusal(lambda: here.commands("midspan-pii")) == (
        "midspan was installed with pipx, which is not on PATH: put it there, and run this command again"
    )


def test_a_record_of_pipx_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    here = place(tmp_path, injected=[])
    file = here.environment.prefix / "pipx_metadata.json"
    file.write_text("{}")
    assert refusal(lambda: here.commands("x")) == (f"{file}: this record of pipx cannot be read: 'injected_packages'")
