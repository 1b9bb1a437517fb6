"""What a gateway cannot be made of is one clear line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

import midspan
from midspan import Gateway
from midspan.errors import OperatorError
from midspan_sdk import Chain

from .sample import no_rm

URL = "http://localhost:8000/mcp"
LISTED = "a command is given as a list, such as ['npx', 'some-server']"


async def asynchronous() -> None: ...


@pytest.mark.parametrize(
    ("backend", "line"),
    [
        (
            "localhost",
            f"cannot relay to 'localhost': give the URL of the server, like http://localhost:8000/mcp; {LISTED}",
        ),
        ("npx", f"cannot relay to 'npx': give the URL of the server, like http://localhost:8000/mcp; {LISTED}"),
        ("npx server --token secret", f"cannot relay to 'npx': it is no URL; {LISTED}"),
        (
            "ws://h/mcp?key=secret",
            "cannot relay to 'ws://h/mcp': give the URL of the server, like http://localhost:8000/mcp",
        ),
        ("http://", "cannot relay to 'http://': give the URL of the server, like http://localhost:8000/mcp"),
        ("http://h:0/", "cannot relay to 'http://h:0/': give the URL of the server, like http://localhost:8000/mcp"),
        ("http://[::1/", "cannot relay to 'http://[::1/': it is no URL"),
        ("http://u:secret@h:99999/?key=secret", "cannot relay to 'http://h:99999/': it is no URL"),
        ("http://u:secret@[::1/?key=secret", "cannot relay to '[::1/': it is no URL"),
        ("http://h/a b", "cannot relay to 'http://h/a b': it is no URL"),
        ("http://h/m\ncp", "cannot relay to 'http://h/mcp': it is no URL"),
        (
            "http://u:secret@h/mcp",
            "cannot relay to 'http://h/mcp' with credentials in the URL; let the client send an Authorization header",
        ),
        ("http://h/#x", "cannot relay to 'http://h/': a fragment is never sent to a server; leave it out"),
        ([], f"{LISTED}: texts only, the program first"),
        ([""], f"{LISTED}: texts only, the program first"),
        ([sys.executable, Path("server.py")], f"{LISTED}: texts only, the program first"),
        (b"npx", f"{LISTED}: texts only, the program first"),
        (7, "the backend must be a URL, a command as a list, a transport or a server, not int"),
        (None, "the backend must be a URL, a command as a list, a transport or a server, not NoneType"),
        (MCPServer, "the backend must be a function that returns a transport, and MCPServer is a class"),
        (asynchronous, "the backend must be a function that returns a transport, and asynchronous is async"),
    ],
)
def test_a_backend_that_is_none_is_refused_and_no_secret_in_it_shown(backend: Any, line: str) -> None:
    with pytest.raises(OperatorError) as caught:
        Gateway(backend)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("backend", "options", "line"),
    [
        (["x"], {"headers": {"A": "b"}}, "headers and transport belong to a backend that is a URL"),
        (["x"], {"transport": "sse"}, "headers and transport belong to a backend that is a URL"),
        (MCPServer("x"), {"headers": {}}, "headers and transport belong to a backend that is a URL"),
        (URL, {"env": {}}, "env, cwd and restart belong to a backend that is a command"),
        (URL, {"cwd": "/"}, "env, cwd and restart belong to a backend that is a command"),
        (MCPServer("x"), {"restart": "always"}, "env, cwd and restart belong to a backend that is a command"),
        (URL, {"transport": "ws"}, "transport is 'http' or 'sse', not 'ws'"),
        (["x"], {"restart": "sometimes"}, "restart is 'never' or 'on-failure' or 'always', not 'sometimes'"),
        (["x"], {"max_message": 0}, "max_message is a number of bytes above zero, not 0"),
        (
            URL,
            {"headers": {"Host": "x"}},
            "headers has the header 'Host', which the connection makes itself; leave it out",
        ),
        (URL, {"headers": {"X": "secret\n"}}, "headers must not have a line break or NUL character in it"),
        (URL, {"headers": {"X": "secret\ud800"}}, "headers must have values that are Unicode text"),
        (["x"], {"events": ["tools/call"]}, "events says what a chain decides on; give a chain too"),
        (
            ["x"],
            {"chain": Chain(), "events": "tools/call"},
            "events is a list of methods or globs, such as ['tools/call']",
        ),
        (
            ["x"],
            {"chain": Chain(), "events": []},
            "events is a list of methods or globs, such as ['tools/call']; leave it out for all",
        ),
        (
            ["x"],
            {"chain": Chain(), "events": [7]},
            "events is a list of methods or globs, such as ['tools/call']; leave it out for all",
        ),
        (["x"], {"chain": [no_rm]}, "the chain must be a Chain, not list; chain.add(...) takes interceptors"),
        (["x"], {"chain": no_rm}, "the chain must be a Chain, not Interceptor; chain.add(...) takes interceptors"),
    ],
)
def test_an_argument_that_does_not_fit_is_one_line(backend: Any, options: Any, line: str) -> None:
    with pytest.raises(OperatorError) as caught:
        Gateway(backend, **options)
    assert str(caught.value) == line


@pytest.mark.parametrize("backend", [URL, [sys.executable], [Path(sys.executable).name, "x"], MCPServer("x")])
def test_what_can_be_started_or_is_not_started_here_passes_the_check(backend: Any) -> None:
    Gateway(backend).check()


def test_the_check_looks_where_the_command_would(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    Gateway(["bin/server"], cwd=tmp_path).check()
    Gateway(["server"], env={"PATH": str(program.parent)}).check()
    Gateway(["server"], env={"PATH": "bin"}, cwd=str(tmp_path)).check()
    for gateway in (Gateway(["bin/server"]), Gateway(["server"]), Gateway(["server"], env={"PATH": "bin"})):
        with pytest.raises(OperatorError, match="not found; install it or give its full path"):
            gateway.check()


def test_the_package_offers_the_gateway_by_name() -> None:
    assert midspan.__all__ == ["Gateway"]
    assert midspan.Gateway is Gateway
    with pytest.raises(AttributeError):
        midspan.nothing  # type: ignore[attr-defined]  # noqa: B018
