from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midspan.config import ConfigSource, RemoteServer, ServerTable, StdioServer, servers_from_client_json
from midspan.errors import ConfigError


def read(tmp_path: Path, servers: Any) -> dict[str, ServerTable]:
    path = tmp_path / "client.json"
    path.write_text(json.dumps({"theme": "dark", "mcpServers": servers}), encoding="utf-8")
    return servers_from_client_json(path)


def started(table: ServerTable, environ: dict[str, str]) -> StdioServer:
    server = table.resolved(environ)
    assert isinstance(server, StdioServer)
    return server


def test_the_servers_of_a_client_in_its_order_without_the_keys_that_are_its_own(tmp_path: Path) -> None:
    tables = read(
        tmp_path,
        {
            "search": {"type": "streamable-http", "url": "https://h/mcp", "headers": {"A": "b"}, "alwaysAllow": ["x"]},
            "files": {
                "type": "stdio",
                "command": "npx",
                "args": ["-y", "x"],
                "env": {"A": "b"},
                "cwd": "/srv",
                "envFile": ".env",
                "disabled": False,
            },
        },
    )
    assert list(tables) == ["search", "files"]
    assert tables["files"] == ServerTable(command="npx", args=["-y", "x"], env={"A": "b"}, cwd="/srv")
    assert tables["search"] == ServerTable(url="https://h/mcp", headers={"A": "b"})


@pytest.mark.parametrize(
    ("kind", "transport"), [(None, "http"), ("http", "http"), ("streamableHttp", "http"), ("sse", "sse")]
)
def test_the_type_says_the_transport(kind: str | None, transport: str, tmp_path: Path) -> None:
    remote = read(tmp_path, {"x": {"type": kind, "url": "http://h/"}})["x"].resolved({})
    assert isinstance(remote, RemoteServer)
    assert remote.transport == transport


def test_what_a_client_leaves_empty_is_not_there(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"args": [], "env": {}, "cwd": None}
    assert read(tmp_path, {"x": {"url": "http://h/", **empty}}) == {"x": ServerTable(url="http://h/")}
    assert read(tmp_path, {"x": {"command": "x", "headers": {}}}) == {"x": ServerTable(command="x")}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${A}", "1"),
        ("${env:A}", "1"),
        ("${N:-d$e}", "d$e"),
        ("pa$$word$", "pa$$word$"),
        ("$A ${", "$A ${"),
        ("file:./dev.db", "file:./dev.db"),
        ("file:${A}$", "file:1$"),
        ("$file:x", "$file:x"),
    ],
)
def test_variables_are_as_clients_write_them_and_all_else_is_text(written: str, value: str, tmp_path: Path) -> None:
    table = read(tmp_path, {"x": {"command": "x", "args": [written], "env": {"B": written}}})["x"]
    server = started(table, {"A": "1"})
    assert (server.command, server.env) == (("x", value), {"B": value})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_characters="{\0", exclude_categories=["Cs"])))
def test_a_text_without_variables_stays_as_it_is(text: str, tmp_path: Path) -> None:
    server = started(read(tmp_path, {"x": {"command": "x", "args": [text], "env": {"B": text}}})["x"], {})
    assert (server.command, server.env) == (("x", text), {"B": text})


@pytest.mark.parametrize(
    ("servers", "line"),
    [
        (None, 'mcpServers: is missing; accepted: {"mcpServers": {NAME: {...}}}'),
        ([], 'mcpServers: must be an object; accepted: {"mcpServers": {NAME: {...}}}'),
        ({"x": "npx"}, 'mcpServers.x: must be an object; accepted: {"mcpServers": {NAME: {...}}}'),
        (
            {"My Server": {"command": "x"}},
            'mcpServers."My Server": a name takes lower-case letters, digits and hyphens, and starts with a letter, '
            "such as 'my-server'",
        ),
        (
            {"x": {"serverUrl": "http://h/"}},
            "mcpServers.x: needs `command`, the program to start, or `url`, the endpoint to connect to",
        ),
        ({"x": {"command": "x", "url": "http://h/"}}, "mcpServers.x: has both `command` and `url`; give one of them"),
        ({"x": {"command": ["s3cr3t"]}}, "mcpServers.x.command: must be a text, in quotes"),
        ({"x": {"command": "x", "args": [1]}}, "mcpServers.x.args[0]: must be a text, in quotes"),
        ({"x": {"command": "x", "env": {"A": 1}}}, "mcpServers.x.env.A: must be a text, in quotes"),
        (
            {"x": {"url": "http://h/", "headers": {"Host": "s3cr3t"}}},
            "mcpServers.x.headers: has the header 'Host', which the connection makes itself; leave it out",
        ),
        (
            {"x": {"type": "ws", "url": "http://h/"}},
            'mcpServers.x.type: must be "stdio", "http", "streamable-http" or "sse"',
        ),
        ({"x": {"type": ["http"]}}, 'mcpServers.x.type: must be "stdio", "http", "streamable-http" or "sse"'),
        (
            {"x": {"type": "stdio", "url": "http://h/"}},
            'mcpServers.x.type: is "stdio", and the server has no `command`',
        ),
        (
            {"x": {"type": "http", "command": "x"}},
            "mcpServers.x.type: is that of a server with a `url`, and this one has none",
        ),
        (
            {"x": {"command": "x", "env": {"A": "s3cr3t ${input:token}"}}},
            "mcpServers.x.env.A: has ${input:...}, which only the client can replace; write ${NAME} for a variable",
        ),
    ],
)
def test_a_server_that_cannot_be_used_is_one_line_with_its_place(servers: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, servers)
    assert str(caught.value) == f"{tmp_path / 'client.json'}: {line}"
    assert "s3cr3t" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"mcpServers": {\n  x}}', ":2:3: is not JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", ": is not UTF-8 text"),
        (b"[" * 200_000, ": is nested too deeply"),
        (b"[]", ': must be an object; accepted: {"mcpServers": {NAME: {...}}}'),
        (None, ": no such file"),
    ],
)
def test_a_file_that_is_none_of_a_client_is_refused(content: bytes | None, line: str, tmp_path: Path) -> None:
    path = tmp_path / "client.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        servers_from_client_json(path)
    assert str(caught.value) == f"{path}{line}"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        servers_from_client_json(tmp_path)


def test_a_variable_that_is_not_set_names_file_and_server_when_the_server_is_used(tmp_path: Path) -> None:
    table = read(tmp_path, {"x": {"command": "x", "env": {"A": "${env:B}"}}})["x"]
    path = tmp_path / "client.json"
    with pytest.raises(ConfigError) as caught:
        table.resolved({}, source=ConfigSource.of(path), place=("mcpServers", "x"))
    assert str(caught.value).startswith(
        f"{path}: mcpServers.x.env.A: needs the environment variable B, which is not set"
    )
