"""What importing costs: a client starts one `midspan run` for every server it wraps."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("mcp", "mcp_types", "starlette", "uvicorn", "httpx", "httpx2", "jsonschema")


def loaded_by(statement: str) -> set[str]:
    program = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "midspan_sdk",
        "midspan_sdk.testing",
        "midspan_sdk.payload",
        "midspan_sdk.serving",
        "midspan_policy",
        "midspan_secrets",
    ],
)
def test_importing_what_a_plugin_needs_imports_nothing_heavy(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert module in loaded
    assert [heavy for heavy in HEAVY if heavy in loaded] == []


def test_the_probe_would_notice() -> None:
    assert "mcp" in loaded_by("import midspan_sdk.mcp")


def test_importing_the_sdk_starts_no_thread_and_logs_nothing() -> None:
    program = "import threading, midspan_sdk; print(threading.active_count())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "")
