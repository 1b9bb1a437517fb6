"""The official suite counts the same through the gateway as directly."""

from __future__ import annotations

import pytest

from .conformance import EXPECTED, WAYS, expected, reached, run_suite

pytestmark = pytest.mark.npm


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("revision", EXPECTED)
def test_the_official_suite_passes_every_check(revision: str, way: str) -> None:
    with reached(way) as url:
        outcome = run_suite(url, revision)
    assert (outcome.passed, outcome.failed) == (expected(revision, way), 0), outcome.log
