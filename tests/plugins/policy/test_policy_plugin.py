"""What the plugin contributes and how it is found."""

import importlib.metadata
from collections.abc import Callable

import midspan_policy
from midspan_policy import PolicyConfig, midspan_interceptors
from midspan_sdk import Chain, ChainExecutionResult


def test_the_entry_point_of_the_distribution_names_the_module() -> None:
    (found,) = importlib.metadata.entry_points(group="midspan.plugins", name="policy")
    assert found.dist is not None
    assert found.dist.name == "midspan-policy"
    assert found.load() is midspan_policy


def test_the_public_names_are_the_config_and_the_hooks() -> None:
    assert midspan_policy.__all__ == ["PolicyConfig", "midspan_checks", "midspan_config", "midspan_interceptors"]
    public = {
        name for name, value in vars(midspan_policy).items() if getattr(value, "__module__", "") == "midspan_policy"
    }
    assert public <= set(midspan_policy.__all__)


def test_it_contributes_one_validator_and_one_mutator(mount: Callable[..., Chain]) -> None:
    wire = [entry.descriptor.to_wire() for entry in mount({"deny": ["x"]}).entries]
    schema = PolicyConfig.model_json_schema(by_alias=True)
    assert wire == [
        {
            "name": "policy.call",
            "description": "Deny calls of tools that the policy does not allow.",
            "type": "validation",
            "hooks": [{"events": ["tools/call"], "phase": "request"}],
            "configSchema": schema,
        },
        {
            "name": "policy.listing",
            "description": "Hide tools whose calls the policy denies.",
            "type": "mutation",
            "hooks": [{"events": ["tools/list"], "phase": "response"}],
            "priorityHint": {"response": -1000},
            "configSchema": schema,
        },
    ]


def test_a_dry_run_contributes_interceptors_in_audit_mode(mount: Callable[..., Chain]) -> None:
    assert {entry.mode for entry in mount({"deny": ["x"], "dry_run": True}).entries} == {"audit"}
    assert {entry.mode for entry in mount({"deny": ["x"]}).entries} == {"active"}


def test_a_chain_without_a_host_takes_the_interceptors_as_they_are(
    execute: Callable[..., ChainExecutionResult],
) -> None:
    chain = Chain()
    chain.add(*midspan_interceptors(config=PolicyConfig(deny=("delete_*",))))
    assert execute(chain, "tools/call", "request", {"name": "delete_x"}).status == "validation_failed"
    assert execute(chain, "tools/call", "request", {"name": "read_x"}).status == "success"
