"""What the tests of fidelity share."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

pytest.register_assert_rewrite("tests.hostapp.fidelity.ends", "tests.hostapp.fidelity.client")


from .gateways import HOST  # noqa: E402 - what it imports is rewritten first


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The gateway runs on asyncio; one loop for a module, so that a gateway can outlive a test."""
    return "asyncio"


@pytest.fixture(scope="module", autouse=True)
async def host(anyio_backend: str) -> AsyncGenerator[None]:
    """Serve the gateways that have an HTTP front."""
    async with HOST.running():
        yield
