"""What the tests of the HTTP side share."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The gateway runs on asyncio."""
    return "asyncio"
