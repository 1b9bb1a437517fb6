"""The `[gateway]` table of the config, and a server's own words in its place, with the real command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from midspan.interception import VERDICT_KEY
from tests.hostapp.relay.harness import request, result, send, server_command

PLUGIN = """
from midspan_sdk import deny, hookimpl, validator

@validator(events=["tools/call"], phase="request")
def guard(payload):
    return deny("because of s3cr3t", info={"rule": "deny[0]"}) if payload["name"] == "rm" else None

@hookimpl
def midspan_interceptors():
    return [guard]
"""
RULE = "rules.guard/deny[0]"


@pytest.fixture
def run(tmp_path: Path, log: Path) -> Any:
    """Run `midspan run` with a config over one message and return the answer."""

    def once(config: str, message: bytes, *, named: bool = False) -> dict[str, Any]:
        command = server_command(log)
        settings, plugin = tmp_path / "midspan.toml", tmp_path / "rules.py"
        server = f"\n[servers.raw]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
        # What a test says of the server stands in its table, which comes last.
        gateway, _, own = config.partition("---")
        settings.write_text(gateway + server + own, encoding="utf-8")
        plugin.write_text(PLUGIN, encoding="utf-8")
        words = ["run", "--config", str(settings), "--plugin-file", str(plugin)]
        words += ["--server", "raw"] if named else ["--", *command]
        done = subprocess.run(
            [sys.executable, "-m", "midspan", *words],
            input=message + b"\n",
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return json.loads(done.stdout)

    return once


CALL = request(1, "tools/call", {"name": "rm"})


@pytest.mark.parametrize("named", [False, True])
def test_without_a_word_a_denied_call_is_a_tool_result_that_names_the_rule(run: Any, named: bool, log: Path) -> None:
    answer = run("", CALL, named=named)
    assert answer["result"]["isError"] is True
    assert f"Blocked by {RULE}. The tool did not run." in answer["result"]["content"][0]["text"]
    assert not log.exists() or log.read_bytes() == b""


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("detail", "errors"),
    [
        ("none", None),
        ("rule", [{"interceptor": "rules.guard", "severity": "error", "message": f"denied by {RULE}"}]),
        ("reason", [{"interceptor": "rules.guard", "severity": "error", "message": "because of s3cr3t"}]),
    ],
)
def test_a_denied_call_is_an_error_that_says_as_much_as_the_config_wants(
    run: Any, named: bool, detail: str, errors: list[Any] | None
) -> None:
    config = f'[gateway]\ndenials = "error"\ndenial_detail = "{detail}"\n'
    answer = run(config, CALL, named=named)
    error = answer["error"]
    verdict = error["data"].pop(VERDICT_KEY)
    assert (error["code"], error["message"]) == (-32602, "Interceptor validation failed")
    assert error["data"] == ({} if errors is None else {"validationErrors": errors})
    assert re.fullmatch("[0-9a-f]{16}", verdict["decisionId"])
    assert (verdict.get("rule"), verdict.get("reason")) == {
        "none": (None, None),
        "rule": (RULE, None),
        "reason": (RULE, "because of s3cr3t"),
    }[detail]


@pytest.mark.parametrize(
    ("detail", "start"),
    [
        ("none", "Blocked. The tool did not run."),
        ("rule", f"Blocked by {RULE}. The tool"),
        ("reason", f"Blocked by {RULE}: because of s3cr3t. The tool"),
    ],
)
def test_the_detail_counts_for_tool_results_too(run: Any, detail: str, start: str) -> None:
    answer = run(f'[gateway]\ndenial_detail = "{detail}"\n', CALL)
    assert answer["result"]["content"][0]["text"].startswith(start)


def test_what_a_servers_own_table_says_wins_for_that_server_key_by_key(run: Any) -> None:
    config = '[gateway]\ndenials = "error"\ndenial_detail = "none"\nexpose_interceptors = true\n---'
    assert "error" in run(config, CALL, named=True)
    own = f'{config}denials = "result"\nexpose_interceptors = false\n'
    answer = run(own, CALL, named=True)
    assert answer["result"]["content"][0]["text"].startswith("Blocked. The tool did not run.")
    assert run(own, request(1, "interceptors/list"), named=True)["result"] == {}
    assert "error" in run(own, CALL), "of the server that has no table the gateway's table speaks"


def test_interceptors_are_exposed_when_the_config_says_so(run: Any) -> None:
    ask = request(1, "interceptors/list")
    assert run("", ask)["result"] == {}  # the raw server answers everything so
    listed = run("[gateway]\nexpose_interceptors = true\n", ask)["result"]["interceptors"]
    assert [one["name"] for one in listed] == ["rules.guard"]


@pytest.mark.parametrize(
    ("config", "schemas"),
    [
        ("", [None]),
        ("[gateway]\ncoerce_input_schemas = true\n", [{"type": "object"}]),
        ("---coerce_input_schemas = true\n", [{"type": "object"}]),
    ],
)
def test_tools_get_an_input_schema_when_the_config_says_so(run: Any, config: str, schemas: list[Any]) -> None:
    listing = request(1, "tools/list", {}, send(result(1, {"tools": [{"name": "x"}]})))
    tools = run(config, listing, named=True)["result"]["tools"]
    assert [tool.get("inputSchema") for tool in tools] == schemas


ASKING = """
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
async def consent(payload, ask):
    return await ask("May it run?") is not None

@hookimpl
def midspan_interceptors():
    return [consent]
"""


def test_a_user_who_does_not_answer_in_time_is_waited_for_no_longer(tmp_path: Path, log: Path) -> None:
    settings, plugin = tmp_path / "midspan.toml", tmp_path / "asking.py"
    settings.write_text("[gateway]\nask_timeout = '50ms'\n", encoding="utf-8")
    plugin.write_text(ASKING, encoding="utf-8")
    words = ["--config", str(settings), "--plugin-file", str(plugin), "--", *server_command(log)]
    command = [sys.executable, "-m", "midspan", "run", *words]
    hello = request(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}})
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(hello + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 0
        process.stdin.write(CALL + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["method"] == "elicitation/create"
        answers = [json.loads(process.stdout.readline())]
        if "method" in answers[0]:  # the client is told that the question is void
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
    answer = answers[-1]["result"]
    assert answer["isError"]
    assert "did not answer" in answer["content"][0]["text"]
    assert b"tools/call" not in log.read_bytes()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[gateway]\ndenials = 'silence'", ":2:1: gateway.denials: must be 'result' or 'error'"),
        ("[gateway]\ndenial_detail = 'all'", ":2:1: gateway.denial_detail: must be 'none', 'rule' or 'reason'"),
        ("[gateway]\nexpose_interceptors = 'yes'", ":2:1: gateway.expose_interceptors: must be true or false"),
        (
            "[gateway]\nask_timeout = 90",
            ':2:1: gateway.ask_timeout: must be a duration with its unit, such as "250ms", "1.5s" or "2m"',
        ),
        ("[gateway]\ndenial = 'error'", ":2:1: gateway.denial: unknown key; did you mean 'denials'?"),
        ("gateway = true", ":1:1: gateway: must be a table"),
        ("[gatway]\n", ":1:2: gatway: unknown key; did you mean 'gateway'?"),
        (
            "[servers.raw]\ncommand = 'x'\ndenials = 'loud'",
            ":3:1: servers.raw.denials: must be 'result' or 'error'",
        ),
    ],
)
def test_a_wrong_value_is_the_operators_line(text: str, line: str, tmp_path: Path) -> None:
    settings = tmp_path / "midspan.toml"
    settings.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "midspan", "run", "--config", str(settings), "--", "server"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == f"midspan: error: {settings}{line}\n"
