from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from midspan.cli._group import invoke
from midspan.config import Config, RemoteServer, ServerTable, StdioServer, load_config
from midspan.errors import ConfigError, ProblemsError

BOTH = """
[servers.files]
command = "npx"
args = ["-y", "${PACKAGE:-server-filesystem}", "/data", "$$1"]
env = { NODE_ENV = "production", TOKEN = "${FILES_TOKEN}" }
cwd = "/srv"
restart = "on-failure"

[servers.search]
url = "https://${HOST}/mcp"
transport = "sse"
headers = { Authorization = "Bearer ${SEARCH_TOKEN}" }
max_message = "1MiB"
"""
ENVIRON = {"FILES_TOKEN": "s3cr3t", "SEARCH_TOKEN": "s3cr3t too", "HOST": "example.com"}


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "midspan.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def line_of_refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    return str(caught.value).removeprefix(f"{tmp_path / 'midspan.toml'}:")


def table(**values: object) -> ServerTable:
    return ServerTable.model_validate(values)


def test_a_server_that_is_started(tmp_path: Path) -> None:
    server = read(tmp_path, BOTH).server("files", ENVIRON)
    assert server == StdioServer(
        command=("npx", "-y", "server-filesystem", "/data", "$1"),
        env={"NODE_ENV": "production", "TOKEN": "s3cr3t"},
        cwd=Path("/srv"),
        restart="on-failure",
        max_message=64 * 1024 * 1024,
    )


def test_a_server_that_is_connected_to(tmp_path: Path) -> None:
    assert read(tmp_path, BOTH).server("search", ENVIRON) == RemoteServer(
        url="https://example.com/mcp",
        transport="sse",
        headers={"Authorization": "Bearer s3cr3t too"},
        max_message=1024 * 1024,
    )


def test_what_is_left_out_has_its_default() -> None:
    assert table(command="x").resolved() == StdioServer(
        command=("x",), env={}, cwd=None, restart="never", max_message=64 * 1024 * 1024
    )
    remote = table(url="http://localhost:8000/mcp").resolved()
    assert isinstance(remote, RemoteServer)
    assert (remote.transport, remote.headers) == ("http", {})


def test_servers_keep_the_order_of_the_file(tmp_path: Path) -> None:
    text = "".join(f"[servers.{name}]\ncommand = 'x'\n" for name in ("zeta", "alpha", "mid"))
    assert list(read(tmp_path, text).servers) == ["zeta", "alpha", "mid"]


def test_the_environment_of_the_process_is_the_one_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSPAN_TEST_TOKEN", "from outside")
    server = read(tmp_path, "[servers.x]\ncommand = 'x'\nargs = ['${MIDSPAN_TEST_TOKEN}']\n").server("x")
    assert isinstance(server, StdioServer)
    assert server.command == ("x", "from outside")


def test_commands_that_need_no_server_work_without_its_variables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(tmp_path, BOTH)
    for arguments in (["plugins", "list"], ["plugins", "show", "policy"]):
        assert invoke([*arguments, "--config", str(tmp_path / "midspan.toml")]) == 0
    assert capsys.readouterr().err == ""


GOES_WITH_COMMAND = "3:1: servers.x.{}: goes with `command`; this server has a `url`"
GOES_WITH_URL = "3:1: servers.x.{}: goes with `url`; this server has a `command`"
WRONG_FILES = [
    ("[servers]\nx = 3\n", "2:1: servers.x: must be a table"),
    ("servers = 3\n", "1:1: servers: must be a table: [servers.<name>]"),
    ("[server.x]\n", "1:2: server: unknown key; did you mean 'servers'?"),
    (
        "[servers.Files]\ncommand = 'x'\n",
        "1:10: servers.Files: a name takes lower-case letters, digits and hyphens, and starts with a letter, such as "
        "'files'",
    ),
    ("[servers.x]\ncomand = 'x'\n", "2:1: servers.x.comand: unknown key; did you mean 'command'?"),
    (
        "[servers.x]\n",
        "1:10: servers.x: needs `command`, the program to start, or `url`, the endpoint to connect to",
    ),
    (
        "[servers.x]\ncommand = 'x'\nurl = 'http://h/mcp'\n",
        "1:10: servers.x: has both `command` and `url`; give one of them",
    ),
    ("[servers.x]\ncommand = ['x']\n", "2:1: servers.x.command: must be a text, in quotes"),
    ("[servers.x]\ncommand = ''\n", "2:1: servers.x.command: must be a program, by its name or path"),
    ("[servers.x]\ncommand = 'x'\nargs = 'y'\n", "3:1: servers.x.args: must be a list of texts"),
    ("[servers.x]\ncommand = 'x'\nargs = ['y', 1]\n", "3:14: servers.x.args[1]: must be a text, in quotes"),
    (
        '[servers.x]\ncommand = "x"\nargs = ["\\u0000"]\n',
        "3:9: servers.x.args[0]: must not have a NUL character in it",
    ),
    ("[servers.x]\ncommand = 'x'\nenv = ['A=1']\n", "3:1: servers.x.env: must be a table"),
    ("[servers.x]\ncommand = 'x'\nenv = { A = 1 }\n", "3:9: servers.x.env.A: must be a text, in quotes"),
    ("[servers.x]\ncommand = 'x'\nenv = { '' = 's3cr3t' }\n", "3:1: servers.x.env: has a variable with an empty name"),
    (
        "[servers.x]\ncommand = 'x'\nenv = { 'A=s3cr3t' = '' }\n",
        "3:1: servers.x.env: has a variable whose name is no name, at 'A': no `=` and no NUL there",
    ),
    (
        '[servers.x]\ncommand = "x"\nenv = { A = "s3cr3t\\u0000" }\n',
        "3:9: servers.x.env.A: must not have a NUL character in it",
    ),
    (
        "[servers.x]\ncommand = 'x'\ncwd = 'here'\n",
        "3:1: servers.x.cwd: the path must be absolute, or begin with `~`",
    ),
    (
        "[servers.x]\ncommand = 'x'\nrestart = 'sometimes'\n",
        "3:1: servers.x.restart: must be 'never', 'on-failure' or 'always'",
    ),
    (
        "[servers.x]\ncommand = 'x'\ntransport = 'http'\n",
        "3:1: servers.x.transport: goes with `url`; this server has a `command`",
    ),
    (
        "[servers.x]\ncommand = 'x'\nheaders = {}\n",
        "3:1: servers.x.headers: goes with `url`; this server has a `command`",
    ),
    ("[servers.x]\nurl = 'http://h/'\nargs = []\n", GOES_WITH_COMMAND.format("args")),
    ("[servers.x]\nurl = 'http://h/'\nenv = {}\n", GOES_WITH_COMMAND.format("env")),
    ("[servers.x]\nurl = 'http://h/'\ncwd = '/'\n", GOES_WITH_COMMAND.format("cwd")),
    (
        "[servers.x]\nurl = 'http://h/'\nrestart = 'never'\n",
        GOES_WITH_COMMAND.format("restart"),
    ),
    ("[servers.x]\nurl = 'http://h/'\ntransport = 'ws'\n", "3:1: servers.x.transport: must be 'http' or 'sse'"),
    (
        "[servers.x]\nurl = 'ws://h/mcp'\n",
        "2:1: servers.x.url: must be the URL of the server, http or https, like https://example.com/mcp",
    ),
    (
        "[servers.x]\nurl = 'http:///mcp'\n",
        "2:1: servers.x.url: must be the URL of the server, http or https, like https://example.com/mcp",
    ),
    (
        "[servers.x]\nurl = 'http://u:s3cr3t@h:99999/'\n",
        "2:1: servers.x.url: is no URL; give that of the server, like https://example.com/mcp",
    ),
    (
        "[servers.x]\nurl = 'http://u:s3cr3t@h/'\n",
        '2:1: servers.x.url: has credentials in it; send them as a header: headers = { Authorization = "..." }',
    ),
    (
        "[servers.x]\nurl = 'http://h/#s3cr3t'\n",
        "2:1: servers.x.url: has a fragment, which is never sent to a server; leave it out",
    ),
    (
        "[servers.x]\nurl = 'http://h/'\nheaders = { '' = 'a' }\n",
        "3:1: servers.x.headers: has a header with an empty name",
    ),
    (
        "[servers.x]\nurl = 'http://h/'\nheaders = { 'X-Key: s3cr3t' = '' }\n",
        "3:1: servers.x.headers: has a header whose name is no name, at 'X-Key': letters, digits and hyphens, such as "
        '"X-Api-Key"',
    ),
    (
        "[servers.x]\nurl = 'http://h/'\nheaders = { X-Key = 'a', x-key = 's3cr3t' }\n",
        "3:1: servers.x.headers: has one header twice, as 'X-Key' and as 'x-key'; case makes no difference",
    ),
    (
        '[servers.x]\nurl = "http://h/"\nheaders = { A = "s3cr3t\\n" }\n',
        "3:13: servers.x.headers.A: must not have a line break or NUL character in it",
    ),
    (
        "[servers.x]\nurl = 'http://h/'\nmax_message = '1 megabyte'\n",
        '3:1: servers.x.max_message: must be a size with its unit, such as "64MiB", "512KiB" or "10MB", or a whole '
        "number of bytes",
    ),
    (
        "[servers.x]\nurl = 'http://h/'\nmax_message = 0\n",
        "3:1: servers.x.max_message: must be a whole number of bytes above zero",
    ),
    (
        "[servers.x]\ncommand = 'x'\nargs = ['${s3cr3t']\n",
        "3:9: servers.x.args[0]: must have {NAME} or {NAME:-default} behind a `$`; write `$$` for the character itself",
    ),
    (
        "[servers.x]\ncommand = 'x'\nenv = { A = 's3cr3t$' }\n",
        "3:9: servers.x.env.A: must have {NAME} or {NAME:-default} behind a `$`; write `$$` for the character itself",
    ),
    (
        "[servers.x]\ncommand = 'x'\nenv = { A = 'file:s3cr3t' }\n",
        "3:9: servers.x.env.A: the path must be absolute, or begin with `~`",
    ),
]


@pytest.mark.parametrize(("text", "line"), WRONG_FILES)
def test_a_wrong_table_is_one_line_with_its_place_and_what_is_accepted(text: str, line: str, tmp_path: Path) -> None:
    assert line_of_refusal(tmp_path, text) == line
    assert "s3cr3t" not in line


@pytest.mark.parametrize(
    "name", ["Connection", "keep-alive", "Proxy-Authorization", "TE", "Transfer-Encoding", "Host", "CONTENT-LENGTH"]
)
def test_a_header_of_the_connection_itself_is_refused(name: str, tmp_path: Path) -> None:
    text = f"[servers.x]\nurl = 'http://h/'\nheaders = {{ {name} = 'a' }}\n"
    expected = f"3:1: servers.x.headers: has the header {name!r}, which the connection makes itself; leave it out"
    assert line_of_refusal(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "command = '${NOT_SET}'",
            "2:1: servers.x.command: needs the environment variable NOT_SET, which is not set; set it, or write "
            "${NOT_SET:-default}",
        ),
        (
            "command = 'x'\nargs = ['y', '${SECRET}${NOT_SET}']",
            "3:14: servers.x.args[1]: needs the environment variable NOT_SET, which is not set; set it, or write "
            "${NOT_SET:-default}",
        ),
        ("command = '${EMPTY}'", "2:1: servers.x.command: must be a program, by its name or path"),
        ("command = 'x'\ncwd = '${SECRET}'", "3:1: servers.x.cwd: the path must be absolute, or begin with `~`"),
        (
            "command = 'x'\nenv = { A = '${WITH_NUL}' }",
            "3:9: servers.x.env.A: must not have a NUL character in it",
        ),
        (
            "command = 'x'\nenv = { A = 'file:${SECRET}' }",
            "3:9: servers.x.env.A: the path must be absolute, or begin with `~`",
        ),
        (
            "command = 'x'\nenv = { A = 'file:/not/there/s3cr3t' }",
            "3:9: servers.x.env.A: the file that it names cannot be read: No such file or directory",
        ),
        (
            "url = '${SECRET}'",
            "2:1: servers.x.url: must be the URL of the server, http or https, like https://example.com/mcp",
        ),
        (
            "url = 'https://${WITH_LINES}/mcp'",
            "2:1: servers.x.url: is no URL; give that of the server, like https://example.com/mcp",
        ),
        (
            "url = 'http://h/'\nheaders = { A = 'Bearer ${WITH_LINES}' }",
            "3:13: servers.x.headers.A: must not have a line break or NUL character in it",
        ),
    ],
)
def test_a_server_that_cannot_be_used_is_one_line_and_shows_no_value(text: str, line: str, tmp_path: Path) -> None:
    config = read(tmp_path, f"[servers.x]\n{text}\n")
    environ = {"SECRET": "s3cr3t", "EMPTY": "", "WITH_NUL": "s3cr3t\0", "WITH_LINES": "s3cr3t\r\nX: y"}
    with pytest.raises(ConfigError) as caught:
        config.server("x", environ)
    assert str(caught.value) == f"{tmp_path / 'midspan.toml'}:{line}"
    assert "s3cr3t" not in line
    assert caught.value.__cause__ is None


def test_a_table_by_itself_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^env\.A: needs the environment variable B, which is not set; "):
        table(command="x", env={"A": "${B}"}).resolved({})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, "there is no server 'serch'; there is no config file: write one, name it with --config"),
        ("", "{path}: there is no server 'serch'; add a table [servers.serch]"),
        ("[servers.search]\ncommand = 'x'\n", "{path}: there is no server 'serch'; did you mean 'search'?"),
        (
            "[servers]\na.command = 'x'\nb.command = 'x'\n",
            "{path}: there is no server 'serch'; known here: a, b",
        ),
    ],
)
def test_a_server_that_is_not_there_is_named_with_those_that_are(text: str | None, line: str, tmp_path: Path) -> None:
    config = Config() if text is None else read(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config.server("serch")
    assert str(caught.value) == line.format(path=tmp_path / "midspan.toml")


def test_what_may_be_a_secret_is_shown_by_no_object(tmp_path: Path) -> None:
    text = """
    [servers.one]
    command = "x"
    args = ["--key=s3cr3t"]
    env = { A = "s3cr3t" }
    [servers.two]
    url = "http://h/?key=s3cr3t"
    headers = { A = "s3cr3t" }
    """
    config = read(tmp_path, text)
    shown = [config, config.servers, *config.servers.values(), config.server("one"), config.server("two")]
    assert "s3cr3t" not in " ".join(f"{one!r} {one}" for one in shown)


def test_not_even_the_cause_of_an_error_shows_a_value(tmp_path: Path) -> None:
    with pytest.raises(ProblemsError) as caught:
        read(tmp_path, "[servers.x]\nurl = 'http://h/'\nheaders = { A = 's3cr3t$' }\nx = 's3cr3t'\n")
    assert [problem.key for problem in caught.value.problems if isinstance(problem, ConfigError)] == [
        "servers.x.x",
        "servers.x.headers.A",
    ]
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in shown.replace("headers = { A = 's3cr3t$' }", "").replace("x = 's3cr3t'", "")


def test_the_content_of_a_file_is_taken_as_it_is_without_one_line_break_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "token"
    environ = {"SECRETS": str(tmp_path)}
    server = table(command="x", env={"A": "file:${SECRETS}/token"})
    for content, value in [
        ("abc", "abc"),
        ("abc\n", "abc"),
        ("abc\r\n", "abc"),
        ("abc\n\n", "abc\n"),
        ("abc\r", "abc\r"),
        (" a$b${C}$$ \n", " a$b${C}$$ "),
        ("", ""),
    ]:
        path.write_bytes(content.encode())
        resolved = server.resolved(environ)
        assert isinstance(resolved, StdioServer)
        assert resolved.env == {"A": value}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"s3cr3t\nX: y\n", "must not have a line break or NUL character in it"),
        (b"s3cr3t\xff", "the file that it names is not UTF-8 text"),
        (b"s" * (64 * 1024 + 1), "the file that it names is longer than 64 KiB"),
    ],
)
def test_a_file_that_holds_no_such_value_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    server = table(url="http://h/", headers={"A": f"file:{tmp_path / 'token'}"})
    with pytest.raises(ConfigError) as caught:
        server.resolved({})
    assert str(caught.value) == f"headers.A: {words}"


def test_a_path_may_begin_with_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("abc\n")
    server = table(command="x", cwd="~/work", env={"A": "file:~/token"}).resolved({})
    assert isinstance(server, StdioServer)
    assert (server.cwd, server.env) == (tmp_path / "work", {"A": "abc"})


def test_a_text_that_begins_with_file_is_written_with_a_dollar() -> None:
    server = table(command="x", args=["file:a"], env={"A": "$file:${B}.db", "B": "$$file:b"}).resolved({"B": "b"})
    assert isinstance(server, StdioServer)
    assert (server.command, server.env) == (("x", "file:a"), {"A": "file:b.db", "B": "$file:b"})
