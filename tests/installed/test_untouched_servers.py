"""Published servers answer through midspan, with and without interceptors, as they answer directly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from pydantic import BaseModel

from .installs import HERE, Installed
from .real_servers import EVERYWHERE, SERVERS, RealServer, filled

pytestmark = pytest.mark.anyio

Mode = Literal["legacy", "auto"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """What starts a server: its command line, and the whole environment."""

    words: Sequence[str]
    environment: Mapping[str, str]


Way = Callable[[Command, Mode], AbstractAsyncContextManager[Client]]
"""Connects a client to a server."""


def directly(command: Command, mode: Mode) -> AbstractAsyncContextManager[Client]:
    """Start the server."""
    program, *arguments = command.words
    return Client(StdioServerParameters(command=program, args=arguments, env=dict(command.environment)), mode=mode)


def behind_run(*options: str) -> Way:
    """Start `midspan run` with these options, which starts the server."""

    def connect(command: Command, mode: Mode) -> AbstractAsyncContextManager[Client]:
        words = [sys.executable, "-m", "midspan", "run", *options, "--", *command.words]
        return directly(Command(words=words, environment=command.environment), mode)

    return connect


PASS_THROUGH = ("--plugin-file", str(HERE / "pass_through.py"))

WAYS: Mapping[str, Way] = {
    "run": behind_run(),
    "run with interceptors": behind_run(*PASS_THROUGH),
}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All that a server said to a client, as JSON."""

    opening: list[Any]
    listings: list[Any]
    calls: list[Any]


async def answers(client: Client, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Answers:
    """Ask for all that there is, and make these calls."""
    opening = [client.protocol_version, client.server_info, client.server_capabilities, client.instructions]
    lists = [client.list_tools, client.list_resources, client.list_resource_templates, client.list_prompts]
    return Answers(
        opening=[plain(value) for value in opening],
        listings=[await answer(ask) for ask in lists],
        calls=[await answer(partial(client.call_tool, tool, dict(given))) for tool, given in calls],
    )


async def answer(ask: Callable[[], Any]) -> Any:
    """Return a result or an error."""
    try:
        return plain(await ask())
    except MCPError as error:
        return plain(error.error)


def plain(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value


class Server:
    """A published server that is installed, and the folder that it works on."""

    def __init__(self, real: RealServer, installed: Installed, folder: Path) -> None:
        self._real = real
        self._folder = folder
        self.seen_by_plugin = folder.with_name(f"{folder.name}.seen")
        environment = {**installed.environment, **real.environment, "SEEN_BY_PLUGIN": str(self.seen_by_plugin)}
        words = [str(installed.bin / real.name), *real.arguments]
        self._command = Command(words=filled(words, folder), environment=filled(environment, folder))
        self._direct: dict[Mode, Answers] = {}

    async def answers(self, way: Way, mode: Mode) -> Answers:
        """Return what it says to a client that comes on this way."""
        self._real.start_over(self._folder)
        with anyio.fail_after(60):
            async with way(self._command, mode) as client:
                return await answers(client, filled([*self._real.calls, *EVERYWHERE], self._folder))

    async def direct(self, mode: Mode) -> Answers:
        """Return what it says without midspan, asked once."""
        if mode not in self._direct:
            self._direct[mode] = await self.answers(directly, mode)
        return self._direct[mode]


@pytest.fixture(scope="session")
def started_before() -> dict[str, Server]:
    """The servers that were used, so that each is asked directly only once, in whatever order the tests run."""
    return {}


@pytest.fixture(params=[pytest.param(real, id=real.name, marks=getattr(pytest.mark, real.source)) for real in SERVERS])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, started_before: dict[str, Server]
) -> Server:
    """Return a server that is installed."""
    real: RealServer = request.param
    if real.name not in started_before:
        installed: Installed = request.getfixturevalue(real.source)
        started_before[real.name] = Server(real, installed, tmp_path_factory.mktemp("servers") / real.name)
    return started_before[real.name]


@pytest.mark.parametrize("way", WAYS)
async def test_a_published_server_answers_as_it_does_directly(server: Server, way: str, mode: Mode) -> None:
    direct = await server.direct(mode)
    server.seen_by_plugin.unlink(missing_ok=True)
    assert await server.answers(WAYS[way], mode) == direct
    # Worth comparing: tools, results, and failures.
    assert len(direct.listings[0]["tools"]) >= 2
    assert {call.get("isError") for call in direct.calls} >= {True, False}
    if "interceptors" in way:
        seen = set((await anyio.Path(server.seen_by_plugin).read_text()).splitlines())
        assert {"tools/call request", "tools/call response", "tools/list response"} <= seen
