"""What happens to a call: the verdict, and that it holds for hostile payloads."""

from collections.abc import Callable
from typing import Any

import pytest

from midspan_sdk import Answer, Chain, ChainExecutionResult, ValidationResult, mutator

Mount = Callable[..., Chain]
Execute = Callable[..., ChainExecutionResult]


def verdict_of(result: ChainExecutionResult) -> ValidationResult:
    value = next(outcome.value for outcome in result.outcomes if outcome.entry.name == "policy.call")
    assert isinstance(value, ValidationResult)
    return value


def test_a_denied_call_is_blocked_and_the_verdict_names_the_rule_and_no_argument(
    mount: Mount, execute: Execute
) -> None:
    payload = {"name": "delete_file", "arguments": {"path": "/home/hunter2"}}
    result = execute(mount({"deny": ["drop_*", "delete_*"]}), "tools/call", "request", payload)
    assert result.status == "validation_failed"
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == "policy.call"
    verdict = verdict_of(result)
    assert verdict.to_wire()["messages"] == [
        {
            "message": "tool 'delete_file' is denied by rule deny[1] ('delete_*')",
            "severity": "error",
            "path": "$.name",
        }
    ]
    assert verdict.info == {"rule": "deny[1]"}
    assert "hunter2" not in str(result.to_wire())


def test_a_call_outside_the_allow_list_is_denied_by_the_default(mount: Mount, execute: Execute) -> None:
    result = execute(mount({"allow": ["read_*"]}), "tools/call", "request", {"name": "write_file"})
    assert verdict_of(result).messages[0].message == (
        "tool 'write_file' is denied by rule default (no allow pattern matches)"
    )


def test_an_allowed_call_leaves_as_it_came(mount: Mount, execute: Execute) -> None:
    payload: dict[str, Any] = {"name": "read_file", "arguments": {"a": [1, 2.0, None]}, "_meta": {"x": 1}}
    result = execute(mount({"allow": ["read_*"]}), "tools/call", "request", payload)
    assert result.status == "success"
    assert result.final_payload is payload


@pytest.mark.parametrize(
    "payload", [{}, {"name": None}, {"name": 7}, {"name": ["read_file"]}, {"name": {"name": "read_file"}}]
)
def test_a_call_that_names_no_tool_is_denied(payload: dict[str, Any], mount: Mount, execute: Execute) -> None:
    result = execute(mount({"deny": ["delete_*"]}), "tools/call", "request", payload)
    assert result.status == "validation_failed"
    assert verdict_of(result).info == {"rule": "unnamed"}
    assert verdict_of(result).messages[0].path == "$.name"


@pytest.mark.parametrize("direction", ["sending", "receiving"])
def test_the_policy_holds_in_both_postures(direction: str, mount: Mount, execute: Execute) -> None:
    chain = mount({"deny": ["delete_*"]})
    result = execute(chain, "tools/call", "request", {"name": "delete_all"}, direction=direction)
    assert result.status == "validation_failed"


def test_a_call_that_asks_for_a_task_is_judged_as_any_call(mount: Mount, execute: Execute) -> None:
    payload = {"name": "delete_all", "task": {"ttl": 60000}}
    assert execute(mount({"deny": ["delete_*"]}), "tools/call", "request", payload).status == "validation_failed"


def test_a_later_round_of_a_call_is_judged_as_the_first(mount: Mount, execute: Execute) -> None:
    payload: dict[str, Any] = {"name": "delete_all", "requestState": "opaque", "inputResponses": {}}
    assert execute(mount({"deny": ["delete_*"]}), "tools/call", "request", payload).status == "validation_failed"


def test_a_mutator_that_renames_the_call_does_not_get_around_the_policy(mount: Mount, execute: Execute) -> None:
    @mutator(events=["tools/call"], phase="request", name="rename")
    def rename(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "name": "delete_all"}

    chain = mount({"deny": ["delete_*"]})
    chain.add(rename)
    assert execute(chain, "tools/call", "request", {"name": "harmless"}).status == "validation_failed"


def test_a_mutator_that_answers_does_not_get_around_the_policy(mount: Mount, execute: Execute) -> None:
    @mutator(events=["tools/call"], phase="request", name="cache")
    def cache(payload: dict[str, Any]) -> Answer:
        return Answer({"content": []})

    chain = mount({"deny": ["delete_*"]})
    chain.add(cache)
    result = execute(chain, "tools/call", "request", {"name": "delete_all"})
    assert result.status == "validation_failed"
    assert result.answer is None


HOSTILE = {
    "plain": "a" * 2**20,
    "nearly the pattern": ("ab" * 2**19) + "a",
    "zero-width padding": "delete_" + "\u200b" * 2**20,
    "marks out of order": "\u0345" * 2**19 + "\u0334" * 2**19,
    "long expansions": "\ufdfa" * 2**20,
    "all of unicode": "".join(map(chr, range(0xD7FF))) * 16,
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_name_of_a_mebibyte_is_denied_within_the_deadline(name: str, mount: Mount, execute: Execute) -> None:
    patterns = ["a*" * 50 + "b", "*a" * 50 + "*b", "delete_*"]
    result = execute(mount({"allow": ["*"], "deny": patterns}), "tools/call", "request", {"name": name})
    assert result.status == "validation_failed"  # a deadline that passed would be `timeout`
    verdict = verdict_of(result)
    assert verdict.info == {"rule": "overlong"}
    assert len(verdict.messages[0].message) < 2000


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_longest_name_is_judged_within_the_deadline(name: str, mount: Mount, execute: Execute) -> None:
    patterns = [*(f"{'a*' * 200}x{number}" for number in range(50)), *("*a" * 200 + f"*x{n}*" for n in range(50))]
    chain = mount({"deny": [*patterns, "delete_*"]})
    payload = {"tools": [{"name": name[:1024]}, {"name": name[:1025]}]}
    listed = execute(chain, "tools/list", "response", payload).final_payload
    kept = [] if name.startswith("delete_") else [{"name": name[:1024]}]
    assert listed == {"tools": kept}


def test_a_name_cannot_forge_a_line_of_the_verdict(mount: Mount, execute: Execute) -> None:
    name = "delete_x'\nallowed: \u202etrue\x1b[0m" + "y" * 500
    result = execute(mount({"deny": ["delete_*"]}), "tools/call", "request", {"name": name})
    message = verdict_of(result).messages[0].message
    assert message.isprintable()
    assert len(message) < 250
    assert message.endswith("is denied by rule deny[0] ('delete_*')")


def test_a_config_that_comes_with_an_execution_replaces_the_configured_one(mount: Mount, execute: Execute) -> None:
    chain = mount({"deny": ["delete_*"]})
    config = {"policy.call": {"deny": ["read_*"]}}
    assert execute(chain, "tools/call", "request", {"name": "read_x"}, config=config).status == "validation_failed"
    assert execute(chain, "tools/call", "request", {"name": "delete_x"}, config=config).status == "success"
    broken = execute(chain, "tools/call", "request", {"name": "read_x"}, config={"policy.call": {"deny": []}})
    assert broken.status == "validation_failed"


def test_a_dry_run_records_the_denial_and_lets_the_call_pass(mount: Mount, execute: Execute) -> None:
    result = execute(mount({"deny": ["delete_*"], "dry_run": True}), "tools/call", "request", {"name": "delete_x"})
    assert result.status == "success"
    assert verdict_of(result).info == {"rule": "deny[0]"}
    assert not verdict_of(result).valid


def test_methods_that_run_no_tool_are_none_of_its_business(mount: Mount) -> None:
    chain = mount({"deny": ["*"]})
    assert chain.concerns("tools/call", "request")
    assert chain.concerns("tools/list", "response")
    for event in ("completion/complete", "prompts/get", "resources/read", "tasks/result", "sampling/createMessage"):
        assert not chain.concerns(event, "request")
        assert not chain.concerns(event, "response")
