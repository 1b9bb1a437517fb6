"""What the demo plays: a handful of calls through `midspan run`, seen from both ends."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from midspan.demo.props import TOOLS, VIEW_VARIABLE, demo_token

CONFIG: Final = """\
[plugins.policy]
enabled = true
[plugins.policy.config]
deny = ["delete_*"]

[plugins.secrets]
enabled = true

[plugins.audit]
enabled = true
[plugins.audit.config]
path = "{audit}"
"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One call, seen from both ends.

    Attributes:
        title: what it shows.
        tool: the tool that was called.
        client_sent: the arguments as the client sent them.
        server_got: the arguments as the server got them; None when the call never arrived.
        server_sent: the text that the server answered; None when it was not asked.
        client_got: the text that the client got.
        expected: whether it went as the title says.
    """

    title: str
    tool: str
    client_sent: dict[str, Any]
    server_got: dict[str, Any] | None
    server_sent: str | None
    client_got: str
    expected: bool


@dataclass(frozen=True, kw_only=True)
class Performance:
    """All of the demo.

    Attributes:
        config: the config file's text.
        tools: the tools that the client was shown.
        hidden: the tools that the server has and the client was not shown.
        scenes: the calls.
        records: the audit's lines, parsed.
    """

    config: str
    tools: tuple[str, ...]
    hidden: tuple[str, ...]
    scenes: tuple[Scene, ...]
    records: tuple[dict[str, Any], ...]


async def play() -> Performance:
    """Play the demo in a temporary folder and return what both ends saw."""
    with tempfile.TemporaryDirectory(prefix="midspan-demo-") as folder:
        config, audit, view = _props(Path(folder))
        # `-P`: a folder `midspan` in the working directory must not take our place.
        python = [sys.executable, "-P", "-m"]
        gateway = StdioServerParameters(
            command=python[0],
            args=[*python[1:], "midspan", "run", "--config", str(config), "--", *python, "midspan.demo.server"],
            env={**os.environ, VIEW_VARIABLE: str(view)},
            cwd=folder,
        )
        async with Client(gateway) as client:
            tools = tuple(sorted(tool.name for tool in (await client.list_tools()).tools))
            scenes = [await _scene(client, view, *call) for call in _calls()]
        return Performance(
            config=CONFIG.format(audit="audit.jsonl"),
            tools=tools,
            hidden=tuple(sorted(TOOLS - set(tools))),
            scenes=tuple(scenes),
            records=tuple(_lines(audit)),
        )


def _props(folder: Path) -> tuple[Path, Path, Path]:
    config, audit, view = folder / "midspan.toml", folder / "audit.jsonl", folder / "view.jsonl"
    config.write_text(CONFIG.format(audit=audit), encoding="utf-8")
    view.touch()
    return config, audit, view


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _calls() -> tuple[tuple[str, str, dict[str, Any]], ...]:
    return (
        ("Allowed: nothing is changed", "read_note", {"name": "shopping"}),
        ("Blocked by policy: the server never hears of it", "delete_note", {"name": "shopping"}),
        (
            "A secret on the way out: redacted before it reaches the server",
            "send_message",
            {"to": "ops", "text": f"deploy with {demo_token()} please"},
        ),
        ("A secret on the way back: redacted before it reaches the client", "read_settings", {}),
    )


async def _scene(client: Client, view: Path, title: str, tool: str, arguments: dict[str, Any]) -> Scene:
    before = len(_lines(view))
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    client_got = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    seen = _lines(view)[before:]
    server_got: dict[str, Any] | None = seen[0]["arguments"] if seen else None
    server_sent: str | None = seen[0]["answer"] if seen else None
    return Scene(
        title=title,
        tool=tool,
        client_sent=arguments,
        server_got=server_got,
        server_sent=server_sent,
        client_got=client_got,
        expected=_as_expected(tool, arguments, server_got, server_sent, client_got, bool(result.is_error)),
    )


def _as_expected(
    tool: str,
    client_sent: dict[str, Any],
    server_got: dict[str, Any] | None,
    server_sent: str | None,
    client_got: str,
    is_error: bool,
) -> bool:
    if tool == "delete_note":
        return server_got is None and is_error
    if tool == "send_message":
        return server_got is not None and demo_token() not in json.dumps(server_got)
    if tool == "read_settings":
        return server_sent is not None and client_got != server_sent and client_got.startswith("region = ")
    return server_got == client_sent and server_sent == client_got
