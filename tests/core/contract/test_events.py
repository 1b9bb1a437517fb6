"""Event patterns: what they match, cover and share."""

from __future__ import annotations

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
