"""No spelling gets a denied call to a published server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.hostapp.interception.spellings import spellings
from tests.hostapp.interception.ways import StdioClient, run

from .installs import HERE, Installed

pytestmark = [pytest.mark.npm, pytest.mark.anyio]

DENIED, ALLOWED = "delete_entities", "read_graph"
"""Tools of server-memory."""
CONFIG = f"""
[plugins.policy.config]
deny = ["{DENIED}"]
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


def message(message_id: int, method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params}).encode()


async def until(client: StdioClient, message_id: object) -> list[dict[str, Any]]:
    """Return what comes up to an answer, which is the last."""
    came: list[dict[str, Any]] = []
    while not came or came[-1].get("id") != message_id:
        line = await client.read()
        assert line
        came.append(json.loads(line))
    return came


def is_refused(message: dict[str, Any]) -> bool:
    return "error" in message or message["result"].get("isError") is True


async def test_no_spelling_of_a_denied_call_reaches_a_published_server(npm: Installed, tmp_path: Path) -> None:
    config, asked, memory = tmp_path / "midspan.toml", tmp_path / "asked", tmp_path / "memory.jsonl"
    config.write_text(CONFIG)
    kept = '{"type":"entity","name":"Ada","entityType":"person","observations":[]}'
    memory.write_text(kept)
    tee = [sys.executable, "-I", "-S", str(HERE / "tee.py"), str(asked)]
    environment = {**npm.environment, "MEMORY_FILE_PATH": str(memory)}
    server = ["npx", "-y", "@modelcontextprotocol/server-memory"]
    options = ["--config", str(config), "--plugin", "policy", "--", *tee, *server]
    attempts = spellings(DENIED, ALLOWED, {"entityNames": ["Ada"]})
    with anyio.fail_after(60):
        async with run("handshake", *options, env=environment, cwd=npm.folder) as client:
            await client.write(message(0, "initialize", HELLO))
            await until(client, 0)
            for number, (name, line) in enumerate(attempts.items(), 1000):
                await client.write(line)
                await client.write(message(number, "tools/call", {"name": ALLOWED, "arguments": {}}))
                *said, answer = await until(client, number)
                assert all(is_refused(one) for one in said), name
                assert bool(said) == (name != "notification"), name
                assert answer["result"]["structuredContent"]["entities"][0]["name"] == "Ada"
    arrived = [json.loads(line) for line in (await anyio.Path(asked).read_bytes()).splitlines()]
    calls = [one["params"]["name"] for one in arrived if one["method"] == "tools/call"]
    assert calls == [ALLOWED] * len(attempts)
    assert {one["method"] for one in arrived} == {"initialize", "tools/call"}
    assert await anyio.Path(memory).read_text() == kept
