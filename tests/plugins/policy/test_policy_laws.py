"""Laws that hold for every policy and every name."""

import re
import unicodedata
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from midspan_policy import PolicyConfig, midspan_interceptors
from midspan_sdk import Invocation, InvocationContext, MutationResult, ValidationResult

small = st.text("ab*_", min_size=1, max_size=6)
awkward = st.text(
    st.one_of(st.sampled_from("aeéﬁｆ＊*_ \t\u0301\u0323\u200b\u00ad\ufe0f가ᄀ\u1161각\u0f73"), st.characters()),
    max_size=8,
)
INVOCATION = Invocation(
    interceptor="policy.listing", event="tools/list", phase="response", timeout_ms=1000, context=InvocationContext()
)


def policy(**table: Any) -> PolicyConfig:
    try:
        return PolicyConfig(**table)
    except ValidationError:
        assume(False)
        raise


def denies(config: PolicyConfig, name: str) -> bool:
    call, _ = midspan_interceptors(config=config)
    verdict = call({"name": name}, config)
    assert verdict is None or (isinstance(verdict, ValidationResult) and verdict.blocks)
    return verdict is not None


def reference(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


@given(st.lists(small, min_size=1, max_size=4), st.lists(small, max_size=3), st.text("ab*_", max_size=8))
def test_a_call_is_denied_exactly_when_the_lists_say_so(allow: list[str], deny: list[str], name: str) -> None:
    config = policy(allow=tuple(allow), deny=tuple(deny))
    matched = any(reference(pattern, name) for pattern in allow)
    assert denies(config, name) == (not matched or any(reference(pattern, name) for pattern in deny))


@given(st.lists(awkward.filter(bool), max_size=2), awkward.filter(bool), st.data())
def test_what_a_deny_matches_to_the_letter_is_denied(others: list[str], pattern: str, data: st.DataObject) -> None:
    config = policy(deny=(*others, pattern))
    name = "".join(data.draw(awkward) if character == "*" else character for character in pattern)
    assert reference(pattern, name)
    assert denies(config, name)


@given(awkward.filter(bool), awkward, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]), st.lists(st.integers(0, 8)))
def test_a_denied_name_stays_denied_under_every_spelling(
    pattern: str, name: str, form: Any, positions: list[int]
) -> None:
    config = policy(deny=(pattern,))
    respelled = unicodedata.normalize(form, name)
    for position in positions:
        respelled = respelled[:position] + "\u200b" + respelled[position:]
    assert denies(config, name) == denies(config, respelled)


@given(awkward.filter(bool), awkward)
def test_an_allow_matches_to_the_letter_only(pattern: str, name: str) -> None:
    assert denies(policy(allow=(pattern,)), name) == (not reference(pattern, name))


@given(st.lists(awkward.filter(bool), max_size=2), st.lists(awkward.filter(bool), max_size=2), st.lists(awkward))
def test_a_listing_shows_exactly_the_tools_that_may_be_called(
    allow: list[str], deny: list[str], names: list[str]
) -> None:
    config = policy(allow=tuple(allow), deny=tuple(deny))
    _, listing = midspan_interceptors(config=config)
    mutation = listing({"tools": [{"name": name} for name in names]}, config, INVOCATION)
    assert mutation is None or isinstance(mutation, MutationResult)
    callable_ = [{"name": name} for name in names if not denies(config, name)]
    assert (mutation.payload["tools"] if mutation else [{"name": name} for name in names]) == callable_
    assert (mutation is None) == (len(callable_) == len(names))


@given(small, small, st.lists(st.text("ab_", max_size=8), min_size=1, max_size=20))
def test_a_refused_pair_of_patterns_really_allows_nothing(allow: str, deny: str, names: list[str]) -> None:
    try:
        config = PolicyConfig(allow=(allow,), deny=(deny,))
    except ValidationError:
        assert not any(reference(allow, name) and not reference(deny, name) for name in names)
    else:
        # A letter that no pattern has, in the place of each wildcard, makes a name that is allowed.
        assert not denies(config, allow.replace("*", "z"))
