"""The corpus: true cases, near misses and hostile names, against the interceptors of a real chain."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midspan_sdk import Chain, ChainExecutionResult, ValidationResult

CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text("utf-8"))["case"]


def _config(case: dict[str, Any]) -> dict[str, Any]:
    return {key: case[key] for key in ("allow", "deny", "default") if key in case}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"].replace(" ", "-"))
def test_the_corpus_is_decided_as_it_says(
    case: dict[str, Any], mount: Callable[..., Chain], execute: Callable[..., ChainExecutionResult]
) -> None:
    chain = mount(_config(case))
    for name in case["allowed"]:
        result = execute(chain, "tools/call", "request", {"name": name})
        assert result.status == "success", f"{name!r} was denied: {result.aborted_at}"
    for name, rule in case["denied"].items():
        result = execute(chain, "tools/call", "request", {"name": name})
        (verdict,) = [outcome.value for outcome in result.outcomes]
        assert isinstance(verdict, ValidationResult)
        assert (result.status, verdict.info) == ("validation_failed", {"rule": rule}), repr(name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"].replace(" ", "-"))
def test_a_listing_of_the_corpus_shows_what_may_be_called(
    case: dict[str, Any], mount: Callable[..., Chain], execute: Callable[..., ChainExecutionResult]
) -> None:
    names = [*case["denied"], *case["allowed"]]
    listed = execute(
        mount(_config(case)), "tools/list", "response", {"tools": [{"name": name} for name in names]}
    ).final_payload
    assert listed == {"tools": [{"name": name} for name in case["allowed"]]}


def test_the_corpus_has_every_kind_of_case() -> None:
    assert {case["kind"] for case in CASES} == {"true", "near", "hostile"}
