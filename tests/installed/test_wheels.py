"""The product as people get it: built distributions, installed into a fresh environment, beside a stranger's plugin."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from .building import find_uv, must, own_environment

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLUGINS = sorted(file.parent for file in ROOT.glob("plugins/*/pyproject.toml"))
PROJECTS = [ROOT / "core", ROOT / "hostapp", *PLUGINS]
STRANGER = "midspan-acme-shout"
ENABLED = '[plugins.acme-shout]\nenabled = true\nconfig = { word = "bluebird" }\n'


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A built wheel: its metadata and its files."""

    file: Path
    metadata: Metadata
    files: frozenset[str]

    def text(self, name: str) -> str:
        """Return a file of its `*.dist-info` folder."""
        stem = "-".join(self.file.name.split("-")[:2])
        with zipfile.ZipFile(self.file) as archive:
            return archive.read(f"{stem}.dist-info/{name}").decode()


@dataclass(frozen=True, kw_only=True)
class Product:
    """A fresh environment with all wheels in it."""

    wheels: Mapping[str, Wheel]
    bin: Path
    project_names: frozenset[str]

    def run(self, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end."""
        return subprocess.run(
            [str(self.bin / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**own_environment(), **environment},
        )

    def call_through(self, gateway: Sequence[str], texts: Sequence[str], view: Path) -> tuple[list[Any], str]:
        """Call `echo` of the MCP SDK's server with the MCP SDK's client, through a gateway.

        Returns:
            The results, and what was written to stderr.
        """
        view.touch()
        python = str(self.bin / "python")
        command = [str(self.bin / "midspan"), *gateway, "--", python, str(HERE / "echo_server.py"), str(view)]
        done = self.run("python", str(HERE / "echo_client.py"), json.dumps(texts), *command)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def _name(project: Path) -> str:
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]


def _read(file: Path) -> Wheel:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        return Wheel(file=file, metadata=Metadata.from_email(archive.read(metadata)), files=frozenset(names))


@pytest.fixture(scope="module")
def product(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Product:
    """Install all wheels into a fresh environment."""
    folder = tmp_path_factory.mktemp("product")
    uv, environment = find_uv(), folder / "environment"
    wheels = {wheel.metadata.name: wheel for wheel in map(_read, sorted(built.glob("*.whl")))}
    must(uv, "venv", "--quiet", "--python", sys.executable, str(environment))
    python, constraints = str(environment / "bin" / "python"), str(ROOT / "constraints.txt")
    files = [str(wheel.file) for wheel in wheels.values()]
    must(uv, "pip", "install", "--quiet", "--python", python, "--constraint", constraints, *files)
    return Product(wheels=wheels, bin=environment / "bin", project_names=frozenset(map(_name, PROJECTS)))


# the wheels


def test_every_distribution_of_the_workspace_is_built(product: Product) -> None:
    assert product.wheels.keys() == product.project_names | {STRANGER}
    assert {"midspan", "midspan-sdk", "midspan-audit", "midspan-policy", "midspan-secrets"} <= product.project_names


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_wheel_holds_its_sources_their_types_and_the_licence(project: Path, product: Product) -> None:
    wheel = product.wheels[_name(project)]
    source = project / "src"
    (package,) = (folder.name for folder in source.iterdir() if folder.is_dir())
    sources = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in wheel.files if ".dist-info/" not in name} == sources
    assert f"{package}/py.typed" in sources
    assert wheel.metadata.license_expression == "Apache-2.0"
    assert wheel.metadata.license_files == ["LICENSE"]
    assert wheel.text("licenses/LICENSE") == (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_a_wheel_says_what_it_is_and_for_whom(project: Path, product: Product) -> None:
    metadata = product.wheels[_name(project)].metadata
    assert metadata.summary
    assert metadata.description == (project / "README.md").read_text(encoding="utf-8")
    assert metadata.description_content_type == "text/markdown"
    assert str(metadata.requires_python) == ">=3.11"
    assert metadata.classifiers is not None
    assert "Typing :: Typed" in metadata.classifiers


def _requirements(wheel: Wheel) -> dict[str, Requirement]:
    return {requirement.name: requirement for requirement in wheel.metadata.requires_dist or ()}


def test_the_host_requires_the_sdk_with_mcp_and_the_three_first_party_plugins(product: Product) -> None:
    required = _requirements(product.wheels["midspan"])
    for name in ("midspan-audit", "midspan-policy", "midspan-sdk", "midspan-secrets"):
        assert required[name].marker is None
        assert required[name].specifier.contains("0.1.0")
    assert required["midspan-sdk"].extras == {"mcp"}


def test_the_sdk_requires_mcp_as_an_extra_only(product: Product) -> None:
    wheel = product.wheels["midspan-sdk"]
    assert wheel.metadata.provides_extra == ["mcp"]
    assert str(_requirements(wheel)["mcp"]) == 'mcp<3,>=2.3; extra == "mcp"'
    plain = {name for name, requirement in _requirements(wheel).items() if requirement.marker is None}
    assert plain == {"anyio", "importlib-metadata", "pluggy", "pydantic"}


@pytest.mark.parametrize("project", PLUGINS, ids=lambda project: project.name)
def test_a_plugin_requires_the_sdk_and_is_found_by_its_entry_point(project: Path, product: Product) -> None:
    wheel = product.wheels[_name(project)]
    required = _requirements(wheel)
    assert not {"midspan", "mcp"} & required.keys()
    assert required["midspan-sdk"].specifier.contains("0.1.0")
    plugin = project.name
    assert wheel.text("entry_points.txt").split() == ["[midspan.plugins]", plugin, "=", f"midspan_{plugin}"]


# the installed command


def test_the_command_tells_its_version(product: Product) -> None:
    done = product.run("midspan", "--version")
    assert (done.returncode, done.stdout) == (0, f"midspan {product.wheels['midspan'].metadata.version}\n")


def test_the_demo_runs_from_the_wheels(product: Product) -> None:
    done = product.run("midspan", "demo")
    assert done.returncode == 0, done.stderr
    assert "[REDACTED:github-token]" in done.stdout


# a stranger's plugin beside it


def test_a_strangers_plugin_is_listed_from_its_metadata_alone(product: Product) -> None:
    done = product.run("midspan", "plugins", "list", "--json", PYTHONVERBOSE="1")
    assert done.returncode == 0, done.stderr
    rows = {row["id"]: row for row in json.loads(done.stdout)}
    assert rows.keys() == {"acme-shout", *(project.name for project in PLUGINS)}
    assert rows["acme-shout"] == {
        "id": "acme-shout",
        "distribution": STRANGER,
        "version": "3.2",
        "state": "available",
        "reason": None,
        "entry_point": "midspan_acme_shout",
    }
    assert "import 'importlib_metadata' #" in done.stderr
    assert "midspan_acme_shout" not in done.stderr


def test_a_strangers_plugin_is_shown_with_what_it_adds_and_takes(product: Product) -> None:
    done = product.run("midspan", "plugins", "show", "acme-shout", PYTHONVERBOSE="1")
    assert done.returncode == 0, done.stderr
    assert "import 'midspan_acme_shout' #" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["acme-shout", STRANGER, "3.2", "available"]
    assert ["word", "text", "required", "a call whose arguments contain it is denied"] in [
        [*row[:3], " ".join(row[3:])] for row in rows
    ]


def test_a_strangers_plugin_is_shown_as_it_is_configured(product: Product, tmp_path: Path) -> None:
    config = tmp_path / "guards.toml"
    config.write_text(ENABLED, encoding="utf-8")
    done = product.run("midspan", "plugins", "show", "acme-shout", "--config", str(config))
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0][-1] == "enabled"
    kinds = {row[0]: row[1] for row in rows if row and row[0].startswith("acme-shout.")}
    assert kinds == {"acme-shout.no_such_word": "validator", "acme-shout.shout": "mutator"}


def test_a_strangers_plugin_conforms_by_the_installed_testing_kit(product: Product) -> None:
    check = (
        "import midspan_acme_shout; from midspan_sdk.testing import check_plugin;"
        "check_plugin(midspan_acme_shout, config={'word': 'bluebird'})"
    )
    done = product.run("python", "-W", "error", "-c", check)
    assert done.returncode == 0, done.stderr


def test_a_strangers_plugin_acts_when_the_config_enables_it(product: Product, tmp_path: Path) -> None:
    config, view = tmp_path / "guards.toml", tmp_path / "view.jsonl"
    config.write_text(ENABLED, encoding="utf-8")
    (answered, denied), _ = product.call_through(
        ["run", "--config", str(config)], ["good morning", "the bluebird flies"], view
    )
    assert not answered["isError"]
    assert answered["content"][0]["text"] == "GOOD MORNING"
    assert answered["structuredContent"] == {"result": "GOOD MORNING"}
    assert denied["isError"]
    assert "acme-shout.no_such_word" in denied["content"][0]["text"]
    assert "did not run" in denied["content"][0]["text"]
    # The server's own view: the allowed call came as it was sent, the denied one never came.
    assert view.read_text(encoding="utf-8").splitlines() == ['"good morning"']


def test_a_strangers_plugin_that_is_configured_but_not_enabled_does_nothing(product: Product, tmp_path: Path) -> None:
    config, view = tmp_path / "guards.toml", tmp_path / "view.jsonl"
    config.write_text(ENABLED.replace("enabled = true\n", ""), encoding="utf-8")
    (result,), stderr = product.call_through(["run", "--config", str(config)], ["the bluebird flies"], view)
    assert not result["isError"]
    assert result["content"][0]["text"] == "the bluebird flies"
    assert view.read_text(encoding="utf-8").splitlines() == ['"the bluebird flies"']
    assert "relay only" in stderr


def test_a_config_that_the_stranger_refuses_stops_the_start(product: Product, tmp_path: Path) -> None:
    config = tmp_path / "guards.toml"
    config.write_text(ENABLED.replace('"bluebird"', "7"), encoding="utf-8")
    done = product.run("midspan", "run", "--config", str(config), "--", "false")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert f"plugin 'acme-shout' ({STRANGER} 3.2): {config}:" in line
    assert "plugins.acme-shout.config.word: must be a text, in quotes" in line
