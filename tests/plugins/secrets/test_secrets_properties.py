"""Laws: what has no secret comes back identical, and no planted secret survives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midspan_sdk.payload import find_text
from midspan_secrets import KINDS, SecretsConfig, redact
from tests.plugins.secrets.corpus import MAKERS, Maker

# The machine may be busy; what these tests are about is no matter of time.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

CONFIG = SecretsConfig()

FRAGMENTS = st.sampled_from(
    ["AKIA", "ghp_", "sk-", "eyJ", ".", "-----BEGIN ", "secret key", "=", "xoxb-", "AccountKey="]
)
TEXT = st.text(max_size=12) | st.lists(FRAGMENTS, max_size=4).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(TEXT, children, max_size=4)
        | st.builds(json.dumps, children)
        | st.builds(json.dumps, children, ensure_ascii=st.just(False), indent=st.just(2))
    ),
    max_leaves=20,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=4)

# A token ends where its own characters do, so what stands around it here is none of them.
AROUND = st.text(st.sampled_from(" \n\t\"'(){}<>:;,é漢😀\u200b\u0301\\|"), max_size=4)
Wrap = Callable[[Any], Any]
WRAPS: list[Wrap] = [
    lambda inner: [1, inner],
    lambda inner: {"a": inner, "b": 1.0},
    lambda inner: {inner: 1} if isinstance(inner, str) else {"c": inner},
    lambda inner: json.dumps({"j": inner}),
    lambda inner: json.dumps([inner], ensure_ascii=False, indent=1),
]


@given(OBJECT)
@UNHURRIED
def test_a_payload_without_a_secret_comes_back_identical(payload: dict[str, Any]):
    before = json.dumps(payload)
    assert redact(payload, CONFIG) is None
    assert json.dumps(payload) == before


@pytest.mark.parametrize("kind", sorted(MAKERS))
@given(
    seed=st.integers(),
    number=st.integers(0, 20),
    before=AROUND,
    after=AROUND,
    wraps=st.lists(st.sampled_from(WRAPS), max_size=5),
    around=OBJECT,
    member=st.sampled_from(["arguments", "content", "structuredContent", "error", "data"]),
)
@settings(UNHURRIED, max_examples=25)
def test_a_planted_secret_never_survives(
    kind: str,
    seed: int,
    number: int,
    before: str,
    after: str,
    wraps: list[Wrap],
    around: dict[str, Any],
    member: str,
):
    makers = MAKERS[kind]
    secret = makers[number % len(makers)](Maker(str(seed)))
    planted: Any = f"{before}{secret}{after}"
    for wrap in wraps:
        planted = wrap(planted)
    result = redact({**around, member: planted}, CONFIG)
    assert result is not None
    assert secret not in json.dumps(result.payload, ensure_ascii=False)
    assert not any(secret in text.value for text in find_text(result.payload))
    assert result.payload.keys() == {**around, member: planted}.keys()


def test_every_kind_with_a_beginning_of_its_own_is_planted():
    assert set(KINDS) - set(MAKERS) == {"aws-secret-access-key", "azure-storage-key", "private-key", "slack-webhook"}
