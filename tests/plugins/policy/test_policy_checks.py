"""What the plugin says of its own mount."""

from collections.abc import Callable

import pytest

from midspan_sdk import Problem

ProblemsError = Callable[..., list[Problem]]

DENY = {"deny": ["delete_*"]}
DRY = {"deny": ["delete_*"], "dry_run": True}


def test_a_policy_that_is_enforced_has_no_problems(problems: ProblemsError) -> None:
    assert problems(DENY) == []
    assert problems({"allow": ["read_*", "❤"], "deny": ["a.b-c/d_*"]}) == []


def test_audit_mode_without_a_dry_run_is_an_error_that_names_the_option(problems: ProblemsError) -> None:
    (problem,) = problems(DENY, overrides={"policy.call": {"mode": "audit"}})
    assert (problem.severity, problem.interceptor) == ("error", "policy.call")
    assert "cannot block in audit mode" in problem.message
    assert "dry_run = true" in problem.message


def test_a_dry_run_is_a_warning(problems: ProblemsError) -> None:
    (problem,) = problems(DRY)
    assert problem.severity == "warning"
    assert "dry run" in problem.message


@pytest.mark.parametrize("name", ["policy.call", "policy.listing"])
def test_a_dry_run_that_is_overridden_is_an_error(name: str, problems: ProblemsError) -> None:
    errors = [one for one in problems(DRY, overrides={name: {"mode": "active"}}) if one.severity == "error"]
    assert [one.interceptor for one in errors] == [name]
    assert "dry_run" in errors[0].message


def test_a_policy_whose_enforcing_interceptor_is_switched_off_is_an_error(problems: ProblemsError) -> None:
    (problem,) = problems(DENY, without="policy.call")
    assert problem.severity == "error"
    assert "tools/call" in problem.message


def test_unfiltered_listings_are_a_warning(problems: ProblemsError) -> None:
    (switched_off,) = problems(DENY, without="policy.listing")
    (recorded,) = problems(DENY, overrides={"policy.listing": {"mode": "audit"}})
    assert switched_off.severity == recorded.severity == "warning"
    assert "visible" in switched_off.message
    assert recorded.interceptor == "policy.listing"


def test_failing_open_is_a_warning(problems: ProblemsError) -> None:
    (problem,) = problems(DENY, overrides={"policy.call": {"failOpen": True}})
    assert (problem.severity, problem.interceptor) == ("warning", "policy.call")


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"deny": ["a", "get_?"]}, "deny[1] ('get_?'): '?' stands for itself"),
        ({"allow": ["get_[ab]"]}, "allow[0] ('get_[ab]'): '[' stands for itself"),
        ({"allow": ["{a,b}"]}, "allow[0] ('{a,b}'): '{' stands for itself"),
        ({"allow": ["read\u200b_file"]}, "allow[0] ('read\\u200b_file') has invisible characters"),
        ({"allow": ["read "]}, "allow[0] ('read ') starts or ends with white space"),
        ({"deny": [" delete"]}, "deny[0] (' delete') starts or ends with white space"),
    ],
)
def test_a_pattern_that_hardly_means_what_it_says_is_a_warning(
    table: dict[str, list[str]], line: str, problems: ProblemsError
) -> None:
    (problem,) = problems(table)
    assert problem.severity == "warning"
    assert line in problem.message
