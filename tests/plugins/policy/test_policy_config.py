"""Configs: what is refused, and with which line."""

from typing import Any

import pytest
from pydantic import ValidationError

from midspan_policy import PolicyConfig


def refusal(table: dict[str, Any]) -> tuple[tuple[int | str, ...], str]:
    with pytest.raises(ValidationError) as caught:
        PolicyConfig.model_validate(table)
    (error,) = caught.value.errors()
    return error["loc"], error["msg"]


@pytest.mark.parametrize(
    "table",
    [
        {"deny": ["a"]},
        {"allow": ["a"]},
        {"allow": ["a*"], "deny": ["ab*"]},
        {"allow": ["*"], "deny": ["b"]},
        {"allow": ["a"], "default": "deny"},
        {"deny": ["a"], "default": "allow"},
        {"deny": ["*"]},
        {"deny": ["a", "a"]},
        {"allow": ["❤\ufe0f"], "dry_run": True},
    ],
)
def test_a_policy_that_can_do_what_it_says_is_taken(table: dict[str, Any]) -> None:
    PolicyConfig.model_validate(table)


@pytest.mark.parametrize(
    ("table", "location", "line"),
    [
        ({}, (), "the policy is empty; name tools in `deny`"),
        ({"default": "allow"}, (), "the policy is empty; name tools in `deny`"),
        ({"dry_run": True}, (), "the policy is empty; name tools in `deny`"),
        ({"default": "deny"}, (), "denies every tool; name tools in `allow`"),
        ({"deny": ["a"], "default": "deny"}, (), "denies every tool; name tools in `allow`"),
        ({"allow": ["a"], "default": "allow"}, (), "`allow` has no effect"),
        ({"allow": ["*"]}, (), "allows every tool and denies none"),
        ({"allow": ["a", "**"]}, (), "allows every tool and denies none"),
        ({"allow": [""]}, ("allow", 0), "is empty; write a tool name"),
        ({"deny": ["a", ""]}, ("deny", 1), "is empty; write a tool name"),
        ({"deny": ["\u200b"]}, ("deny", 0), "invisible characters"),
        ({"deny": ["*\u200b*"]}, ("deny", 0), "invisible characters"),
        ({"deny": ["a", "b*\u0301"]}, ("deny", 1), "combining marks"),
        ({"deny": "delete_*"}, ("deny",), "must be a list of tool-name globs, for example ['delete_*']"),
        ({"allow": {"read": True}}, ("allow",), "must be a list of tool-name globs"),
        ({"deny": [5]}, ("deny", 0), "should be a valid string"),
        ({"deny": ["a"], "default": "ask"}, ("default",), "'allow' or 'deny'"),
        ({"deny": ["a"], "dry_run": "no"}, ("dry_run",), "should be a valid boolean"),
        ({"deny": ["a"], "denied": []}, ("denied",), "not permitted"),
    ],
)
def test_a_config_that_cannot_do_what_it_says_is_refused_with_a_line(
    table: dict[str, Any], location: tuple[int | str, ...], line: str
) -> None:
    where, message = refusal(table)
    assert where == location
    assert line in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("allow", "deny"),
    [
        ("a", "a"),
        ("delete_*", "delete_*"),
        ("delete_all", "delete_*"),
        ("delete_*_now", "delete_*"),
        ("a", "*"),
        ("*", "**"),
        ("ｄelete", "delete"),
        ("a*\u200bb", "a*b"),
    ],
)
def test_an_allow_that_a_deny_takes_back_is_refused_and_both_are_named(allow: str, deny: str) -> None:
    _, message = refusal({"allow": ["other", allow] if deny.strip("*") else [allow], "deny": ["else", deny]})
    assert f"({allow!r}) can never allow anything: deny[1] ({deny!r})" in message


def test_a_deny_that_takes_back_a_part_of_an_allow_is_fine() -> None:
    for allow, deny in [("delete_*", "delete_all"), ("*", "a*"), ("a*c", "a*b*c"), ("a*", "*a"), ("a＊b", "a＊bc*")]:
        PolicyConfig(allow=(allow,), deny=(deny,))


def test_equal_configs_are_equal_whether_or_not_they_have_decided_something() -> None:
    one, other = PolicyConfig(deny=("a",)), PolicyConfig.model_validate({"deny": ["a"]})
    assert one.policy.decide("a").id == "deny[0]"
    assert one == other
    assert one != PolicyConfig(deny=("b",))
    assert one.model_dump() == {"allow": (), "deny": ("a",), "default": None, "dry_run": False}


def test_rules_are_compiled_once_for_a_config() -> None:
    config = PolicyConfig(deny=("a",))
    assert config.policy is config.policy


def test_a_config_cannot_be_changed_after_it_was_checked() -> None:
    config = PolicyConfig(deny=("a",))
    with pytest.raises(ValidationError, match="frozen"):
        config.deny = ()  # pyright: ignore[reportAttributeAccessIssue] - that it is refused is the point


def test_the_schema_of_the_config_describes_every_key() -> None:
    schema = PolicyConfig.model_json_schema()
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {"allow", "deny", "default", "dry_run"}
    assert all(value["description"] for value in schema["properties"].values())
