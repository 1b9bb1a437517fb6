"""A real server of another language, started by npx, behind the real command with the first-party plugins."""

from __future__ import annotations

import json
import secrets
import string
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters

from .installs import Installed

pytestmark = [pytest.mark.npm, pytest.mark.anyio]

HERE = Path(__file__).parent
EVERYTHING = "@modelcontextprotocol/server-everything"

CONFIG = """
[plugins.policy.config]
deny = ["get-tiny-image", "toggle-*"]

[plugins.audit.config]
path = {audit}
"""


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """A client of a guarded server.

    Attributes:
        client: the SDK's.
        asked: file with every line that reached the server.
        audit: the audit log.
        key: a secret that is planted in the server's environment too.
    """

    client: Client
    asked: Path
    audit: Path
    key: str

    async def requests(self, method: str) -> list[dict[str, Any]]:
        """Return the params of the requests of a method that reached the server."""
        lines = (await anyio.Path(self.asked).read_bytes()).splitlines()
        messages = [json.loads(line) for line in lines]
        return [message["params"] for message in messages if message.get("method") == method]


@pytest.fixture
async def guarded(npm: Installed, tmp_path: Path, mode: Literal["legacy", "auto"]) -> AsyncGenerator[Guarded]:
    """Connect to server-everything through `midspan run` with three plugins, and a tee behind it."""
    async with connected(npm, tmp_path, mode) as link:
        yield link


@asynccontextmanager
async def connected(npm: Installed, tmp_path: Path, mode: Literal["legacy", "auto"]) -> AsyncGenerator[Guarded]:
    key = "AKIA" + "".join(secrets.choice(string.ascii_uppercase + "234567") for _ in range(16))
    config, asked, audit = tmp_path / "midspan.toml", tmp_path / "asked", tmp_path / "audit.jsonl"
    config.write_text(CONFIG.format(audit=json.dumps(str(audit))))
    plugins = [word for plugin in ("policy", "secrets", "audit") for word in ("--plugin", plugin)]
    guard = ["-m", "midspan", "run", *plugins, "--config", str(config), "--"]
    tee = [sys.executable, "-I", "-S", str(HERE / "tee.py"), str(asked)]
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[*guard, *tee, "npx", "-y", EVERYTHING],
        env={**npm.environment, "PLANTED": key},
        cwd=npm.folder,
    )
    with anyio.fail_after(60):
        async with Client(parameters, mode=mode) as client:
            yield Guarded(client=client, asked=asked, audit=audit, key=key)


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_what_is_allowed_works_as_ever(guarded: Guarded) -> None:
    client = guarded.client
    assert client.server_info is not None
    assert client.server_info.title == "Everything Reference Server"
    assert client.instructions
    assert text_of(await client.call_tool("echo", {"message": "hello"})) == "Echo: hello"
    assert "42" in text_of(await client.call_tool("get-sum", {"a": 40, "b": 2}))
    structured = await client.call_tool("get-structured-content", {"location": "Chicago"})
    assert structured.structured_content
    assert {"temperature", "conditions", "humidity"} <= structured.structured_content.keys()
    resources = (await client.list_resources()).resources
    (content,) = (await client.read_resource(resources[0].uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.text
    templates = (await client.list_resource_templates()).resource_templates
    assert any("{resourceId}" in template.uri_template for template in templates)
    (blob,) = (await client.read_resource("demo://resource/dynamic/blob/1")).contents
    assert isinstance(blob, types.BlobResourceContents)
    assert blob.blob
    prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
    assert {"simple-prompt", "args-prompt"} <= prompts
    prompt = await client.get_prompt("args-prompt", {"city": "Paris", "state": "Texas"})
    assert "Paris" in prompt.model_dump_json()
    with pytest.raises(MCPError):
        await client.get_prompt("no-such-prompt")


async def test_progress_of_the_server_arrives(guarded: Guarded) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    call = {"duration": 0.2, "steps": 4}
    result = await guarded.client.call_tool("trigger-long-running-operation", call, progress_callback=on_progress)
    assert not result.is_error
    assert seen == [1, 2, 3, 4]


async def test_a_denied_tool_is_hidden_and_its_call_never_reaches_the_server(guarded: Guarded) -> None:
    client = guarded.client
    listed = {tool.name for tool in (await client.list_tools()).tools}
    assert "echo" in listed
    assert not listed & {"get-tiny-image", "toggle-simulated-logging", "toggle-subscriber-updates"}
    for name in ("get-tiny-image", "toggle-simulated-logging"):
        denied = await client.call_tool(name, {})
        assert denied.is_error
        assert "did not run" in text_of(denied)
    assert text_of(await client.call_tool("echo", {"message": "next"})) == "Echo: next"
    assert [call["name"] for call in await guarded.requests("tools/call")] == ["echo"]
    records = [json.loads(line) for line in (await anyio.Path(guarded.audit).read_text()).splitlines()]
    blocked = [record for record in records if record.get("status") == "validation_failed"]
    assert len(blocked) == 2


async def test_a_planted_secret_is_gone_both_ways(guarded: Guarded) -> None:
    client, key = guarded.client, guarded.key
    echoed = text_of(await client.call_tool("echo", {"message": f"my key is {key}, keep it"}))
    assert echoed.startswith("Echo: my key is ")
    assert echoed.endswith(", keep it")
    environment = json.loads(text_of(await client.call_tool("get-env", {})))
    assert environment["PLANTED"] != key
    assert environment["PATH"]
    everything = json.dumps(environment) + echoed
    assert key not in everything
    assert key.encode() not in await anyio.Path(guarded.asked).read_bytes()
    assert key.encode() not in await anyio.Path(guarded.audit).read_bytes()
    (first, _) = await guarded.requests("tools/call")
    assert first["arguments"]["message"].startswith("my key is ")
