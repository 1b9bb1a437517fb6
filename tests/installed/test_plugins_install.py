"""`midspan plugins install` in real environments: of pip, of uv, of `uv tool` and of pipx."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .building import find_uv, must, own_environment

pytestmark = pytest.mark.pypi

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parents[1] / "constraints.txt"
VERSION, LATER = "0.1.0", "0.1.99"
PIPX = Path(sys.executable).with_name("pipx")


@dataclass(frozen=True, kw_only=True)
class Host:
    """An environment with midspan in it.

    Attributes:
        folder: all that belongs to it.
        prefix: the environment.
        links: where the installers find our distributions.
    """

    folder: Path
    prefix: Path
    links: Path

    def run(self, program: str, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, in an empty folder."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        return subprocess.run(
            [self.prefix / "bin" / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            cwd=work,
            env={**own_environment(), **self.variables, **variables},
        )

    def install(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run `midspan plugins install`."""
        return self.run("midspan", "plugins", "install", *arguments)

    def plugins(self) -> dict[str, Any]:
        """Return what `midspan plugins list` tells, by id."""
        done = self.run("midspan", "plugins", "list", "--json")
        assert done.returncode == 0, done.stderr
        return {row["id"]: row for row in json.loads(done.stdout)}

    def versions(self) -> dict[str, str]:
        """Return the versions of midspan and midspan-sdk."""
        program = (
            "import json; from importlib.metadata import version as v;"
            "print(json.dumps({name: v(name) for name in ('midspan', 'midspan-sdk')}))"
        )
        return json.loads(self.run("python", "-c", program).stdout)

    @property
    def variables(self) -> dict[str, str]:
        """Where installers look, and where `uv` and `pipx` are found."""
        path = os.pathsep.join([str(Path(find_uv()).parent), str(PIPX.parent), os.environ["PATH"]])
        return {"PATH": path, "UV_FIND_LINKS": str(self.links), "PIP_FIND_LINKS": str(self.links)}


Make = Callable[[Path], Host]


def venv(folder: Path, *options: str) -> Host:
    host = Host(folder=folder, prefix=folder / "venv", links=folder / "links")
    uv, python = find_uv(), host.prefix / "bin" / "python"
    must(uv, "venv", "--quiet", "--python", sys.executable, *options, host.prefix)
    must(uv, "pip", "install", "--python", python, "--constraint", CONSTRAINTS, "midspan", **host.variables)
    return host


def with_pip(folder: Path) -> Host:
    return venv(folder, "--seed")


def of_uv_tool(folder: Path) -> Host:
    host = Host(folder=folder, prefix=folder / "tools" / "midspan", links=folder / "links")
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    constraints = folder / "constraints.txt"
    constraints.write_text("anyio<99\n")
    pins = ("--constraints", constraints, "--constraints", CONSTRAINTS)
    options = ("--python", sys.executable, "--find-links", host.links, "--prerelease", "allow", *pins)
    must(find_uv(), "tool", "install", *options, "--with", "rich>=13", "midspan>=0.1", **host.variables, **places)
    return host


def of_pipx(folder: Path) -> Host:
    host = Host(folder=folder, prefix=folder / "pipx" / "venvs" / "midspan", links=folder / "links")
    variables = {**host.variables, **pipx_variables(folder), "UV_CONSTRAINT": str(CONSTRAINTS)}
    must(PIPX, "install", "--backend", "uv", "--python", sys.executable, "midspan>=0.1", **variables)
    return host


def pipx_variables(folder: Path) -> dict[str, str]:
    return {
        "PIPX_HOME": str(folder / "pipx"),
        "PIPX_BIN_DIR": str(folder / "bin"),
        "PIPX_MAN_DIR": str(folder / "man"),
        "PIPX_COMPLETION_DIR": str(folder / "completions"),
    }


MAKERS: dict[str, Make] = {"pip": with_pip, "uv": venv, "uv tool": of_uv_tool, "pipx": of_pipx}


def write_wheel(folder: Path, name: str, version: str, requires: Sequence[str] = ()) -> None:
    """Write a wheel of a plugin, whose id is the end of its name."""
    stem, module = f"{name.replace('-', '_')}-{version}", name.replace("-", "_")
    files = {
        f"{module}.py": "",
        f"{stem}.dist-info/METADATA": "\n".join(
            [
                "Metadata-Version: 2.1",
                f"Name: {name}",
                f"Version: {version}",
                *(f"Requires-Dist: {r}" for r in requires),
            ]
        ),
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/entry_points.txt": f"[midspan.plugins]\n{name.rpartition('-')[2]} = {module}\n",
    }
    record = f"{stem}.dist-info/RECORD"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for file, text in {**files, record: "".join(f"{file},,\n" for file in [*files, record])}.items():
            archive.writestr(file, text)


def write_later(wheel: Path, folder: Path) -> None:
    """Write a wheel again, as a later version."""
    name = wheel.name.partition("-")[0]
    old, new = f"{name}-{VERSION}", f"{name}-{LATER}"
    with (
        zipfile.ZipFile(wheel) as archive,
        zipfile.ZipFile(folder / wheel.name.replace(old, new), "w") as later,
    ):
        for file in archive.namelist():
            content = archive.read(file)
            if file == f"{old}.dist-info/METADATA":
                content = content.replace(f"\nVersion: {VERSION}\n".encode(), f"\nVersion: {LATER}\n".encode(), 1)
            if file == f"{old}.dist-info/RECORD":
                content = re.sub(rb"(?m),sha256=.*$", b",,", content.replace(old.encode(), new.encode()))
            later.writestr(file.replace(f"{old}.dist-info", f"{new}.dist-info"), content)


@pytest.fixture(scope="module")
def make(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Host]:
    """Return what makes an environment; after that, later versions of midspan and midspan-sdk come out."""

    def make(kind: str) -> Host:
        folder = tmp_path_factory.mktemp("host")
        shutil.copytree(built, folder / "links", ignore=shutil.ignore_patterns("*.tar.gz"))
        host = MAKERS[kind](folder)
        for name in ("midspan", "midspan_sdk"):
            write_later(built / f"{name}-{VERSION}-py3-none-any.whl", host.links)
        write_wheel(host.links, "midspan-acme-asked", "1.0", ["midspan-sdk>=0.1,<0.2"])
        write_wheel(host.links, "midspan-acme-next", "1.0", [f"midspan-sdk>={LATER}"])
        project = shutil.copytree(HERE / "acme_plugin", folder / "project")
        (project / "src" / "midspan_acme_shout").rename(project / "src" / "midspan_acme_local")
        file = project / "pyproject.toml"
        file.write_text(file.read_text().replace("acme-shout", "acme-local").replace("acme_shout", "acme_local"))
        return host

    return make


@pytest.fixture(scope="module", params=MAKERS)
def host(request: pytest.FixtureRequest, make: Callable[[str], Host]) -> Host:
    """Return an environment that the tests share, each of which installs a plugin of its own."""
    return make(request.param)


HELD = {"midspan": VERSION, "midspan-sdk": VERSION}
ACME = {"distribution": "midspan-acme-shout", "version": "3.2", "state": "available"}


def test_a_plugin_is_installed_and_listed_and_not_enabled_and_the_host_keeps_its_version(host: Host) -> None:
    done = host.install("midspan-acme-shout>=3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "acme-shout  midspan-acme-shout 3.2",
        "nothing is enabled by installing: midspan plugins enable acme-shout",
    ]
    assert host.plugins()["acme-shout"].items() >= ACME.items()
    assert host.versions() == HELD


def test_a_project_folder_is_installed_editable(host: Host) -> None:
    done = host.install("-e", "../project")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("acme-local  midspan-acme-local 3.2\n")
    assert host.plugins()["acme-local"]["state"] == "available"
    where = host.run("python", "-c", "import midspan_acme_local; print(midspan_acme_local.__file__)").stdout
    assert Path(where.strip()).is_relative_to(host.folder / "project")
    assert host.versions() == HELD


def test_a_plugin_that_needs_a_later_sdk_is_not_installed_and_the_sdk_stays(host: Host) -> None:
    done = host.install("midspan-acme-next")
    assert (done.returncode, done.stdout) == (2, "")
    *said, line = done.stderr.splitlines()
    assert re.fullmatch(
        r"midspan: error: `.*(install|inject)` failed with exit code 1; what it said stands above", line
    )
    assert said
    assert "next" not in host.plugins()
    assert host.versions() == HELD


def test_what_the_config_requires_is_installed_once(make: Callable[[str], Host], tmp_path: Path) -> None:
    host = make("uv")
    config = tmp_path / "midspan.toml"
    config.write_text(
        """requires = ["midspan-acme-asked>=1", "midspan-policy", "midspan-nowhere; python_version < '3'"]\n"""
    )
    dry = host.install("--config", config, "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert dry.stdout.endswith(" 'midspan-acme-asked>=1'\n")
    assert "asked" not in host.plugins()
    first, second = host.install("--config", config), host.install("--config", config)
    assert (first.returncode, first.stdout.splitlines()[0]) == (0, "asked  midspan-acme-asked 1.0")
    assert (second.returncode, second.stdout) == (0, "everything that the config requires is installed\n")


def test_plugins_stay_when_uv_tool_upgrades_the_host(make: Callable[[str], Host]) -> None:
    host = make("uv tool")
    receipt = host.prefix / "uv-receipt.toml"
    before = tomllib.loads(receipt.read_text())["tool"]
    for arguments in (["midspan-acme-shout>=3", "-e", str(host.folder / "project")], ["midspan-acme-shout==3.2"]):
        done = host.install(*arguments)
        assert done.returncode == 0, done.stderr
    after = tomllib.loads(receipt.read_text())["tool"]
    added = [
        {"name": "midspan-acme-local", "editable": str(host.folder / "project")},
        {"name": "midspan-acme-shout", "specifier": "==3.2"},
    ]
    key = "requirements"
    assert sorted(after[key], key=str) == sorted([*before[key], *added], key=str)
    # Everything else is as it was: above all, no pin that holds midspan back from now on.
    assert {name: value for name, value in after.items() if name != key} == {
        name: value for name, value in before.items() if name != key
    }
    assert before["options"]["prerelease"] == "allow"
    assert {"name": "anyio", "specifier": "<99"} in before["constraints"]
    places = {"UV_TOOL_DIR": str(host.folder / "tools"), "UV_TOOL_BIN_DIR": str(host.folder / "bin")}
    must(find_uv(), "tool", "upgrade", "midspan", **host.variables, **places)
    assert host.versions() == {"midspan": LATER, "midspan-sdk": LATER}
    assert host.plugins().keys() >= {"acme-shout", "acme-local"}


def test_plugins_stay_when_pipx_installs_the_host_again(make: Callable[[str], Host]) -> None:
    host = make("pipx")
    done = host.install("midspan-acme-shout")
    assert done.returncode == 0, done.stderr
    # Again, in another way than it is recorded: pipx leaves it alone unless it is forced.
    done = host.install("--upgrade", str(host.links / "midspan_acme_shout-3.2-py3-none-any.whl"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no plugin is new, and none has another version\n"
    pins = {"UV_CONSTRAINT": str(CONSTRAINTS)}
    must(PIPX, "reinstall", "midspan", **host.variables, **pipx_variables(host.folder), **pins)
    assert host.versions() == {"midspan": LATER, "midspan-sdk": LATER}
    assert "acme-shout" in host.plugins()
