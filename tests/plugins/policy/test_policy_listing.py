"""What a listing shows."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from midspan_sdk import Chain, ChainExecutionResult, Interceptor, mutator

Mount = Callable[..., Chain]
Execute = Callable[..., ChainExecutionResult]


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "zebra": 1, "description": f"does {name}", "inputSchema": {"type": "object", "x-y": None}}


def test_a_denied_tool_is_hidden_and_all_else_of_the_listing_stays(mount: Mount, execute: Execute) -> None:
    def text(*names: str) -> str:
        result = {
            "x-first": [None, 1.0, 2**60 + 1],
            "tools": [tool(name) for name in names],
            "nextCursor": "c2",
            "_meta": {"io.modelcontextprotocol/x": 1, "é": "😀"},
            "ttlMs": 5,
        }
        return json.dumps(result, ensure_ascii=False)

    listing = json.loads(text("b_read", "delete_all", "a_read", "delete_some"))
    result = execute(mount({"deny": ["delete_*"]}), "tools/list", "response", listing)
    assert json.dumps(result.final_payload, ensure_ascii=False) == text("b_read", "a_read")


def test_the_result_counts_the_hidden_tools_by_rule(mount: Mount, execute: Execute) -> None:
    listing = {"tools": [tool("read"), tool("delete_a"), tool("delete_b"), tool("other"), {"title": "no name"}]}
    result = execute(mount({"allow": ["read"], "deny": ["delete_*"]}), "tools/list", "response", listing)
    (outcome,) = result.to_wire()["results"]
    assert outcome["info"] == {"hidden": {"deny[0]": 2, "default": 1, "unnamed": 1}}


def test_a_listing_with_nothing_to_hide_is_not_touched(mount: Mount, execute: Execute) -> None:
    listing = {"tools": [tool("read"), tool("write")], "nextCursor": "c"}
    result = execute(mount({"deny": ["delete_*"]}), "tools/list", "response", listing)
    assert result.final_payload is listing
    assert not result.modified


@pytest.mark.parametrize("listing", [{}, {"tools": []}, {"tools": None}, {"resultType": "complete"}])
def test_a_listing_without_tools_passes(listing: dict[str, Any], mount: Mount, execute: Execute) -> None:
    result = execute(mount({"allow": ["read"]}), "tools/list", "response", listing)
    assert result.status == "success"
    assert result.final_payload is listing


@pytest.mark.parametrize("entry", [{}, {"name": 5}, {"name": None}, {"name": ["read"]}, "read", None, ["read"]])
def test_an_entry_that_names_no_tool_is_hidden(entry: object, mount: Mount, execute: Execute) -> None:
    result = execute(mount({"deny": ["delete_*"]}), "tools/list", "response", {"tools": [entry, tool("read")]})
    assert result.final_payload == {"tools": [tool("read")]}


@pytest.mark.parametrize("tools", [{"delete_all": {}}, "delete_all", 1])
def test_a_listing_that_cannot_be_filtered_is_blocked(tools: object, mount: Mount, execute: Execute) -> None:
    result = execute(mount({"deny": ["delete_*"]}), "tools/list", "response", {"tools": tools})
    assert result.status == "mutation_failed"
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "`tools` of the listing is not a list"


def test_a_dry_run_shows_everything_and_records_what_it_would_hide(mount: Mount, execute: Execute) -> None:
    listing = {"tools": [tool("read"), tool("delete_a")]}
    result = execute(mount({"deny": ["delete_*"], "dry_run": True}), "tools/list", "response", listing)
    assert result.final_payload is listing
    (outcome,) = result.to_wire()["results"]
    assert outcome["info"] == {"hidden": {"deny[0]": 1}}


def renaming() -> Interceptor[..., Any]:
    @mutator(events=["tools/list"], phase="response", name="a.prefix", priority_hint=-5)
    def prefix(payload: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [{"name": f"files.{tool['name']}"} for tool in payload["tools"]]}

    return prefix


def test_tools_are_hidden_by_the_names_the_server_gave_them(mount: Mount, execute: Execute) -> None:
    chain = mount({"allow": ["read"]})
    chain.add(renaming())
    listing = {"tools": [{"name": "read"}, {"name": "write"}]}
    assert execute(chain, "tools/list", "response", listing).final_payload == {"tools": [{"name": "files.read"}]}


def test_an_operator_can_have_tools_hidden_by_their_new_names(mount: Mount, execute: Execute) -> None:
    chain = mount({"allow": ["files.read"]}, overrides={"policy.listing": {"priorityHint": 1000}})
    chain.add(renaming())
    listing = {"tools": [{"name": "read"}, {"name": "write"}]}
    assert execute(chain, "tools/list", "response", listing).final_payload == {"tools": [{"name": "files.read"}]}
