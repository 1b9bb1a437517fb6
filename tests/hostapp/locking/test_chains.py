"""Chains of several servers against the lock."""

from __future__ import annotations

import pytest

from midspan.locking import BuiltChain, Lock
from midspan_sdk import Chain, mutator


@mutator(events=["tools/call"], phase="request", priority_hint=5)
def first(payload: dict[str, object]) -> None: ...


def chain(priority: int | None = None) -> BuiltChain:
    built = Chain()
    built.add(first, overrides={} if priority is None else {"first": {"priority_hint": priority}})
    return BuiltChain(entries=built.entries, instances=())


@pytest.fixture
def lock() -> Lock:
    return Lock.of([], {"*": chain(), "dev": chain(), "prod": chain()})


def told(lock: Lock, *, whole: bool = False, **chains: BuiltChain) -> list[str]:
    return [str(one) for one in lock.differences_of_chains(chains, whole=whole)]


def test_equal_chains_do_not_differ(lock: Lock) -> None:
    assert told(lock, dev=chain(), prod=chain(5)) == []


def test_the_server_is_named_when_not_all_differ(lock: Lock) -> None:
    assert told(lock, dev=chain(), prod=chain(6)) == [
        "first for prod: priority (request): expected 5, found 6",
        "first for prod: priority (response): expected 5, found 6",
    ]


def test_what_differs_alike_is_told_once(lock: Lock) -> None:
    assert len(told(lock, dev=chain(6), prod=chain(6))) == 2


def test_a_server_that_is_not_in_the_lock_differs(lock: Lock) -> None:
    assert told(lock, dev=chain(), lab=chain()) == ["the chain of server 'lab': expected no such server, found one"]


def test_a_server_that_is_only_in_the_lock_differs_when_all_were_built(lock: Lock) -> None:
    assert told(lock, dev=chain(), prod=chain()) == []
    assert told(lock, whole=True, dev=chain(), prod=chain()) == [
        "the chain of a server without a table: expected one, found no such server"
    ]
