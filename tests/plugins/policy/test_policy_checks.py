"""What the plugin says of its own mount."""

from collections.abc import Callable

import pytest

from midspan_sdk import Problem

ProblemsError = Callable[..., list[Problem]]

DENY = {"deny": ["delete_*"]}
DRY = {"deny": ["delete_*"], "dry_run": True}


def test_a_policy_that_is_enforced_has_no_problems(problems: ProblemsError) -> None:
    assert problems(DENY) == []
    assert problems({"allow": ["read_*", "❤"], "deny": ["read_a.b-c/d_*"]}) == []


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


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"deny": ["delete_*", "rm", "delete_all"]},
            "deny[2] ('delete_all') never decides: deny[0] ('delete_*') matches all of it before; remove one of "
            "the two",
        ),
        (
            {"deny": ["ｒｍ", "rm"]},
            "deny[1] ('rm') never decides: deny[0] ('ｒｍ') matches all of it before; remove one of the two",
        ),
        (
            {"allow": ["read_*", "read_*"]},
            "allow[1] ('read_*') never decides: allow[0] ('read_*') matches all of it before; remove one of the two",
        ),
        (
            {"allow": ["read_*"], "deny": ["delete_*"]},
            "deny[0] ('delete_*') never matters: no allow pattern matches any of it, so that it is denied anyway; "
            "remove it",
        ),
    ],
)
def test_a_rule_that_never_decides_is_a_warning(
    config: dict[str, object], message: str, problems: ProblemsError
) -> None:
    (problem,) = problems(config)
    assert (problem.severity, problem.message, problem.interceptor) == ("warning", message, None)


@pytest.mark.parametrize(
    "config",
    [
        {"deny": ["delete_all", "delete_*"]},  # the first names itself in denials
        {"allow": ["rｍ", "rm"]},  # an allow is matched to the letter
        {"allow": ["*_file"], "deny": ["delete_*"]},
        {"allow": ["read*"], "deny": ["rｅad_secret"]},
        {"allow": ["*m", "ls"], "deny": ["r*m"]},
    ],
)
def test_a_rule_that_decides_at_times_is_no_problem(config: dict[str, object], problems: ProblemsError) -> None:
    assert problems(config) == []
