"""Decision records, and the observers that take them: durable before the message leaves, queued behind it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan_sdk import (
    AbortedAt,
    Answer,
    Chain,
    ChainError,
    DecisionRecord,
    EntryDecision,
    Exchange,
    InterceptorFailedError,
    InvocationContext,
    LostServerError,
    MidspanError,
    NotPlainError,
    Observer,
    deny,
    mutator,
    sink,
    validator,
)
from midspan_sdk.testing import run

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "echo", "arguments": {"key": "secret", "list": [1, {"x": 1}]}}

call = partial(run, event="tools/call", phase="request", payload=CALL)


class Keeps:
    def __init__(
        self,
        *,
        durable: bool = True,
        name: str = "keeps",
        first: Callable[[DecisionRecord], Awaitable[object]] | None = None,
    ) -> None:
        self.name = name
        self.durable = durable
        self.records: list[DecisionRecord] = []
        self._first = first

    async def observe(self, record: DecisionRecord) -> None:
        if self._first is not None:
            await self._first(record)
        self.records.append(record)


@mutator(events=["tools/call"], phase="both", name="m.redact")
def redact(payload: dict[str, Any]) -> dict[str, Any]:
    payload["arguments"]["key"] = "[redacted]"
    payload["arguments"]["list"][1]["x"] = 2
    payload["added"] = None
    return payload


@validator(events=["tools/call"], phase="both", name="v.allows")
def allows() -> None: ...


@validator(events=["tools/call"], phase="both", name="v.warns")
def warns() -> Any:
    return deny("careful", severity="warn")


@validator(events=["tools/call"], phase="both", name="v.denies")
def denies() -> Any:
    return deny("rule 7")


@validator(events=["tools/call"], phase="both", name="v.crashes")
def crashes(payload: dict[str, Any]) -> None:
    raise RuntimeError(str(payload))


@validator(events=["tools/call"], phase="both", name="v.hangs", timeout=0.01)
async def hangs() -> None:
    await anyio.sleep_forever()


@mutator(events=["tools/call"], phase="both", name="m.answers", priority_hint=1)
def answers() -> Answer:
    return Answer({"content": []})


def entries_of(record: DecisionRecord) -> list[tuple[str, str, str, str, bool, tuple[str, ...]]]:
    return [(one.interceptor, one.type, one.mode, one.verdict, one.blocked, one.reasons) for one in record.entries]


def test_a_record_of_a_message_that_passed() -> None:
    keeps = Keeps()
    context = InvocationContext(session_id="s1", server="files")
    before = datetime.now(UTC)
    result = call(redact, allows, warns, observers=[keeps], context=context)
    (record,) = keeps.records
    assert re.fullmatch("[0-9a-f]{16}", record.decision_id)
    assert record.decision_id == result.decision_id
    assert before <= datetime.fromisoformat(record.timestamp) <= before + timedelta(seconds=30)
    assert (record.event, record.phase, record.direction, record.error) == ("tools/call", "request", "sending", False)
    assert (record.status, record.blocked, record.blocked_by, record.reason) == ("success", False, None, None)
    assert record.context is context
    assert record.target == "echo"
    assert record.answered_by is None
    assert record.duration_ms > 0
    assert entries_of(record) == [
        ("m.redact", "mutation", "active", "modified", False, ()),
        ("v.allows", "validation", "active", "allowed", False, ()),
        ("v.warns", "validation", "active", "warned", False, ("careful",)),
    ]
    assert all(isinstance(one, EntryDecision) and one.duration_ms >= 0 for one in record.entries)


def test_a_record_says_what_changed_by_path_and_by_digest_and_shows_no_value() -> None:
    keeps = Keeps()
    call(redact, observers=[keeps])
    (record,) = keeps.records
    assert record.changed == ("$", "$.arguments.key", "$.arguments.list[1].x")
    assert record.arrived() == CALL
    leaves = record.leaves()
    assert leaves is not None
    assert leaves["arguments"]["key"] == "[redacted]"
    assert re.fullmatch("sha256:[0-9a-f]{64}", record.arrived_digest)
    assert record.leaves_digest not in (None, record.arrived_digest)
    assert "secret" not in repr(record)


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    one, other = Keeps(), Keeps()
    call(allows, observers=[one], payload={"a": 1, "b": "ü"})
    call(allows, observers=[other], payload={"b": "ü", "a": 1})
    assert one.records[0].arrived_digest == other.records[0].arrived_digest == one.records[0].leaves_digest


@pytest.mark.parametrize(
    ("entries", "status", "verdict", "reason"),
    [
        ([allows, denies], "validation_failed", "denied", "rule 7"),
        ([allows, crashes], "validation_failed", "failed", "the validator raised RuntimeError"),
        ([allows, hangs], "timeout", "timeout", "no result within 10 ms"),
    ],
)
def test_a_record_of_a_blocked_message_says_who_blocked_and_why(
    entries: list[Any], status: str, verdict: str, reason: str
) -> None:
    keeps = Keeps()
    call(redact, *entries, observers=[keeps])
    (record,) = keeps.records
    assert (record.status, record.blocked) == (status, True)
    assert (record.blocked_by, record.reason) == (entries[-1].name, reason)
    assert entries_of(record)[-1] == (entries[-1].name, "validation", "active", verdict, True, (reason,))
    assert [one.blocked for one in record.entries] == [False, False, True]
    assert (record.leaves(), record.leaves_digest, record.changed) == (None, None, ())
    assert "secret" not in str(entries_of(record))


def test_an_audit_entry_s_verdict_is_in_the_record_and_blocked_nothing() -> None:
    keeps = Keeps()
    call(denies, redact, observers=[keeps], overrides={"v.denies": {"mode": "audit"}, "m.redact": {"mode": "audit"}})
    (record,) = keeps.records
    assert not record.blocked
    assert record.changed == ()
    assert entries_of(record) == [
        ("m.redact", "mutation", "audit", "modified", False, ()),
        ("v.denies", "validation", "audit", "denied", False, ("rule 7",)),
    ]


def test_a_record_of_an_answer() -> None:
    keeps = Keeps()
    call(answers, observers=[keeps])
    (record,) = keeps.records
    assert record.answered_by == "m.answers"
    assert entries_of(record) == [("m.answers", "mutation", "active", "answered", False, ())]
    call(answers, denies, observers=[keeps])
    assert keeps.records[1].answered_by is None


def test_a_record_of_the_chain_s_own_deadline_names_the_chain() -> None:
    keeps = Keeps()
    call(hangs, observers=[keeps], timeout_ms=5)
    (record,) = keeps.records
    assert (record.status, record.blocked_by) == ("timeout", "chain")
    assert record.reason == "the chain did not finish within 5 ms"


async def test_the_records_of_one_exchange_have_one_id_and_one_target() -> None:
    keeps = Keeps()
    chain, exchange = Chain(observers=[keeps]), Exchange()
    chain.add(allows)
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={})
    first, second, third = keeps.records
    assert first.exchange_id == second.exchange_id == exchange.id
    assert (first.target, second.target) == ("echo", "echo")
    assert (third.exchange_id, third.target) == (None, None)
    assert len({one.decision_id for one in keeps.records}) == 3


def test_every_message_is_recorded_although_nothing_matches_it() -> None:
    keeps = Keeps()
    result = run(allows, event="tools/list", phase="request", payload={}, observers=[keeps])
    (record,) = keeps.records
    assert record.entries == ()
    assert record.decision_id == result.decision_id


def test_no_record_is_made_when_nobody_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def counted(**fields: Any) -> DecisionRecord:
        made.append(fields["event"])
        return DecisionRecord(**fields)

    monkeypatch.setattr("midspan_sdk._records.DecisionRecord", counted)
    call(allows)
    assert made == []
    call(allows, observers=[Keeps()])
    assert made == ["tools/call"]


# Durable


async def test_a_durable_observer_is_awaited_before_the_message_leaves() -> None:
    release = anyio.Event()
    left: list[str] = []

    async def waits(record: DecisionRecord) -> None:
        await release.wait()

    chain = Chain(observers=[Keeps(first=waits)])
    chain.add(allows)

    async def send() -> None:
        await chain.execute(event="tools/call", phase="request", payload=CALL)
        left.append("message")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            assert left == []
            release.set()
    assert left == ["message"]


async def fails(record: DecisionRecord) -> None:
    raise OSError("disk full at /var/audit")


async def exits(record: DecisionRecord) -> None:
    raise SystemExit(1)


async def cancels_itself(record: DecisionRecord) -> None:
    raise asyncio.CancelledError


async def never_ends(record: DecisionRecord) -> None:
    await anyio.sleep_forever()


@pytest.mark.parametrize("failure", [fails, exits, cancels_itself, never_ends])
def test_a_failed_durable_write_blocks_the_message(
    failure: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Chain, "__init__", partialmethod(Chain.__init__, observer_timeout=0.02))
    result = call(redact, answers, observers=[Keeps(first=failure)])
    assert result.status != "success"
    assert (result.final_payload, result.modified, result.answer, result.answered_by) == (None, False, None, None)
    assert result.aborted_at == AbortedAt(
        interceptor="keeps", reason="the decision record could not be written", type="observer"
    )
    (logged,) = caplog.records
    assert logged.levelno == logging.ERROR
    assert logged.getMessage().startswith("observer keeps could not keep the decision record")


def test_a_failed_write_does_not_hide_who_denied_the_message() -> None:
    result = call(denies, observers=[Keeps(first=fails)])
    assert result.status == "validation_failed"
    assert result.aborted_at is not None
    assert result.aborted_at.interceptor == "v.denies"


def test_the_observers_after_a_failed_one_learn_that_the_message_was_blocked() -> None:
    second, queued = Keeps(name="second"), Keeps(name="queued", durable=False)
    call(allows, observers=[Keeps(first=fails), second, queued])
    for record in (*second.records, *queued.records):
        assert (record.blocked, record.blocked_by, record.leaves()) == (True, "keeps", None)
    assert len(second.records) == len(queued.records) == 1


def test_a_message_that_was_not_recorded_reaches_no_sink_and_is_kept_for_no_response() -> None:
    seen: list[Any] = []

    @sink(events=["*"], phase="both")
    def record(payload: dict[str, Any]) -> None:
        seen.append(payload)

    exchange = Exchange()
    call(record, observers=[Keeps(first=fails)], exchange=exchange)
    assert seen == []
    assert exchange.request is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_blocks_the_message() -> None:
    async def writes(record: DecisionRecord) -> None:
        async with await anyio.open_file("/dev/full", "w") as file:
            await file.write(record.decision_id)

    result = call(allows, observers=[Keeps(first=writes)])
    assert result.final_payload is None
    assert result.aborted_at is not None
    assert result.aborted_at.type == "observer"


# Queued


async def test_a_queued_observer_delays_nothing_and_gets_its_records_in_order() -> None:
    release = anyio.Event()

    async def waits(record: DecisionRecord) -> None:
        await release.wait()

    keeps = Keeps(durable=False, first=waits)
    with anyio.fail_after(5):
        async with Chain(observers=[keeps]) as chain:
            chain.add(allows)
            sent = [
                (await chain.execute(event="tools/call", phase="request", payload={"n": n})).decision_id
                for n in range(10)
            ]
            assert keeps.records == []
            release.set()
    assert [record.decision_id for record in keeps.records] == sent


def test_a_queued_observer_s_failure_is_counted_and_blocks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    result = call(allows, observers=[Keeps(durable=False, first=fails)])
    assert result.status == "success"
    assert "keeps: 0 dropped, 1 failed" in caplog.messages


class FullError(MidspanError):
    """An observer's own error: words for the operator."""


async def full(record: DecisionRecord) -> None:
    raise FullError("no room on the disk") from OSError("ENOSPC")


async def lost(record: DecisionRecord) -> None:
    raise LostServerError("remote")


async def crashed(record: DecisionRecord) -> None:
    raise InterceptorFailedError("remote", "the call failed") from RuntimeError("why")


async def not_plain(record: DecisionRecord) -> None:
    raise NotPlainError("$", "not JSON")


@pytest.mark.parametrize(
    ("first", "message", "traceback"),
    [
        (full, "keeps failed: no room on the disk", False),
        (lost, "keeps failed: remote: the interceptor server is gone", False),
        (crashed, "keeps failed: remote: the call failed", True),
        (not_plain, "keeps failed", True),
        (fails, "keeps failed", True),
    ],
)
def test_a_queued_observer_s_failure_is_logged_with_a_traceback_where_one_is_needed(
    first: Any, message: str, traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    call(allows, observers=[Keeps(durable=False, first=first)])
    (failure,) = (record for record in caplog.records if record.levelno == logging.ERROR)
    assert failure.getMessage() == message
    assert bool(failure.exc_info) is traceback


async def test_a_queued_record_holds_the_payload_of_its_time() -> None:
    keeps = Keeps(durable=False)
    async with Chain(observers=[keeps]) as chain:
        chain.add(allows)
        payload: dict[str, Any] = {"arguments": {"key": 1}}
        await chain.execute(event="tools/call", phase="request", payload=payload)
        payload["arguments"]["key"] = 2
    assert keeps.records[0].arrived() == {"arguments": {"key": 1}}
    assert keeps.records[0].changed == ()


async def test_records_that_do_not_fit_into_the_queue_are_dropped_and_counted() -> None:
    release = anyio.Event()

    async def waits(record: DecisionRecord) -> None:
        await release.wait()

    keeps = Keeps(durable=False, first=waits)
    with anyio.fail_after(10):
        async with Chain(observers=[keeps]) as chain:
            await chain.execute(event="x", phase="request", payload={})
            await anyio.wait_all_tasks_blocked()
            for _ in range(1024 + 3):
                await chain.execute(event="x", phase="request", payload={})
            assert chain.dropped == {"keeps": 3}
            release.set()
    assert len(keeps.records) == 1025


async def test_queued_observers_need_an_entered_chain_and_durable_ones_do_not() -> None:
    chain = Chain(observers=[Keeps(durable=False)])
    with pytest.raises(ChainError):
        await chain.execute(event="x", phase="request", payload={})
    await Chain(observers=[Keeps()]).execute(event="x", phase="request", payload={})


def test_observers_may_be_any_iterable_and_none_is_lost() -> None:
    durable, queued = Keeps(name="a"), Keeps(name="b", durable=False)
    call(allows, observers=iter([queued, durable]))
    assert len(durable.records) == len(queued.records) == 1
    assert all(isinstance(one, Observer) for one in (durable, queued))


def test_two_observers_of_one_name_are_refused() -> None:
    with pytest.raises(ChainError) as caught:
        Chain(observers=[Keeps(), Keeps(durable=False)])
    assert str(caught.value) == "two observers are named 'keeps'; counts and logs could not tell them apart"


def test_a_chain_with_observers_concerns_every_message() -> None:
    chain = Chain(observers=[Keeps()])
    assert chain.concerns("anything", "response")
    assert not chain.concerns("notifications/initialized", "request")
