"""`midspan interceptors list` and `invoke`: real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from .ways import HERE, MIDSPAN, behind_token, config, http_app, over_http, served_command, table

CALL = ("--event", "tools/call", "--payload")


def midspan(*arguments: str, stdin: str = "", code: int = 0) -> str:
    """Run `midspan interceptors ...`; return what it prints, of a mistake the one line."""
    done = subprocess.run(
        [*MIDSPAN, "interceptors", *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    if code:
        (line,) = done.stderr.splitlines()
        return line.removeprefix("midspan: error: ")
    return done.stdout


def served(folder: Path) -> list[str]:
    """Return the command line that serves the guards."""
    keys = served_command(folder)
    return ["--", keys["command"], *keys["args"]]


def test_list_shows_what_a_command_offers(tmp_path: Path) -> None:
    header, *rows = midspan("list", *served(tmp_path)).splitlines()
    assert header.split() == ["NAME", "TYPE", "MODE", "PRIORITY", "HOOKS", "DESCRIPTION"]
    assert [row.split()[0] for row in rows] == [
        f"guards.{name}" for name in ("no_rm", "no_sudo", "environment", "redact")
    ]
    assert rows[1].split(None, 4) == [
        "guards.no_sudo",
        "validator",
        "active",
        "-",
        "tools/call (request)   Deny `sudo`.",
    ]
    assert rows[3].split(None, 4)[1:4] == ["mutator", "active", "0"]


def test_list_for_programs_and_for_one_event(tmp_path: Path) -> None:
    found = json.loads(midspan("list", "--json", *served(tmp_path)))
    assert [one["type"] for one in found] == ["validation"] * 3 + ["mutation"]
    assert midspan("list", "--event", "tools/list", "--json", *served(tmp_path)) == "[]\n"


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_url_is_reached_with_headers(tmp_path: Path, transport: str) -> None:
    path = "sse" if transport == "sse" else "mcp"
    async with over_http(http_app(transport=transport), guard=lambda app: behind_token(app, "t0ken")) as port:
        url = ("--url", f"http://127.0.0.1:{port}/{path}?key=hush", "--transport", transport)

        def both() -> None:
            assert "no_rm" in midspan("list", *url, "--header", "X-Token: t0ken")
            line = midspan("list", *url, code=2)
            shown = url[1].partition("?")[0]
            assert line == (
                f"interceptor server {shown}: cannot be reached: it answers with the status 401 Unauthorized"
            )

        await anyio.to_thread.run_sync(both)


def test_invoke_prints_the_result_of_a_server_of_the_config(tmp_path: Path) -> None:
    file = config(tmp_path, table("interceptor_servers.central", enabled=False, **served_command(tmp_path)))
    options = ("--config", str(file), "--server", "central")
    denied = json.loads(midspan("invoke", "guards.no_rm", *CALL, '{"arguments": "rm -rf"}', *options))
    assert (denied["valid"], denied["messages"][0]["message"]) == (False, "destructive")
    line = midspan("list", "--config", str(file), "--server", "centrl", code=2)
    assert line == f"{file}: there is no interceptor server 'centrl'; did you mean 'central'?"


def test_the_payload_may_come_from_a_file_and_from_stdin(tmp_path: Path) -> None:
    payload: dict[str, Any] = {"content": "ä s3cret"}
    (tmp_path / "payload.json").write_text(json.dumps(payload), "utf-8")
    for given in (f"@{tmp_path}/payload.json", "-"):
        options = ("--event", "tools/call", "--phase", "response", "--payload", given, *served(tmp_path))
        result = json.loads(midspan("invoke", "guards.redact", *options, stdin=json.dumps(payload)))
        assert (result["modified"], result["payload"]) == (True, {"content": "ä ***"})


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no server": (["list"], "no interceptor server: give its command behind --, or --url, or --server"),
    "two servers": (["list", "--url", "http://x/mcp", "--", "x"], "name one server"),
    "no url": (["list", "--url", "ftp://u:hush@x/mcp"], "--url: cannot connect to 'ftp://x/mcp': give an http"),
    "no program": (["list", "--", "/no/such", "hush"], "interceptor server /no/such: cannot be reached: cannot start"),
    "no interceptors": (
        ["list", "--", sys.executable, str(HERE / "echo_server.py"), "hush"],
        f"interceptor server {sys.executable}: serves no interceptors",
    ),
    "no JSON": (["invoke", "x", *CALL, "{hush", "--", "x"], "--payload:1:2: is not JSON: "),
    "no object": (["invoke", "x", *CALL, "[1]", "--", "x"], "--payload: must be a JSON object, such as "),
    "no file": (["invoke", "x", *CALL, "@/no/such", "--", "x"], "--payload: /no/such cannot be read: No such file"),
    "a bare number": (["invoke", "x", *CALL, "{}", "--timeout", "5", "--", "x"], "--timeout must be a duration"),
    "two of stdin": (
        ["invoke", "x", *CALL, "-", "--interceptor-config", "-", "--", "x"],
        "--payload and --interceptor",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake: str) -> None:
    arguments, words = MISTAKES[mistake]
    line = midspan(*arguments, code=2)
    assert line.startswith(words)
    assert "hush" not in line


def test_an_unknown_interceptor_and_a_refused_invocation_say_so(tmp_path: Path) -> None:
    line = midspan("invoke", "guards.no_rn", *CALL, "{}", *served(tmp_path), code=2)
    assert line == "the server offers no interceptor 'guards.no_rn'; did you mean 'guards.no_rm'?"
    line = midspan("invoke", "guards.no_rm", "--event", "x/y", "--payload", "{}", *served(tmp_path), code=2)
    assert line == "the invocation failed: guards.no_rm: is not hooked to this event"
