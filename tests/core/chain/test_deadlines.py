"""Deadlines: an entry's by its own policy, the chain's always blocks."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

import anyio
import pytest

from midspan_sdk import AbortedAt, Chain, FailedResult, mutator, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo"}
NEW: dict[str, Any] = {"name": "new"}
ON_CALLS: dict[str, Any] = {"events": ["tools/call"], "phase": "request"}
HANGS = {"interceptor": "it", "timeoutMs": 20, "phase": "request"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def hangs() -> None:
    await anyio.sleep_forever()


async def swallows_its_cancellation() -> None:
    # A handler that does this must not pass for one that was in time.
    with contextlib.suppress(BaseException):
        await anyio.sleep_forever()


async def spins_before_it_awaits() -> None:
    spin(0.03)
    await anyio.lowlevel.checkpoint()


async def could_await_but_spins() -> None:
    spin(0.03)
    if CALL == NEW:
        await anyio.lowlevel.checkpoint()


def spins() -> None:
    spin(0.03)


async def spins_without_await() -> None:
    spin(0.03)


HANDLERS = [
    hangs,
    swallows_its_cancellation,
    spins_before_it_awaits,
    could_await_but_spins,
    spins,
    spins_without_await,
]


@pytest.mark.parametrize("decorate", [validator, mutator])
@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_an_entry_that_is_late_failed_with_a_timeout(decorate: Any, handler: Any) -> None:
    result = call(decorate(**ON_CALLS, name="it", timeout=0.02)(handler))
    assert result.status == "timeout"
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error == {"code": -32000, "message": "Interceptor execution timeout", "data": HANGS}
    assert result.aborted_at is not None
    assert (result.aborted_at.interceptor, result.aborted_at.reason) == ("it", "no result within 20 ms")


@pytest.mark.parametrize("decorate", [validator, mutator])
@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
@pytest.mark.parametrize("policy", [{"fail_open": True}, {"mode": "audit"}], ids=str)
def test_an_entry_s_timeout_let_pass_leaves_success(decorate: Any, handler: Any, policy: dict[str, Any]) -> None:
    result = call(decorate(**ON_CALLS, name="it", timeout=0.02, **policy)(handler))
    assert result.status == "success"
    assert result.aborted_at is None
    assert isinstance(result.results[0], FailedResult)


def late_change() -> dict[str, Any]:
    spin(0.03)
    return NEW


async def late_async_change() -> dict[str, Any]:
    spin(0.03)
    return NEW


@pytest.mark.parametrize("handler", [late_change, late_async_change])
def test_a_late_mutator_s_change_is_not_applied(handler: Any) -> None:
    late = mutator(**ON_CALLS, name="it", timeout=0.02)(handler)
    assert call(late).status == "timeout"
    skipped = call(late, overrides={"it": {"fail_open": True}})
    assert skipped.status == "success"
    assert skipped.final_payload is CALL


def test_the_default_deadline_of_a_local_entry_is_a_second_and_an_override_replaces_it() -> None:
    chain = Chain()
    chain.add(validator(**ON_CALLS, name="a")(hangs))
    chain.add(validator(**ON_CALLS, name="b", timeout=0.25)(hangs))
    chain.add(validator(**ON_CALLS, name="c", timeout=0.25)(hangs), overrides={"c": {"timeout_ms": 70}})
    assert [entry.timeout for entry in chain.entries] == [1.0, 0.25, 0.07]


@pytest.mark.parametrize("policy", [{}, {"fail_open": True}, {"mode": "audit"}], ids=str)
@pytest.mark.parametrize("decorate", [validator, mutator])
@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_the_chain_s_own_deadline_always_blocks(decorate: Any, handler: Any, policy: dict[str, Any]) -> None:
    result = call(decorate(**ON_CALLS, name="it", timeout=10, **policy)(handler), timeout_ms=20)
    assert result.status == "timeout"
    assert result.final_payload is None
    assert result.aborted_at == AbortedAt(
        interceptor="chain", reason="the chain did not finish within 20 ms", type="chain"
    )


def test_the_chain_s_deadline_bounds_the_whole_run_of_entries_that_are_each_in_time() -> None:
    @mutator(**ON_CALLS, name="m", timeout=10)
    async def slow_mutator() -> None:
        await anyio.sleep(0.015)

    @validator(**ON_CALLS, name="v", timeout=10)
    async def slow_validator() -> None:
        await anyio.sleep(0.015)

    assert call(slow_mutator, slow_validator, timeout_ms=5000).status == "success"
    assert call(slow_mutator, slow_validator, timeout_ms=20).status == "timeout"


@pytest.mark.anyio
async def test_a_chain_has_a_deadline_of_its_own_and_an_execution_may_have_another() -> None:
    chain = Chain(timeout=0.02)
    chain.add(validator(**ON_CALLS, name="it", timeout=0.2, fail_open=True)(hangs))
    with anyio.fail_after(5):
        own = await chain.execute(event="tools/call", phase="request", payload=CALL)
        other = await chain.execute(event="tools/call", phase="request", payload=CALL, timeout_ms=2000)
    assert (own.status, other.status) == ("timeout", "success")


@pytest.mark.parametrize("timeout_ms", [0, -5])
def test_a_deadline_of_an_execution_must_be_positive(timeout_ms: int) -> None:
    with pytest.raises(ValueError, match="timeout_ms must be a positive number of milliseconds"):
        call(validator(**ON_CALLS, name="it")(hangs), timeout_ms=timeout_ms)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_a_deadline_of_a_chain_must_be_positive(timeout: float) -> None:
    with pytest.raises(ValueError, match=r"^timeout must be a positive number of seconds"):
        Chain(timeout=timeout)
    with pytest.raises(ValueError, match=r"^observer_timeout must be a positive number of seconds"):
        Chain(observer_timeout=timeout)


def test_a_late_handler_does_not_hold_the_others() -> None:
    finished: list[str] = []

    @validator(**ON_CALLS, name="quick")
    async def quick() -> None:
        await anyio.lowlevel.checkpoint()
        finished.append("quick")

    result = call(validator(**ON_CALLS, name="it", timeout=0.02, fail_open=True)(hangs), quick)
    assert result.status == "success"
    assert finished == ["quick"]
