"""The plugin's README: its examples work and its numbers are right."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from midspan_sdk import Chain, ChainExecutionResult

README = (Path(__file__).parents[3] / "plugins" / "policy" / "README.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return found


def test_the_config_of_the_readme_does_what_it_says(
    mount: Callable[..., Chain], execute: Callable[..., ChainExecutionResult]
) -> None:
    chain = mount(tomllib.loads(block("toml"))["plugins"]["policy"]["config"])
    for name, status in {
        "read_file": "success",
        "write_file": "validation_failed",
        "read_secret": "validation_failed",
    }.items():
        assert execute(chain, "tools/call", "request", {"name": name}).status == status


def test_the_chain_of_the_readme_denies(execute: Callable[..., ChainExecutionResult]) -> None:
    scope: dict[str, Any] = {}
    exec(block("python"), scope)
    chain = scope["chain"]
    assert isinstance(chain, Chain)
    assert execute(chain, "tools/call", "request", {"name": "delete_file"}).status == "validation_failed"


def test_the_readme_states_the_size_of_the_corpus() -> None:
    cases = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text("utf-8"))["case"]
    denied = sum(len(case["denied"]) for case in cases)
    passing = sum(len(case["allowed"]) for case in cases)
    assert f"{denied} names that must be\ndenied by the rule stated there, and {passing} that must pass" in README
