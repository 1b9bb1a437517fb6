"""A published server's result is denied late: the write happened once, and the client is told not to repeat it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from .installs import HERE, Installed

pytestmark = [pytest.mark.npm, pytest.mark.anyio]

PLUGIN = """
from midspan_sdk import deny, hookimpl, validator

@validator(events=["tools/call"], phase="response")
def no_written(payload, request):
    if request["name"] == "create_entities":
        return deny("what was written is nobody's business", info={"rule": "written"})

@hookimpl
def midspan_interceptors():
    return [no_written]
"""
ENTITIES = [{"name": "Ada", "entityType": "person", "observations": ["wrote it"]}]
WRITTEN = {"type": "entity", **ENTITIES[0]}


class Guarded:
    """The command line of server-memory behind the real command, and what the server did.

    Attributes:
        words: the command line.
        environment: the whole environment.
        folder: where it runs.
        memory: the server's file.
    """

    def __init__(self, npm: Installed, folder: Path) -> None:
        plugin, self._asked, self.memory = folder / "late.py", folder / "asked", folder / "memory.jsonl"
        plugin.write_text(PLUGIN)
        tee = [sys.executable, "-I", "-S", str(HERE / "tee.py"), str(self._asked)]
        server = [*tee, str(npm.bin / "mcp-server-memory")]
        self.words = [sys.executable, "-m", "midspan", "run", "--plugin-file", str(plugin), "--", *server]
        self.environment = {**npm.environment, "MEMORY_FILE_PATH": str(self.memory)}
        self.folder = npm.folder

    def written(self) -> list[Any]:
        """Return what is in the server's memory file."""
        return [json.loads(line) for line in self.memory.read_text().splitlines()]

    def called(self) -> list[str]:
        """Return the tools that the server was asked for."""
        messages = [json.loads(line) for line in self._asked.read_bytes().splitlines()]
        return [message["params"]["name"] for message in messages if message.get("method") == "tools/call"]


@pytest.fixture
def guarded(npm: Installed, tmp_path: Path) -> Guarded:
    """Return server-memory behind `midspan run` with a validator that denies what was written."""
    return Guarded(npm, tmp_path)


def check(result: dict[str, Any]) -> None:
    """Assert that a tool result says what happened, and not what was written."""
    assert result["isError"] is True
    (block,) = result["content"]
    assert "The tool ran, and its result was withheld. Do not retry" in block["text"]
    verdict = result["_meta"]["midspan/verdict"]
    assert (verdict["ran"], verdict["retry"], verdict["phase"]) == (True, False, "response")
    assert verdict["rule"] == "late.no_written/written"
    assert "structuredContent" not in result
    assert "wrote it" not in json.dumps(result)


async def test_the_sdks_client_is_told_that_it_ran(guarded: Guarded, mode: Literal["legacy", "auto"]) -> None:
    program, *arguments = guarded.words
    parameters = StdioServerParameters(command=program, args=arguments, env=guarded.environment)
    with anyio.fail_after(60):
        async with Client(parameters, mode=mode) as client:
            result = await client.call_tool("create_entities", {"entities": ENTITIES})
            check(result.model_dump(mode="json", by_alias=True, exclude_none=True))
            read = await client.call_tool("read_graph", {})
            assert not read.is_error
            assert isinstance(read.content[0], types.TextContent)
            assert "wrote it" in read.content[0].text
    assert guarded.written() == [WRITTEN]
    assert guarded.called() == ["create_entities", "read_graph"]


def inspect(npm: Installed, guarded: Guarded, home: Path, *words: str) -> tuple[dict[str, Any], int]:
    """Run the Inspector's command line once, and return the result that it prints and its exit code."""
    # It starts servers with an environment of its own making.
    options: Sequence[str] = ["--cli", *words, "-e", f"MEMORY_FILE_PATH={guarded.memory}", "--", *guarded.words]
    done = subprocess.run(
        [str(npm.bin / "mcp-inspector"), *options],
        env={**guarded.environment, "HOME": str(home)},
        cwd=guarded.folder,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return json.loads(done.stdout), done.returncode


def test_the_inspector_is_told_that_it_ran(npm: Installed, guarded: Guarded, tmp_path: Path) -> None:
    call = [
        "--method",
        "tools/call",
        "--tool-name",
        "create_entities",
        "--tool-arg",
        f"entities={json.dumps(ENTITIES)}",
    ]
    result, code = inspect(npm, guarded, tmp_path, *call)
    assert code == 5  # its own for a tool's error
    check(result)
    assert guarded.written() == [WRITTEN]
    assert guarded.called() == ["create_entities"]
