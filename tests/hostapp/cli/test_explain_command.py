"""`midspan explain`: what the chain makes of one message, with nothing started, recorded or sent."""

from __future__ import annotations

import inspect
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midspan.cli._group import invoke

TOKEN = "ghp_1234567890abcdefghijABCDEFGHIJ123456"
CALL = ["--event", "tools/call", "--payload"]
GUARD = """
from contextlib import asynccontextmanager
from midspan_sdk import Answer, ValidationResult, ValidationMessage, hookimpl, mutator, sink, validator

def odd():
    return ValidationMessage(message="odd", severity="warn")

@mutator(events=["tools/call"], phase="request", priority_hint=1)
def rename(payload, state):
    state["asked"] = payload["name"]
    if payload["name"] == "cached":
        return Answer({"content": [{"type": "text", "text": "from the cache"}]})
    if payload["name"] == "old":
        return {**payload, "name": "new", "arguments": {"a": 1}}

@mutator(events=["tools/call"], phase="request", priority_hint=2, fail_open=True)
def breaks(payload):
    if payload["name"] == "break": raise KeyError("secret of the config")

@validator(events=["tools/call"], phase="request")
async def confirm(payload, ask):
    if payload["name"] == "careful" and not await ask("Really?"):
        return "declined"

@validator(events=["tools/call"], phase="request")
def opens(payload, lifespan):
    if payload["name"] == "needs": return lifespan.check()

@validator(events=["tools/call"], phase="request")
def known(payload, tools, context):
    if payload["name"] == "who":
        return f"{context.principal.id} in {context.session_id} at {context.server} with {sorted(tools)}"
    if payload["name"] == "lint":
        return ValidationResult(valid=False, severity="warn", messages=(odd(),))

@validator(events=["tools/call"], phase="response", errors=True)
def result(payload, request, state):
    if "error" in payload: return f"error {payload['error']['code']}"
    if payload.get("bad"): return f"bad result of {request['name']}, asked as {state['asked']}"

@sink(events=["tools/call"], phase="request")
def tap(payload): raise AssertionError("no sink is run")

class Keeps:
    name = "keeps"
    durable = True
    async def observe(self, record): raise AssertionError("no observer is run")

@hookimpl
def midspan_interceptors(): return [rename, breaks, confirm, opens, known, result, tap]

@hookimpl
def midspan_observers(): return [Keeps()]

@hookimpl
def midspan_lifespan():
    @asynccontextmanager
    async def entered():
        raise AssertionError("no lifespan is entered")
        yield
    return entered()
"""

Explain = Callable[..., str]


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Run `midspan explain` and return what it prints, times and decision ids replaced."""
    monkeypatch.chdir(tmp_path)

    def said(config: str, *arguments: str, code: int = 0, error: str = "") -> str:
        Path("midspan.toml").write_text(inspect.cleandoc(config), "utf-8")
        assert invoke(["explain", "--config", "midspan.toml", *arguments]) == code
        captured = capsys.readouterr()
        assert captured.err == (f"midspan: error: {error}\n" if error else "")
        text = re.sub(r"\d+\.\d\dms", "0ms", captured.out)
        return re.sub(r"Decision [0-9a-f]{16}", "Decision ...", text)

    return said


@pytest.fixture
def guard(explain: Explain, fake_distribution: Callable[..., Path]) -> Callable[..., dict[str, Any]]:
    """Install a plugin that does everything; explain a call of a tool with it, and return the last phase as JSON."""
    fake_distribution("midspan-guard", plugins={"guard": "fake_guard"}, modules={"fake_guard": GUARD})

    def phase(tool: str, *arguments: str, code: int = 0) -> dict[str, Any]:
        payload = json.dumps({"name": tool})
        given = ["--payload", payload] if "--payload" not in arguments else []
        text = explain("", "--plugin", "guard", "--event", "tools/call", "--json", *given, *arguments, code=code)
        return json.loads(text)["phases"][-1]

    return phase


def step(phase: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (one for one in phase["steps"] if one["interceptor"] == f"guard.{name}")
    return found


POLICY = '[plugins.policy]\nenabled = true\nconfig = { deny = ["delete_*"] }\n'
SECRETS = "[plugins.secrets]\nenabled = true\n"


def test_each_step_is_shown_with_its_verdict_and_what_the_client_would_be_told(explain: Explain) -> None:
    payload = json.dumps({"name": "delete_all", "arguments": {"token": TOKEN}})
    said = explain(POLICY + SECRETS, *CALL, payload)
    assert (
        said
        == inspect.cleandoc(f"""
        tools/call request, client to server

          1  mutator    secrets.redact     modified  0ms
             info {{"redacted": [{{"kind": "github-token", "path": "$.arguments.token",
               "count": 1}}], "total": 1}}
             $.arguments.token
             - "{TOKEN}"
             + "[REDACTED:github-token]"
          2  validator  policy.call        denied    0ms
             tool 'delete_all' is denied by rule deny[0] ('delete_*')
             info {{"rule": "deny[0]"}}
          2  validator  secrets.protected  allowed   0ms

        BLOCKED by policy.call: tool 'delete_all' is denied by rule deny[0] ('delete_*')
          the client gets a tool result: Blocked by policy.call/deny[0]. The tool did
            not run. Decision ....
    """)
        + "\n"
    )


def test_what_leaves_is_shown_as_what_differs_from_what_arrived(explain: Explain) -> None:
    text = f"some words before it, so many that no line could hold them, {TOKEN} and as many again behind it, on and on"
    said = explain(SECRETS, *CALL, json.dumps({"name": "read", "arguments": {"text": text}}))
    assert said.endswith(
        "PASSES, changed:\n"
        "  $.arguments.text\n"
        f"  - …o line could hold them, {TOKEN} and as many again behin…\n"
        "  + …o line could hold them, [REDACTED:github-token] and as many again behin…\n"
    )


def test_in_audit_mode_it_says_what_it_would_have_meant(explain: Explain) -> None:
    config = SECRETS + "mode = 'audit'"
    said = explain(config, *CALL, json.dumps({"name": "read", "arguments": {"key": TOKEN}}))
    assert "     audit: would change the message, counts for nothing\n" in said
    assert said.endswith("PASSES unchanged.\n")


def test_the_denial_is_in_the_form_that_the_server_s_table_says(explain: Explain) -> None:
    servers = "[servers.files]\ncommand = 'sh'\ndenials = 'error'\ndenial_detail = 'none'\n"
    said = explain(POLICY + servers, *CALL, '{"name": "delete_all"}', "--server", "files")
    assert "  the client gets the error -32602, Interceptor validation failed:\n" in said
    assert "deny[0]" not in said.partition("the client gets")[2]


def test_what_few_know_of_the_situation_can_be_given(guard: Callable[..., dict[str, Any]]) -> None:
    told = ["--principal", "ann", "--session", "s1", "--server", "files", "--tools", '[{"name": "b"}, {"name": "a"}]']
    assert step(guard("who", *told), "known")["reasons"] == ["ann in s1 at files with ['a', 'b']"]


def test_a_mutator_s_change_and_the_overall_change_are_there(guard: Callable[..., dict[str, Any]]) -> None:
    phase = guard("old")
    changes = [
        {"path": "$.name", "before": "old", "after": "new"},
        {"path": "$.arguments", "after": {"a": 1}},
    ]
    assert step(phase, "rename")["changes"] == phase["changes"] == changes
    assert (phase["outcome"], phase["result"]["finalPayload"]) == ("passes", {"name": "new", "arguments": {"a": 1}})
    assert step(phase, "tap")["verdict"] == "would get it"


def test_a_failure_that_lets_pass_says_so_and_no_word_of_the_exception(guard: Callable[..., dict[str, Any]]) -> None:
    phase = guard("break")
    failed = step(phase, "breaks")
    assert failed["verdict"] == "failed"
    assert failed["meaning"] == "fails open: lets it pass"
    assert failed["reasons"][0] == "the mutator raised KeyError"
    assert re.fullmatch(r"KeyError at fake_guard.py:\d+", failed["reasons"][1])
    assert "secret of the config" not in json.dumps(phase)
    assert phase["outcome"] == "passes"


def test_a_handler_that_needs_its_lifespan_says_so(guard: Callable[..., dict[str, Any]]) -> None:
    phase = guard("needs")
    assert step(phase, "opens")["reasons"][1] == "needs its lifespan, which explain does not enter"
    assert (phase["outcome"], phase["blocked_by"]) == ("blocked", "guard.opens")
    assert step(phase, "tap")["verdict"] == "would not get it"


@pytest.mark.parametrize(
    ("arguments", "outcome", "verdict", "reply"),
    [
        ([], "asks", "asked", None),
        (["--answer", "accept"], "passes", "allowed", "accept"),
        (["--answer", "decline"], "blocked", "denied", "decline"),
    ],
)
def test_questions_are_shown_and_answered_as_wanted(
    guard: Callable[..., dict[str, Any]], arguments: list[str], outcome: str, verdict: str, reply: str | None
) -> None:
    phase = guard("careful", *arguments)
    assert (phase["outcome"], step(phase, "confirm")["verdict"]) == (outcome, verdict)
    assert phase["questions"] == [{"interceptor": "guard.confirm", "message": "Really?", "reply": reply}]


def test_an_objection_that_does_not_block_is_a_warning(guard: Callable[..., dict[str, Any]]) -> None:
    phase = guard("lint")
    assert (phase["outcome"], step(phase, "known")["verdict"]) == ("passes", "warned")


def test_an_answer_of_an_interceptor_goes_through_the_response_phase(
    guard: Callable[..., dict[str, Any]], explain: Explain
) -> None:
    phase = guard("cached")
    assert (phase["phase"], phase["direction"], phase["outcome"]) == ("response", "receiving", "passes")
    said = explain("", "--plugin", "guard", *CALL, '{"name": "cached"}')
    assert "ANSWERED by guard.rename; the other side never hears of it. The answer goes\n  back:\n" in said
    assert said.endswith("PASSES unchanged.\n")


def test_the_response_phase_knows_the_request_and_its_state(guard: Callable[..., dict[str, Any]]) -> None:
    arguments = ["--phase", "response", "--payload", '{"bad": true}', "--request", '{"name": "old"}']
    phase = guard("", *arguments)
    assert phase["reason"] == "bad result of new, asked as old"
    assert phase["told"]["result"]["_meta"]["midspan/verdict"]["ran"] is True


def test_an_error_is_shown_to_those_that_want_errors(guard: Callable[..., dict[str, Any]]) -> None:
    phase = guard("", "--error", "--payload", '{"code": -32000, "message": "gone"}')
    assert [one["reasons"] for one in phase["steps"]] == [["error -32000"]]
    assert phase["told"]["error"]["code"] == -32602


def test_a_changed_result_that_does_not_fit_its_tool_is_held_back_as_the_gateway_does(explain: Explain) -> None:
    tools = {
        "tools": [
            {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"properties": {"k": {"maxLength": 9}}}}
        ]
    }
    result: dict[str, Any] = {"content": [], "structuredContent": {"k": TOKEN[:8]}}
    arguments = ["--request", '{"name": "t"}', "--tools", json.dumps(tools)]
    config = SECRETS + "config = { replacement = '[REDACTED]' }"
    said = explain(config, "--event", "tools/call", "--phase", "response", "--payload", json.dumps(result), *arguments)
    assert said.endswith("PASSES unchanged.\n")
    tools["tools"][0]["outputSchema"]["properties"]["k"] = {"const": TOKEN}  # pyright: ignore[reportArgumentType, reportIndexIssue]
    result["structuredContent"] = {"k": TOKEN}
    arguments[-1] = json.dumps(tools)
    said = explain(config, "--event", "tools/call", "--phase", "response", "--payload", json.dumps(result), *arguments)
    assert "BLOCKED by midspan/output-schema: " in said


@pytest.mark.parametrize(("most", "end"), [("1KiB", "PASSES, changed:"), ("40B", "BLOCKED by secrets.redact")])
def test_the_largest_payload_of_the_config_holds(explain: Explain, most: str, end: str) -> None:
    config = f"{SECRETS}[limits]\nmax_payload = '{most}'\n"
    said = explain(config, *CALL, json.dumps({"name": "x", "arguments": {"token": TOKEN}}))
    assert f"\n{end}" in said


def test_nothing_is_explained_where_a_required_durable_observer_is_missing(explain: Explain) -> None:
    line = (
        "midspan.toml:4:1: audit.required: no durable observer of decisions is enabled here; enable one, such as the "
        "plugin `audit`, or remove `required`"
    )
    config = f"{SECRETS}[audit]\nrequired = true\n"
    assert explain(config, *CALL, "{}", code=2, error=line) == ""


def test_no_audit_file_is_written_and_a_missing_folder_is_none_of_its_business(
    explain: Explain, tmp_path: Path
) -> None:
    config = f"[plugins.audit]\nenabled = true\nconfig = {{ path = '{tmp_path / 'audit.jsonl'}' }}\n"
    assert explain(config, *CALL, '{"name": "x"}').endswith("nothing acts on it\n\nPASSES unchanged.\n")
    assert [file.name for file in tmp_path.iterdir()] == ["midspan.toml"]


def test_dev_allows_and_prod_denies_the_same_call(explain: Explain) -> None:
    config = """
        [plugins.dev]
        use = "policy"
        enabled = true
        servers = ["dev-*"]
        config = { deny = ["drop_*"] }
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
    """
    call = [*CALL, '{"name": "write_file"}', "--fail-on-block"]
    assert "PASSES unchanged.\n" in explain(config, *call, "--server", "dev-files")
    assert "BLOCKED by prod.call: " in explain(config, *call, "--server", "prod-files", code=1)
    explain(
        config,
        *call,
        "--server",
        "lab-one",
        code=2,
        error="plugin 'policy' as 'lab' (midspan-policy 0.1.0): midspan.toml:15:12: plugins.lab.config.dney: unknown "
        "key; "
        "did you mean 'deny'? (to start without it: --no-plugin lab, or `enabled = false` in [plugins.lab])",
    )
    explain(
        config,
        *call,
        code=2,
        error="not all servers have the same chain; name one with --server (dev-*; prod-*; lab-*; any other)",
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([*CALL, '{"name": }'], "--payload:1:10: is not JSON: Expecting value"),
        (
            [*CALL, "@call.json"],
            "--payload (call.json):2:1: is not JSON: Expecting property name enclosed in double quotes",
        ),
        ([*CALL, "@none.json"], "--payload: none.json cannot be read: No such file or directory"),
        ([*CALL, "[]"], '--payload: must be a JSON object, such as \'{"name": "read_file"}\''),
        ([*CALL, '{"a": NaN}'], "--payload: is not JSON: NaN"),
        ([*CALL, '{"a": 1, "a": 2}'], "--payload: the key 'a' is there twice; a gateway refuses such a message"),
        (
            [*CALL, "{}", "--request", "{}"],
            "--request belongs to --phase response; the request itself goes into --payload",
        ),
        (
            [*CALL, "{}", "--error", "--phase", "request"],
            "--error is an answer: leave --phase out, or say --phase response",
        ),
        (
            [*CALL, "{}", "--tools", '{"a": 1}'],
            '--tools: must be the result of tools/list, {"tools": [...]}, or the list in it',
        ),
        ([*CALL, "{}", "--answer", "yes"], "--answer: accept, decline, or what the user fills in, as a JSON object"),
        (
            ["--event", "notifications/progress", "--phase", "response"],
            "notifications/progress is a notification, which nobody answers: it has no response phase",
        ),
        (
            ["--event", "notifications/initialized"],
            "notifications/initialized keeps the connection working: no chain ever sees it",
        ),
    ],
)
def test_the_operator_s_mistakes_are_one_line(explain: Explain, arguments: list[str], error: str) -> None:
    Path("call.json").write_text("{\n")
    explain("", *arguments, code=2, error=error)


def test_a_payload_may_come_from_stdin(explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"name": "delete_all"}'))
    assert "BLOCKED by policy.call" in explain(POLICY, *CALL, "-")


def test_it_imports_no_server_and_no_client(tmp_path: Path) -> None:
    config = tmp_path / "midspan.toml"
    config.write_text(SECRETS)
    program = (
        "import json, sys; from midspan.cli._group import invoke;"
        f"assert invoke(['explain', '--event', 'tools/call', '--config', {str(config)!r}]) == 0;"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    imported = set(json.loads(done.stderr))
    assert imported & {"aiohttp", "httpx", "httpx2", "mcp", "mcp_types", "rich", "uvicorn"} == set()
