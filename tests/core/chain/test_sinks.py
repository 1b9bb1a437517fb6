"""Sinks: in the background, bounded, counted, drained; they never delay and never change a message."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import anyio
import pytest

from midspan_sdk import Chain, ChainError, Exchange, InvocationContext, deny, mutator, sink, validator
from midspan_sdk.testing import run

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "echo", "arguments": {"key": "secret"}}
REDACTED: dict[str, Any] = {"name": "echo", "arguments": {"key": "[redacted]"}}

call = partial(run, event="tools/call", phase="request", payload=CALL)


def recording(seen: list[Any], name: str = "s", **options: Any) -> Any:
    @sink(events=["tools/call"], phase="both", name=name, **options)
    def record(payload: dict[str, Any]) -> None:
        seen.append(payload)

    return record


@mutator(events=["tools/call"], phase="both")
def redact() -> dict[str, Any]:
    return REDACTED


async def execute(chain: Chain, payload: dict[str, Any] = CALL, **options: Any) -> Any:
    return await chain.execute(event="tools/call", phase="request", payload=payload, **options)


def test_a_sink_sees_what_leaves_after_redaction() -> None:
    seen: list[Any] = []
    result = call(recording(seen), redact)
    assert seen == [REDACTED]
    assert [one.interceptor for one in result.results] == ["redact"]


def test_a_sink_that_opts_in_sees_what_arrived() -> None:
    seen: list[Any] = []
    leaves: list[Any] = []
    call(recording(seen, sees="arrived"), recording(leaves, "t"), redact)
    assert seen == [CALL]
    assert leaves == [REDACTED]


def test_on_its_own_a_chain_hands_a_received_message_to_sinks_before_its_mutators() -> None:
    seen: list[Any] = []
    call(recording(seen), redact, phase="response")
    assert seen == [CALL]


def test_late_sinks_see_what_leaves_in_both_directions() -> None:
    seen: list[Any] = []

    async def main() -> None:
        async with Chain(late_sinks=True) as chain:
            chain.add(recording(seen), redact)
            await execute(chain)
            await chain.execute(event="tools/call", phase="response", payload=CALL)

    anyio.run(main)
    assert seen == [REDACTED, REDACTED]


def test_a_received_message_whose_mutator_fails_was_still_seen_by_sinks_unless_they_are_late() -> None:
    @mutator(events=["tools/call"], phase="response")
    def crash(payload: dict[str, Any]) -> None:
        raise RuntimeError

    for late, expected in ((False, [CALL]), (True, [])):
        seen: list[Any] = []

        async def main(late: bool = late, seen: list[Any] = seen) -> None:
            async with Chain(late_sinks=late) as chain:
                chain.add(recording(seen), crash)
                result = await chain.execute(event="tools/call", phase="response", payload=CALL)
                assert result.status == "mutation_failed"

        anyio.run(main)
        assert seen == expected


def test_a_received_message_that_a_validator_denied_reaches_no_sink() -> None:
    @validator(events=["tools/call"], phase="response")
    def no(payload: dict[str, Any]) -> str:
        return "no"

    seen: list[Any] = []
    result = call(recording(seen), no, phase="response")
    assert result.status == "validation_failed"
    assert seen == []


def test_an_audit_mutator_changes_nothing_for_a_sink() -> None:
    seen: list[Any] = []
    call(recording(seen), redact, overrides={"redact": {"mode": "audit"}})
    assert seen == [CALL]


def denies() -> Any:
    return deny("no")


def crashes() -> None:
    raise RuntimeError


@pytest.mark.parametrize(
    "stage",
    [
        validator(events=["*"], phase="both", name="x")(denies),
        validator(events=["*"], phase="both", name="x")(crashes),
        mutator(events=["*"], phase="both", name="x")(crashes),
    ],
)
def test_a_blocked_message_reaches_no_sink(stage: Any) -> None:
    seen: list[Any] = []
    call(stage, recording(seen), recording(seen, "t", sees="arrived"))
    assert seen == []


async def test_a_sink_does_not_delay_the_message() -> None:
    release = anyio.Event()
    seen: list[Any] = []

    @sink(events=["tools/call"], phase="request", timeout=5)
    async def slow(payload: dict[str, Any]) -> None:
        await release.wait()
        seen.append(payload)

    with anyio.fail_after(5):
        async with Chain() as chain:
            chain.add(slow)
            for _ in range(3):
                assert (await execute(chain)).status == "success"
            assert seen == []
            release.set()
    assert len(seen) == 3


async def test_each_sink_has_a_queue_of_its_own_and_works_in_order() -> None:
    release = anyio.Event()
    seen: list[int] = []

    @sink(events=["tools/call"], phase="request", name="stuck", timeout=5)
    async def stuck() -> None:
        await release.wait()

    @sink(events=["tools/call"], phase="request", name="free")
    async def free(payload: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(payload["n"])

    with anyio.fail_after(5):
        async with Chain() as chain:
            chain.add(stuck, free)
            for n in range(20):
                await execute(chain, {"n": n})
            while len(seen) < 20:
                await anyio.lowlevel.checkpoint()
            release.set()
    assert seen == list(range(20))


async def stuck_until(release: anyio.Event, started: anyio.Event, seen: list[Any], payload: dict[str, Any]) -> None:
    started.set()
    await release.wait()
    seen.append(payload["n"])


@pytest.mark.parametrize(
    ("text", "kept"),
    [("", 1024), ("x" * 1024 * 1024, 15)],
    ids=["by count", "by bytes"],
)
async def test_what_does_not_fit_into_the_queue_is_dropped_counted_and_reported(
    text: str, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    release, started = anyio.Event(), anyio.Event()
    seen: list[int] = []

    @sink(events=["tools/call"], phase="request", name="s", timeout=30)
    async def record(payload: dict[str, Any]) -> None:
        await stuck_until(release, started, seen, payload)

    with anyio.fail_after(20):
        async with Chain() as chain:
            chain.add(record)
            await execute(chain, {"n": 0, "text": text})
            await started.wait()
            for n in range(1, kept + 6):
                assert (await execute(chain, {"n": n, "text": text})).status == "success"
            assert chain.dropped == {"s": 5}
            release.set()
    assert seen == list(range(kept + 1))
    assert chain.dropped == {"s": 5}
    assert "s: 5 dropped, 0 failed" in caplog.messages
    assert "s: queue full, 1 dropped so far" in caplog.messages


async def test_a_message_larger_than_the_whole_queue_is_still_taken_when_the_queue_is_empty() -> None:
    seen: list[Any] = []
    async with Chain() as chain:
        chain.add(recording(seen))
        await execute(chain, {"text": "x" * (17 * 1024 * 1024)})
    assert len(seen) == 1
    assert chain.dropped == {"s": 0}


async def test_the_end_of_the_block_drains_the_queues() -> None:
    seen: list[int] = []

    @sink(events=["tools/call"], phase="request")
    async def slow(payload: dict[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(payload["n"])

    async with Chain() as chain:
        chain.add(slow)
        for n in range(100):
            await execute(chain, {"n": n})
    assert seen == list(range(100))


async def test_an_error_in_the_block_comes_out_as_it_is_and_the_queues_are_drained() -> None:
    seen: list[Any] = []

    async def block() -> None:
        async with Chain() as chain:
            chain.add(recording(seen))
            await execute(chain)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    assert seen == [CALL]


async def test_a_drain_ends_after_a_bounded_time_and_what_is_left_counts_as_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("midspan_sdk._chain.DRAIN_TIMEOUT", 0.02)

    @sink(events=["tools/call"], phase="request", name="s", timeout=30)
    async def hangs() -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with Chain() as chain:
            chain.add(hangs)
            for _ in range(3):
                await execute(chain)
    assert chain.dropped == {"s": 3}
    assert "s: 3 dropped, 0 failed" in caplog.messages


async def test_a_cancelled_block_does_not_wait_for_its_sinks() -> None:
    @sink(events=["tools/call"], phase="request", name="s", timeout=30)
    async def hangs() -> None:
        await anyio.sleep_forever()

    chain = Chain()
    with anyio.fail_after(5):
        with anyio.CancelScope() as scope:
            async with chain:
                chain.add(hangs)
                await execute(chain)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
    assert chain.dropped == {"s": 1}


def exits() -> None:
    raise SystemExit(3)


async def cancels_itself() -> None:
    raise asyncio.CancelledError


def own_base_exception() -> None:
    class Stop(BaseException):
        pass

    raise Stop


@pytest.mark.parametrize("handler", [crashes, exits, cancels_itself, own_base_exception])
async def test_a_failing_sink_is_counted_logged_and_goes_on(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    @sink(events=["tools/call"], phase="request", name="s")
    async def fails_first(payload: dict[str, Any]) -> None:
        seen.append(payload["n"])
        if payload["n"] == 0:
            value = handler()
            if value is not None:
                await value

    async with Chain() as chain:
        chain.add(fails_first)
        for n in range(3):
            assert (await execute(chain, {"n": n})).status == "success"
    assert seen == [0, 1, 2]
    assert chain.failed == {"s": 1}
    assert "s: 0 dropped, 1 failed" in caplog.messages
    assert any(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)


async def test_a_sink_has_its_own_deadline(caplog: pytest.LogCaptureFixture) -> None:
    @sink(events=["tools/call"], phase="request", name="s", timeout=0.01)
    async def hangs() -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with Chain() as chain:
            chain.add(hangs)
            await execute(chain)
            await execute(chain)
    assert chain.failed == {"s": 2}
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in failures] == ["s failed: deadline passed"] * 2
    assert all(record.exc_info is None for record in failures)


async def test_the_deadline_of_the_chain_does_not_bound_what_a_sink_does_later() -> None:
    seen: list[Any] = []

    @sink(events=["tools/call"], phase="request", name="s", timeout=5)
    async def slow(payload: dict[str, Any]) -> None:
        await anyio.sleep(0.03)
        seen.append(payload)

    with anyio.fail_after(5):
        async with Chain(timeout=0.02) as chain:
            chain.add(slow)
            for _ in range(2):
                await execute(chain)
    assert chain.failed == {"s": 0}
    assert seen == [CALL, CALL]


async def test_a_sink_outside_of_its_protocol_range_failed_and_the_message_passes() -> None:
    seen: list[Any] = []
    async with Chain() as chain:
        chain.add(recording(seen, compat={"min_protocol": "2026-07-28"}))
        result = await execute(chain, context=InvocationContext(protocol_version="2025-06-18"))
    assert result.status == "success"
    assert seen == []
    assert chain.failed == {"s": 1}


async def test_a_chain_with_sinks_must_be_entered() -> None:
    chain = Chain()
    chain.add(recording([]))
    sentence = "sinks and queued observers work in the background: use `async with chain:`"
    with pytest.raises(ChainError) as caught:
        await execute(chain)
    assert str(caught.value) == sentence
    async with chain:
        assert (await execute(chain)).status == "success"
        with pytest.raises(ChainError, match="already entered"):
            await chain.__aenter__()
    with pytest.raises(ChainError):
        await execute(chain)


async def test_a_chain_can_be_entered_again_and_a_sink_added_later_works_too() -> None:
    first: list[Any] = []
    second: list[Any] = []
    chain = Chain()
    chain.add(recording(first))
    async with chain:
        await execute(chain)
    async with chain:
        chain.add(recording(second, "t"))
        await execute(chain)
    assert (first, second) == ([CALL, CALL], [CALL])


async def test_a_sink_sees_the_message_of_its_time_although_the_caller_edits_it_later() -> None:
    seen: list[Any] = []
    arrived: list[Any] = []
    async with Chain() as chain:
        chain.add(recording(seen), recording(arrived, "t", sees="arrived"))
        payload: dict[str, Any] = {"name": "echo", "arguments": {"key": "secret"}}
        result = await execute(chain, payload)
        payload["arguments"]["key"] = "edited"
        assert result.final_payload is payload
    assert seen == [CALL]
    assert arrived == [CALL]


async def test_a_sink_can_read_the_request_and_the_state_of_its_exchange() -> None:
    seen: list[Any] = []

    @sink(events=["tools/call"], phase="response", name="p.s")
    def record(request: dict[str, Any], state: dict[str, Any]) -> None:
        seen.append((request, dict(state)))

    @mutator(events=["tools/call"], phase="request", name="p.m")
    def remember(state: dict[str, Any]) -> None:
        state["kept"] = True

    async with Chain() as chain:
        chain.add(record, remember)
        exchange = Exchange()
        await execute(chain, exchange=exchange)
        await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    assert seen == [(CALL, {"kept": True})]
