"""`midspan interceptors serve`, as a child process."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from midspan_sdk import Chain, InterceptorFailedError, InvalidInvocationError, LostServerError, ValidationResult
from midspan_sdk.mcp import invoke_interceptor, list_interceptors, read_capability

pytestmark = pytest.mark.anyio

NO_RM = """
import os
from pathlib import Path
from contextlib import asynccontextmanager
from midspan_sdk import hookimpl, validator

print("said at import")
os.write(1, b"written at import")

@validator(events=["tools/call"], phase="request")
def no_rm(payload):
    print("said in a handler")
    return "destructive shell command" if "rm -rf" in str(payload.get("arguments")) else None

@validator(events=["tools/call"], phase="request")
def dies(payload):
    os._exit(1)

@validator(events=["tools/call"], phase="request")
def crashes(payload):
    raise RuntimeError("secret")

@hookimpl
def midspan_interceptors():
    return [no_rm, crashes, dies]

@hookimpl
def midspan_lifespan():
    @asynccontextmanager
    async def lifespan():
        yield
        (Path(__file__).parent / "left").touch()
    return lifespan()
"""

WATCH = """
from midspan_sdk import hookimpl

class Watch:
    name = "watch"
    durable = False
    async def observe(self, record): ...

@hookimpl
def midspan_observers():
    return [Watch()]
"""

CALL: dict[str, Any] = {"event": "tools/call", "phase": "request"}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The command line that serves the plugin."""
    (tmp_path / "midspan.toml").touch()
    (tmp_path / "no_rm.py").write_text(NO_RM)
    (tmp_path / "watch.py").write_text(WATCH)
    arguments = ["interceptors", "serve", "--config", str(tmp_path / "midspan.toml")]
    for name in ("no_rm", "watch"):
        arguments += ["--plugin-file", str(tmp_path / f"{name}.py")]
    return [sys.executable, "-m", "midspan", *arguments]


@asynccontextmanager
async def served(command: list[str], mode: Any) -> AsyncGenerator[Client]:
    with anyio.fail_after(30):
        async with Client(StdioServerParameters(command=command[0], args=command[1:]), mode=mode) as client:
            yield client


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_a_client_lists_and_invokes_and_a_chain_runs_over_stdio(
    command: list[str], tmp_path: Path, mode: Any, version: str
) -> None:
    async with served(command, mode) as client:
        assert client.protocol_version == version
        assert client.server_info is not None
        assert client.server_info.name == "midspan"
        assert read_capability(client.server_capabilities) == {"supportedEvents": ["tools/call"]}
        names = [one.name for one in await list_interceptors(client)]
        assert names == ["no-rm.no_rm", "no-rm.crashes", "no-rm.dies"]

        # All that the plugin says goes to stderr, or these answers would not be read.
        denied = await invoke_interceptor(client, "no-rm.no_rm", **CALL, payload={"arguments": {"c": "rm -rf /"}})
        assert isinstance(denied, ValidationResult)
        assert denied.messages[0].message == "destructive shell command"
        with pytest.raises(InvalidInvocationError, match="lone surrogate"):
            await invoke_interceptor(client, "no-rm.no_rm", **CALL, payload={"a": "\ud800"})
        with pytest.raises(InterceptorFailedError, match="the validator raised RuntimeError"):
            await invoke_interceptor(client, "no-rm.crashes", **CALL, payload={})
        allowed = await invoke_interceptor(client, "no-rm.no_rm", **CALL, payload={"a": None, "b": 1.0})
        assert isinstance(allowed, ValidationResult)
        assert allowed.valid

        async with Chain() as chain:
            await chain.add_server(client)
            result = await chain.execute(**CALL, payload={"arguments": "rm -rf /"}, interceptors=["no-rm.no_rm"])
        assert result.status == "validation_failed"
    assert (tmp_path / "left").exists(), "the lifespan was not left"


async def test_a_server_that_dies_in_the_middle_is_lost(command: list[str]) -> None:
    async with served(command, "auto") as client:
        with pytest.raises(LostServerError):
            await invoke_interceptor(client, "no-rm.dies", **CALL, payload={}, timeout_ms=20_000)


def test_nothing_enabled_is_told_on_stderr_and_to_the_client(tmp_path: Path) -> None:
    config = tmp_path / "midspan.toml"
    config.touch()
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}) + "\n"
    done = subprocess.run(
        [sys.executable, "-m", "midspan", "interceptors", "serve", "--config", str(config)],
        input=request,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    sentence = "no plugin is enabled, so there is nothing to serve; enable a plugin with --plugin ID, or in the config"
    assert done.returncode == 2
    assert done.stderr == f"midspan: error: {sentence}\n"
    assert json.loads(done.stdout)["error"]["message"] == f"midspan: {sentence}"


def test_idle_observers_are_told_of_and_a_signal_ends_the_server_in_order(command: list[str], tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(request)
        child.stdin.flush()
        answer = json.loads(child.stdout.readline())
        child.send_signal(signal.SIGTERM)
        rest, said = child.communicate(timeout=30)
    assert answer["result"]["serverInfo"]["name"] == "midspan"
    assert rest == ""
    assert child.returncode == 0
    assert "plugin 'watch': its observers" in said
    assert "said at import" in said
    assert "written at import" in said
    assert (tmp_path / "left").exists(), "the lifespan was not left"
