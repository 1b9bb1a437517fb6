"""What the tests of the host share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The host runs on asyncio."""
    return "asyncio"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The file in which a raw server notes what it gets."""
    return tmp_path / "server.log"
