"""`midspan chain`: what runs, in which order, and where each value comes from."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midspan.cli._group import invoke

SCOPED = """
    [plugins.dev]
    use = "policy"
    enabled = true
    servers = ["dev-*"]
    config = { deny = ["delete_*"] }

    [plugins.prod]
    use = "policy"
    enabled = true
    servers = ["prod-*"]
    config = { allow = ["read_*"] }

    [plugins.lab]
    use = "policy"
    enabled = true
    servers = ["lab-*"]
    config = { dney = ["x"] }

    [plugins.secrets]
    enabled = true
    servers = ["dev-*"]
    timeout = "2s"

    [plugins.secrets.interceptors.redact]
    mode = "audit"
    priority = { request = 5 }
"""
GUARD = """
from midspan_sdk import hookimpl, mutator, sink, validator

@validator(events=["tools/call"], phase="both", mode="audit", fail_open=True)
def check(payload): ...

@mutator(events=["tools/*", "acme/run"], phase="request", priority_hint=3)
async def first(payload): ...

@mutator(events=["tools/call"], phase="request", timeout=0.25)
async def second(payload): ...

@sink(events=["notifications/*"], phase="request")
def tap(payload): ...

class Keeps:
    name = "records"
    durable = True
    async def observe(self, record): raise AssertionError("nothing is executed")

@hookimpl
def midspan_interceptors(): return [check, second, first, tap]

@hookimpl
def midspan_observers(): return [Keeps()]
"""

Draw = Callable[..., str]


@pytest.fixture
def draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Draw:
    """Write a config into the working directory, run `midspan chain`, and return what it prints."""
    monkeypatch.chdir(tmp_path)

    def drawn(config: str, *arguments: str, code: int = 0, notes: str = "") -> str:
        Path("midspan.toml").write_text(inspect.cleandoc(config), "utf-8")
        assert invoke(["chain", *arguments, "--config", "midspan.toml"]) == code
        captured = capsys.readouterr()
        assert captured.err == notes
        return captured.out

    return drawn


@pytest.fixture
def guard(fake_distribution: Callable[..., Path]) -> None:
    """Install a plugin with interceptors of all kinds and an observer."""
    fake_distribution("midspan-guard", version="2.1", plugins={"guard": "fake_guard"}, modules={"fake_guard": GUARD})


def test_a_scoped_server_shows_its_chain_with_the_origin_of_every_value(draw: Draw) -> None:
    said = draw(SCOPED, "tools/call", "--phase", "request", "--server", "dev-files")
    assert (
        said
        == inspect.cleandoc("""
        dev-files

        request, client to server: mutators rewrite first, one after the other; then
        validators judge what leaves, side by side; then sinks get it
          STEP  KIND       INTERCEPTOR        PRIORITY  MODE      ON FAILURE  TIMEOUT
          1     mutator    secrets.redact     5[a]      audit[b]  block       2s[c]
          2     validator  dev.call           -         active    block       1s
          2     validator  secrets.protected  -         active    block       2s[c]

          [a]  midspan.toml:26 priority in [plugins.secrets.interceptors.redact]
          [b]  midspan.toml:25 mode in [plugins.secrets.interceptors.redact]
          [c]  midspan.toml:22 timeout in [plugins.secrets]
               all else is the default

        from
          dev      midspan-policy 0.1.0   midspan.toml:1 [plugins.dev]
          secrets  midspan-secrets 0.1.0  midspan.toml:19 [plugins.secrets]

        not here
          prod  for prod-* only  midspan.toml:10 [plugins.prod]
          lab   for lab-* only   midspan.toml:16 [plugins.lab]
    """)
        + "\n"
    )


def test_a_server_whose_chain_is_refused_shows_why_and_the_others_are_drawn(draw: Draw) -> None:
    servers = "".join(f'\n    [servers.{name}]\n    command = "sh"\n' for name in ("dev-a", "dev-b", "prod-a", "lab-a"))
    said = draw(SCOPED + servers, "tools/call", "--phase", "request", code=2)
    headings = [line for line in said.splitlines() if re.match("dev-|prod-|lab-|any ", line)]
    assert headings == ["dev-a, dev-b", "prod-a", "lab-a", "any other server"]
    of_lab = said.partition("\nlab-a\n")[2].partition("\nany other server\n")[0]
    assert of_lab.startswith(
        "  refused: plugin 'policy' as 'lab' (midspan-policy 0.1.0): midspan.toml:17:12:\n"
        "    plugins.lab.config.dney: unknown key; did you mean 'deny'? (to start without\n"
    )
    assert "STEP" not in of_lab
    assert "  1     validator  prod.call    -         active  block       1s\n" in said.partition("\nprod-a\n")[2]


def test_without_servers_the_globs_of_scopes_stand_for_them(draw: Draw) -> None:
    told = json.loads(draw(SCOPED, "--json", code=2))
    assert [(chain["servers"], chain["any_other_server"]) for chain in told["chains"]] == [
        (["dev-*"], False),
        (["prod-*"], False),
        (["lab-*"], False),
        ([], True),
    ]
    assert told["chains"][2]["problems"][0].startswith("plugin 'policy' as 'lab'")
    assert [each["plans"] for each in told["chains"]][2:] == [[], []]


def test_the_json_names_every_value_and_where_it_comes_from(draw: Draw, tmp_path: Path) -> None:
    (chain,) = json.loads(draw(SCOPED, "tools/call", "--server", "dev-x", "--json"))["chains"]
    assert [(plan["phase"], plan["direction"]) for plan in chain["plans"]] == [
        ("request", "sending"),
        ("response", "receiving"),
    ]
    redact = chain["plans"][0]["entries"][0]

    def config(line: int, key: str) -> dict[str, Any]:
        return {"kind": "config", "file": "midspan.toml", "line": line, "key": f"plugins.secrets.{key}"}

    nowhere = {"file": None, "line": None, "key": None}
    assert redact == {
        "name": "secrets.redact",
        "kind": "mutator",
        "step": 1,
        "instance": "secrets",
        "plugin": {"id": "secrets", "distribution": "midspan-secrets", "version": "0.1.0", "file": None},
        "interceptor_server": None,
        "errors": True,
        "priority": {"value": 5, "from": config(26, "interceptors.redact.priority")},
        "mode": {"value": "audit", "from": config(25, "interceptors.redact.mode")},
        "fail_open": {"value": False, "from": {"kind": "default", **nowhere}},
        "hooks": {
            "value": [
                {"events": ["*", "initialize", "server/discover"], "phase": "request"},
                {"events": ["*", "initialize", "server/discover"], "phase": "response"},
            ],
            "from": {"kind": "plugin", **nowhere},
        },
        "timeout_ms": {"value": 2000, "from": config(22, "timeout")},
    }
    call = chain["plans"][0]["entries"][1]
    assert (call["name"], call["priority"], call["timeout_ms"]) == (
        "dev.call",
        None,
        {"value": 1000, "from": {"kind": "default", **nowhere}},
    )


def test_a_value_of_an_included_file_is_told_with_that_file(draw: Draw, tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text("\n\n[plugins.secrets]\nenabled = true\nfail_open = true\n")
    said = draw('include = ["more.toml"]', "tools/call")
    assert "  [a]  more.toml:5 fail_open in [plugins.secrets]\n" in said
    assert "  secrets  midspan-secrets 0.1.0  more.toml:3 [plugins.secrets]\n" in said


@pytest.mark.usefixtures("guard")
def test_all_events_that_anything_hooks_are_drawn_with_equal_plans_together(draw: Draw) -> None:
    said = draw("", "--plugin", "guard")
    assert (
        said
        == inspect.cleandoc("""
        request, client to server: mutators rewrite first, one after the other; then
        validators judge what leaves, side by side; then sinks get it

          tools/call
          STEP  KIND       INTERCEPTOR   PRIORITY  MODE    ON FAILURE  TIMEOUT
          1     mutator    guard.second  0         active  block       250ms*
          2     mutator    guard.first   3*        active  block       1s
          3     validator  guard.check   -         audit*  pass*       1s

          tools/list, acme/run
          STEP  KIND     INTERCEPTOR  PRIORITY  MODE    ON FAILURE  TIMEOUT
          1     mutator  guard.first  3*        active  block       1s

          notifications/progress, notifications/roots/list_changed,
          notifications/tasks/status
          STEP  KIND  INTERCEPTOR  PRIORITY  MODE  ON FAILURE  TIMEOUT
          1     sink  guard.tap    -         -     -           1s

        response, server to client: validators judge first what arrived, side by side;
        then mutators rewrite it, one after the other; then sinks get what leaves

          tools/call
          STEP  KIND       INTERCEPTOR  PRIORITY  MODE    ON FAILURE  TIMEOUT
          1     validator  guard.check  -         audit*  pass*       1s

        request, server to client: validators judge first what arrived, side by side;
        then mutators rewrite it, one after the other; then sinks get what leaves

          notifications/elicitation/complete, notifications/message,
          notifications/progress, notifications/prompts/list_changed,
          notifications/resources/list_changed, notifications/resources/updated and 3
          others
          STEP  KIND  INTERCEPTOR  PRIORITY  MODE  ON FAILURE  TIMEOUT
          1     sink  guard.tap    -         -     -           1s

          *  declared by the plugin
             all else is the default

        from
          guard  midspan-guard 2.1, durable observer guard.records
    """)
        + "\n"
    )


def test_of_many_events_with_the_same_plan_a_few_are_named_and_programs_get_all(draw: Draw) -> None:
    config = "[plugins.secrets]\nenabled = true\n[plugins.policy]\nenabled = true\nconfig = { deny = ['rm'] }"
    said = " ".join(draw(config, "--phase", "request", "--direction", "sending").split())
    plans = json.loads(draw(config, "--phase", "request", "--direction", "sending", "--json"))["chains"][0]["plans"]
    assert plans[0]["events"] == ["tools/call"]
    (*methods, other) = plans[1]["events"]
    assert other == "*"
    assert f" {', '.join(methods[:6])} and {len(methods) - 6} others; any method that MCP does not have " in said
    assert " tools/call STEP " in said
    assert methods[6] not in said


@pytest.mark.usefixtures("guard")
def test_what_a_config_narrows_and_switches_off_is_told(draw: Draw) -> None:
    config = """
        [plugins.guard]
        enabled = true
        [plugins.guard.interceptors.first]
        hooks = [{ events = ["tools/list"], phase = "request" }]
        [plugins.policy]
        enabled = false
        [plugins.secrets]
        enabled = true
        [plugins.extra]
        use = "policy"
    """
    said = draw(config, "tools/list", "--phase", "request", "--no-plugin", "secrets")
    assert "  1     mutator  guard.first[a]  3*        active  block       1s\n" in said
    assert "  [a]  midspan.toml:4 hooks in [plugins.guard.interceptors.first]\n" in said
    assert said.endswith(
        "not here\n"
        "  policy   off: enabled = false              midspan.toml:6 [plugins.policy]\n"
        "  secrets  blocked by --no-plugin secrets    midspan.toml:7 [plugins.secrets]\n"
        "  extra    off: does not say enabled = true  midspan.toml:9 [plugins.extra]\n"
    )


def test_a_request_of_the_server_goes_the_other_way_unless_another_is_asked_for(draw: Draw) -> None:
    config = "[plugins.secrets]\nenabled = true"
    said = json.loads(draw(config, "sampling/createMessage", "--json"))["chains"][0]["plans"]
    assert [(plan["phase"], plan["direction"], plan["entries"][0]["kind"]) for plan in said] == [
        ("request", "receiving", "validator"),
        ("response", "sending", "mutator"),
    ]
    (plan,) = json.loads(
        draw(config, "sampling/createMessage", "--phase", "request", "--direction", "sending", "--json")
    )["chains"][0]["plans"]
    assert (plan["direction"], plan["entries"][0]["kind"]) == ("sending", "mutator")


def test_an_event_that_nothing_hooks_says_so(draw: Draw) -> None:
    said = draw("[plugins.policy]\nenabled = true\nconfig = { deny = ['rm'] }", "prompts/get")
    assert said.count("  nothing runs\n") == 2


def test_a_name_that_is_no_server_of_the_config_gets_a_note(draw: Draw) -> None:
    config = "[servers.files]\ncommand = 'sh'\n[plugins.secrets]\nenabled = true"
    note = "midspan: warning: --server fils: the config has no such server; scopes go by the name alone\n"
    assert draw(config, "tools/call", "--server", "fils", notes=note).startswith("fils\n")


def test_a_method_that_is_hardly_meant_gets_a_note(draw: Draw) -> None:
    note = "midspan: warning: MCP has no method 'tool/call'; did you mean 'tools/call'?\n"
    assert draw("[plugins.secrets]\nenabled = true", "tool/call", notes=note)
    assert draw("[plugins.secrets]\nenabled = true", "acme/run")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["notifications/progress", "--phase", "response"],
            "notifications/progress is a notification, which nobody answers: it has no response phase",
        ),
        (
            ["notifications/initialized"],
            "notifications/initialized keeps the connection working: no chain ever sees it",
        ),
    ],
)
def test_a_message_that_never_comes_is_one_line(draw: Draw, arguments: list[str], line: str) -> None:
    assert draw("", *arguments, code=2, notes=f"midspan: error: {line}\n") == ""


def test_it_imports_what_its_plugins_import(tmp_path: Path) -> None:
    config = tmp_path / "midspan.toml"
    config.write_text("[servers.files]\ncommand = 'sh'\n[plugins.secrets]\nenabled = true\n")
    program = (
        "import json, sys; from midspan.cli._group import invoke;"
        f"assert invoke(['chain', '--config', {str(config)!r}]) == 0;"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    imported = set(json.loads(done.stderr))
    assert "midspan_secrets" in imported
    heavy = {"aiohttp", "cryptography", "httpx", "httpx2", "jsonschema", "mcp", "mcp_types", "rich", "uvicorn"}
    assert imported & heavy == set()


def test_colour_is_for_terminals_only(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in draw("[plugins.secrets]\nenabled = true")
