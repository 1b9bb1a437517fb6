"""What the tests of fidelity share."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.hostapp.fidelity.ends", "tests.hostapp.fidelity.client")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The gateway runs on asyncio; one loop for a module, so that a gateway can outlive a test."""
    return "asyncio"
