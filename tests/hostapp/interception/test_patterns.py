"""Which patterns of a server's schema may be matched, and against how long a text."""

from __future__ import annotations

import re
from time import perf_counter

import pytest

from midspan.interception._patterns import is_affordable

USUAL = {
    r"^\d{3}-\d{2}-\d{4}$": 1000,
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$": 1000,
    r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$": 1000,
    r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$": 90,
    r"^(active|archived|deleted)$": 100_000,
    r"^https?://": 100_000,
    r"\S": 100_000,
    r"^[a-z][a-z0-9_]*$": 100_000,
    r"^[]()|+*]+$": 100_000,
    r"^[^]]*\]$": 100_000,
    r"^(?P<year>\d{4})(?=-)": 100_000,
    r"^\(+\)$": 100_000,
    "": 100_000,
}
HARMFUL = {
    r"^(a+)+$": 30,
    r"^(a|a)*$": 30,
    r"^(a|aa)+$": 40,
    r"^((a)+)*b": 30,
    r"^(a?){30}a{30}$": 30,
    r"^" + "a?" * 30 + "a" * 30: 30,
    r"a*a*a*a*a*b": 500,
    r"^.*.*.*.*x$": 500,
    r"(.*)*$": 30,
    r"^(?:a*){5,}$": 30,
    r"^(\w+\s?)*$": 40,
    r"^([a-z]|[a-z0-9])+x$": 40,
    r"(a+)(b|c+){2,5000}d": 40,
}


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_matched(pattern: str) -> None:
    re.compile(pattern)
    assert is_affordable(pattern, USUAL[pattern])


@pytest.mark.parametrize("pattern", HARMFUL)
def test_patterns_that_may_take_for_ever_are_not(pattern: str) -> None:
    re.compile(pattern)
    assert not is_affordable(pattern, HARMFUL[pattern])


@pytest.mark.parametrize("pattern", [*USUAL, *HARMFUL])
@pytest.mark.parametrize("letters", ["a", "aab", "a-", "0", " a"])
def test_what_is_affordable_ends_soon(pattern: str, letters: str) -> None:
    for length in (10, 20, 40, 90, 300, 1000, 10_000):
        if is_affordable(pattern, length):
            text = (letters * length)[: length - 1] + "!"
            began = perf_counter()
            re.search(pattern, text)
            assert perf_counter() - began < 2
