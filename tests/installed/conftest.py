"""What the tests of installed things share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

import pytest

from .building import build
from .installs import Installed, install_from_npm, install_from_pypi

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture
def anyio_backend() -> str:
    """The SDK's client runs on asyncio here."""
    return "asyncio"


@pytest.fixture(params=["legacy", "auto"])
def mode(request: pytest.FixtureRequest) -> Literal["legacy", "auto"]:
    """How the client opens: with the handshake, or asking for the stateless era first."""
    return request.param


def kept_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """Return a folder that stays for later runs; without a cache, one for this run."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    return cache.mkdir(name) if cache else tmp_path_factory.mktemp(name)


@pytest.fixture(scope="session")
def npm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return the npm servers."""
    return install_from_npm(kept_folder(request, tmp_path_factory, "npm-servers"), tmp_path_factory.mktemp("bin"))


@pytest.fixture(scope="session")
def pypi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return the PyPI servers."""
    return install_from_pypi(kept_folder(request, tmp_path_factory, "pypi-servers"), tmp_path_factory.mktemp("out"))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build each distribution's sdist, and the wheel from that, and return their folder; a stranger's among them."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder / "dist", "--all-packages")
    # Built where a stranger would: outside of the repository.
    build(shutil.copytree(HERE / "acme_plugin", folder / "acme_plugin"), folder / "dist")
    return folder / "dist"
