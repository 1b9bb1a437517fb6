"""Event patterns: what they match, cover and share."""

from __future__ import annotations

from typing import get_args

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midspan_sdk import events

PATTERNS = st.lists(st.sampled_from(["a", "b", "/", "*", "."]), max_size=5).map("".join)
NAMES = st.lists(st.sampled_from(["a", "b", "/", "."]), max_size=6).map("".join)


@given(PATTERNS, PATTERNS, NAMES)
def test_a_wider_pattern_matches_whatever_a_narrower_one_does(wider: str, narrower: str, name: str) -> None:
    if events.covers(wider, narrower) and events.matches(narrower, name):
        assert events.matches(wider, name)


@given(PATTERNS, PATTERNS, NAMES)
def test_patterns_that_match_one_name_overlap(one: str, other: str, name: str) -> None:
    if events.matches(one, name) and events.matches(other, name):
        assert events.overlaps(one, other)
        assert events.overlaps(other, one)


@given(PATTERNS)
def test_a_pattern_covers_and_overlaps_itself(pattern: str) -> None:
    assert events.covers(pattern, pattern)
    assert events.overlaps(pattern, pattern)
    assert events.covers("*", pattern)


@given(PATTERNS, NAMES)
def test_a_pattern_matches_as_a_reference_matcher_does(pattern: str, name: str) -> None:
    assert events.matches(pattern, name) is reference(pattern, name)


def reference(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(reference(pattern[1:], name[index:]) for index in range(len(name) + 1))
    return bool(name) and name[0] == pattern[0] and reference(pattern[1:], name[1:])


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("tools/*", "*/list", True),
        ("tools/*", "prompts/*", False),
        ("*/list", "*/call", False),
        ("tools/call", "tools/*", True),
        ("tools/call", "tools/list", False),
        ("a*b", "ab*", True),
    ],
)
def test_two_patterns_share_an_event_or_not(one: str, other: str, shared: bool) -> None:
    assert events.overlaps(one, other) is shared


def test_any_of_several_patterns_is_enough() -> None:
    assert events.matches_any(["a", "b*"], "bc")
    assert not events.matches_any([], "bc")


def test_a_pattern_with_many_stars_does_not_hang_on_a_long_name() -> None:
    assert not events.matches("*a" * 12 + "*b", "a" * 2000)


def test_the_methods_of_the_protocol_are_those_of_all_revisions_of_the_mcp_sdk() -> None:
    def requests_and_notifications(*unions: object) -> set[str]:
        found: set[str] = set()
        for union in unions:
            for model in get_args(union):
                found |= set(get_args(model.model_fields["method"].annotation))
        return found

    client = requests_and_notifications(mcp_types.ClientRequest, mcp_types.ClientNotification)
    server = requests_and_notifications(mcp_types.ServerRequest, mcp_types.ServerNotification)
    assert client - set(events.CLIENT_METHODS) == set()
    assert server - set(events.SERVER_METHODS) == set()
    assert set(events.METHODS) == {*events.CLIENT_METHODS, *events.SERVER_METHODS}
    assert list(events.METHODS) == sorted(events.METHODS)


def test_a_notification_is_told_by_its_name() -> None:
    assert events.is_notification("notifications/progress")
    assert not events.is_notification("tools/call")
