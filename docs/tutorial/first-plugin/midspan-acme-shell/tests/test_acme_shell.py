"""The plugin does what its README says."""

from collections.abc import Mapping
from typing import Any

import midspan_acme_shell
import pytest

from midspan_sdk import ChainExecutionResult, Exchange
from midspan_sdk.testing import check_plugin, interceptors_from, run

CONFIG = {"forbidden": ["rm -rf", "mkfs"], "hide": [".acme.internal"]}


def call(tool: str, command: str, config: Mapping[str, Any] = CONFIG) -> ChainExecutionResult:
    interceptors = interceptors_from(midspan_acme_shell, config=config)
    payload = {"name": tool, "arguments": {"command": command}}
    return run(*interceptors, event="tools/call", phase="request", payload=payload)


def test_a_forbidden_command_is_denied_and_the_verdict_says_where_but_not_what() -> None:
    result = call("shell", "sudo mkfs /dev/sda")
    assert result.status == "validation_failed"
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == "test.forbidden_command"
    assert result.aborted_at.reason == "the command holds a text of rule forbidden[1]"
    (verdict,) = result.to_wire()["results"]
    assert verdict["messages"][0]["path"] == "$.arguments.command"


@pytest.mark.parametrize("command", ["ls", "rm notes.txt", "rm -r -f /"])
def test_any_other_command_passes_as_it_is(command: str) -> None:
    result = call("shell", command)
    assert result.final_payload == {"name": "shell", "arguments": {"command": command}}


def test_a_text_in_full_width_letters_is_still_forbidden() -> None:
    assert call("shell", "\uff52\uff4d -rf /").status == "validation_failed"


def test_other_tools_may_say_what_they_like() -> None:
    assert call("search", "how does rm -rf work").status == "success"


def test_host_names_are_cut_out_of_results_of_shell_tools_only() -> None:
    interceptors = interceptors_from(midspan_acme_shell, config=CONFIG)
    answer = {"content": [{"type": "text", "text": "on build7.acme.internal"}]}
    for tool, text in {"shell": "on build7", "search": "on build7.acme.internal"}.items():
        exchange = Exchange()
        request = {"name": tool, "arguments": {"command": "ls"}}
        run(*interceptors, event="tools/call", phase="request", payload=request, exchange=exchange)
        result = run(*interceptors, event="tools/call", phase="response", payload=answer, exchange=exchange)
        assert result.final_payload == {"content": [{"type": "text", "text": text}]}


def test_the_plugin_conforms() -> None:
    check_plugin(midspan_acme_shell, config=CONFIG)
