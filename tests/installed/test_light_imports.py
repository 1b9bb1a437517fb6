"""What must not be imported: the MCP SDK takes a second and 65 MB, and a client starts one `midspan run` per server.

The light commands (`--help`, `--version`, `plugins list`) are tested with the command line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = {"mcp", "mcp_types", "starlette", "uvicorn"}

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""


def top_level(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    "module",
    [
        "midspan_sdk",
        "midspan_sdk.errors",
        "midspan_sdk.events",
        "midspan_sdk.hookspecs",
        "midspan_sdk.payload",
        "midspan_sdk.testing",
        "midspan_sdk.wire",
    ],
)
def test_the_sdk_is_imported_without_the_mcp_sdk(module: str) -> None:
    report = f"import {module}, json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60)
    imported = set(json.loads(done.stdout))
    assert module in imported
    assert not HEAVY & top_level(imported)


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ((), "midspan.relay"),
        (("--config", "{config}"), "midspan.interception"),
    ],
    ids=["relay only", "first-party plugins enabled"],
)
def test_a_run_from_stdio_to_stdio_never_imports_the_mcp_sdk(
    options: tuple[str, ...], needed: str, tmp_path: Path
) -> None:
    config = tmp_path / "guards.toml"
    config.write_text(
        "[plugins.policy]\nenabled = true\nconfig = { deny = ['rm'] }\n"
        "[plugins.secrets]\nenabled = true\n"
        f"[plugins.audit]\nenabled = true\nconfig = {{ path = '{tmp_path / 'audit.jsonl'}' }}\n",
        encoding="utf-8",
    )
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ls", "arguments": {"path": "/"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "rm", "arguments": {"path": "/"}}},
    ]
    # `-v` writes down each import of the whole run, `import_module` included; the server does not inherit it.
    command = [sys.executable, "-v", "-m", "midspan", "run"]
    command += [option.format(config=config) for option in options]
    done = subprocess.run(
        [*command, "--", sys.executable, "-c", SERVER],
        input="".join(json.dumps(message) + "\n" for message in messages),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert len(done.stdout.splitlines()) == len(messages)
    imported = set(re.findall(r"^import '(\S+)' #", done.stderr, flags=re.MULTILINE))
    assert needed in imported
    assert not HEAVY & top_level(imported)
    if options:
        assert {"midspan_audit", "midspan_policy", "midspan_secrets"} <= imported
    else:
        # A relay alone takes a third less memory without them.
        assert not {"pydantic", "pluggy", "midspan_sdk"} & top_level(imported)
