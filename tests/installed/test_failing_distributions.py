"""Distributions whose plugins cannot work, as the process `midspan run` meets them.

What each error says is tested where plugins are loaded; here: what the operator and the client get to see, and that a
broken distribution which merely lies there harms nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Install = Callable[..., Path]

# Every module of this file tells that it was imported.
IMPORTED = """
import os
open(os.environ["IMPORTED"], "a").write(__name__ + "\\n")
"""
GOOD = (
    IMPORTED
    + """
from midspan_sdk import hookimpl, validator

@validator(events=["tools/call"], phase="request")
def deny_all(payload):
    return "nothing is allowed"

@hookimpl
def midspan_interceptors():
    return [deny_all]
"""
)
RAISES = IMPORTED + "raise ValueError('no licence')\n"
UNKNOWN_HOOK = GOOD + "\n@hookimpl\ndef midspan_interceptor(): return []\n"
ASYNC_HOOK = GOOD.replace("def midspan_interceptors", "async def midspan_interceptors")
WRONG_TYPE = GOOD.replace("return [deny_all]", "return {'deny_all': deny_all}")
BROKEN = {"raises": RAISES, "unknown-hook": UNKNOWN_HOOK, "async-hook": ASYNC_HOOK, "wrong-type": WRONG_TYPE}

SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"echo": message["method"]}}
        print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a `midspan run`."""

    code: int
    answers: list[Any]
    stderr: str
    imported: list[str]


def request(number: int, method: str) -> str:
    params: dict[str, Any] = {"name": "any", "arguments": {}} if method == "tools/call" else {}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


@pytest.fixture
def run(fake_distribution: Install, tmp_path: Path) -> Callable[..., Outcome]:
    """Put all distributions on the path of `midspan run`, and send it requests until it or they end."""
    for plugin, source in {**BROKEN, "good": GOOD}.items():
        module = f"fake_{plugin.replace('-', '_')}"
        site = fake_distribution(f"acme-{plugin}", version="1.4", plugins={plugin: module}, modules={module: source})
    for owner in ("one", "two"):
        site = fake_distribution(
            f"acme-twice-{owner}",
            version="1.4",
            plugins={"twice": f"fake_twice_{owner}"},
            modules={f"fake_twice_{owner}": GOOD},
        )

    def run_midspan(*options: str, methods: tuple[str, ...]) -> Outcome:
        log = tmp_path / "imported"
        log.touch()
        done = subprocess.run(
            [sys.executable, "-m", "midspan", "run", *options, "--", sys.executable, "-c", SERVER],
            input="".join(request(number, method) for number, method in enumerate(methods, 1)),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(site), "IMPORTED": str(log)},
        )
        return Outcome(
            code=done.returncode,
            answers=[json.loads(line) for line in done.stdout.splitlines()],
            stderr=done.stderr,
            imported=log.read_text(encoding="utf-8").split(),
        )

    return run_midspan


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("raises", "cannot be imported: ValueError: no licence"),
        ("unknown-hook", "unknown hook midspan_interceptor"),
        ("async-hook", "midspan_interceptors must be a plain function"),
        ("wrong-type", "midspan_interceptors returned"),
    ],
)
def test_an_enabled_plugin_that_cannot_work_stops_the_start_and_the_client_learns_why(
    plugin: str, words: str, run: Callable[..., Outcome]
) -> None:
    outcome = run("--plugin", "good", "--plugin", plugin, methods=("initialize",))
    assert outcome.code == 2
    (line,) = outcome.stderr.splitlines()
    assert line.startswith(f"midspan: error: plugin '{plugin}' (acme-{plugin} 1.4): {words}")
    assert line.endswith(f"(to start without it: --no-plugin {plugin})")
    (answer,) = outcome.answers
    assert answer["id"] == 1
    assert answer["error"]["message"] == line.replace("midspan: error: ", "midspan: ")
    assert f"fake_{plugin.replace('-', '_')}" in outcome.imported


def test_two_distributions_with_one_id_stop_the_start_and_neither_is_imported(run: Callable[..., Outcome]) -> None:
    outcome = run("--plugin", "twice", methods=("initialize",))
    assert outcome.code == 2
    (line,) = outcome.stderr.splitlines()
    assert line.startswith(
        "midspan: error: plugin 'twice': acme-twice-one 1.4 and acme-twice-two 1.4 bring the same id"
    )
    (answer,) = outcome.answers
    assert answer["error"]["message"] == line.replace("midspan: error: ", "midspan: ")
    assert outcome.imported == []


def test_a_client_that_probes_for_the_stateless_era_learns_why_on_both_requests(run: Callable[..., Outcome]) -> None:
    outcome = run("--plugin", "raises", methods=("server/discover", "initialize", "tools/list"))
    assert outcome.code == 2
    assert [answer["id"] for answer in outcome.answers] == [1, 2]
    assert all("plugin 'raises' (acme-raises 1.4)" in answer["error"]["message"] for answer in outcome.answers)


def test_broken_distributions_that_are_not_enabled_harm_nothing_and_are_not_imported(
    run: Callable[..., Outcome],
) -> None:
    outcome = run("--plugin", "good", methods=("initialize", "tools/call"))
    assert (outcome.code, outcome.stderr) == (0, "")
    (initialized, denied) = sorted(outcome.answers, key=lambda answer: answer["id"])
    assert initialized["result"] == {"echo": "initialize"}
    assert denied["result"]["isError"] is True
    assert outcome.imported == ["fake_good"]


def test_with_nothing_enabled_no_plugin_is_imported_and_messages_pass(run: Callable[..., Outcome]) -> None:
    outcome = run(methods=("initialize", "tools/call"))
    assert (outcome.code, outcome.imported) == (0, [])
    assert [answer["result"] for answer in outcome.answers] == [{"echo": "initialize"}, {"echo": "tools/call"}]
