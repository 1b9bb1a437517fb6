"""A real chain with the real plugin over a file in `tmp_path`."""

from __future__ import annotations

import json
import resource
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import midspan_audit
from midspan_audit import AuditConfig
from midspan_sdk import Chain, mutator, validator

SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@validator(events=["tools/call"], phase="request")
def no_rm(payload: dict[str, Any]) -> str | None:
    return "destructive shell command" if payload.get("name") == "rm" else None


@mutator(events=["*"], phase="both")
def redact(payload: dict[str, Any]) -> dict[str, Any] | None:
    text = json.dumps(payload)
    return json.loads(text.replace(SECRET, "[redacted]")) if SECRET in text else None


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "audit.jsonl"


@pytest.fixture
def read_records() -> Callable[[Path], list[dict[str, Any]]]:
    def read(path: Path) -> list[dict[str, Any]]:
        text = path.read_text("ascii")
        assert text == "" or text.endswith("\n")
        return [json.loads(line) for line in text.splitlines()]

    return read


@pytest.fixture
def audited() -> Callable[..., AbstractAsyncContextManager[Chain]]:
    """Return a context manager that gives a chain under audit, opened as a host opens it."""

    @asynccontextmanager
    async def opened(path: Path, **options: Any) -> AsyncGenerator[Chain, None]:
        config = AuditConfig(path=path, **options)
        async with midspan_audit.midspan_lifespan(config, "audit"):
            chain = Chain(observers=midspan_audit.midspan_observers(config, "audit"), gives=("session", "store", "ask"))
            chain.add(no_rm, redact)
            async with chain:
                yield chain

    return opened


@pytest.fixture
def file_size_limit() -> Callable[[int], AbstractContextManager[None]]:
    """Return a context manager under which no file grows beyond so many bytes: the write then comes out short."""

    @contextmanager
    def limited(size: int) -> Generator[None, None, None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
