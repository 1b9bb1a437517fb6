"""Building distributions, and running what installs them, outside of this project's own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def own_environment() -> dict[str, str]:
    """Return this process's variables without those that name its Python environment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def find_uv() -> str:
    """Return where uv is."""
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        pytest.fail("uv is missing, which builds and installs the wheels: python3 -m pip install uv")
    return uv


def must(*command: str | Path, **environment: str) -> None:
    """Run a command that has to succeed."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env={**own_environment(), **environment}
    )
    if done.returncode != 0:
        pytest.fail(f"`{' '.join(map(str, command))}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def build(project: Path, out: Path, *options: str) -> None:
    """Build a project, or a workspace.

    The build backend is that of this environment, so that a build needs no network.
    """
    command = (find_uv(), "build", "--quiet", "--no-build-isolation", "--python", sys.executable)
    must(*command, "--out-dir", out, *options, project)
