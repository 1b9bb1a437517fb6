"""What a record holds, and what it never holds."""

# ruff: noqa: ASYNC240 - blocking on small local files is what these tests mean to do

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan_sdk import Answer, Ask, Chain, InvocationContext, Principal, Question, Reply, mutator, validator

pytestmark = pytest.mark.anyio

SECRET = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"

Audited = Callable[..., AbstractAsyncContextManager[Chain]]
ReadRecords = Callable[[Path], list[dict[str, Any]]]


async def test_a_denial_is_recorded_with_who_denied_it_and_why(
    audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    context = InvocationContext(
        server="files", session_id="s-1", principal=Principal(type="user", id="ada", claims={"token": SECRET})
    )
    async with audited(log_path) as chain:
        result = await chain.execute(
            event="tools/call", phase="request", payload={"name": "rm", "arguments": {}}, context=context
        )
    assert result.status == "validation_failed"
    (record,) = read_records(log_path)
    assert record["decision_id"] == result.decision_id
    assert record["status"] == "validation_failed"
    assert record["blocked_by"] == "no_rm"
    assert record["reason"] == "destructive shell command"
    assert record["target"] == "rm"
    assert record["server"] == "files"
    assert record["session_id"] == "s-1"
    assert record["principal"] == {"type": "user", "id": "ada"}
    assert "leaves_digest" not in record
    denied = next(entry for entry in record["entries"] if entry["interceptor"] == "no_rm")
    assert denied["verdict"] == "denied"
    assert denied["blocked"] is True
    assert denied["reasons"] == ["destructive shell command"]


async def test_it_says_what_became_of_questions_and_never_what_they_were(
    audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    @validator(events=["tools/call"], phase="request")
    async def sure(ask: Ask) -> None:
        await ask(f"{SECRET}?")
        await ask("More?")

    async def user(question: Question, /) -> Reply:
        return Reply(action="accept" if SECRET in question.message else "decline", content={"x": SECRET})

    async with audited(log_path) as chain:
        chain.add(sure)
        await chain.execute(event="tools/call", phase="request", payload={"name": "ls", "arguments": {}}, ask=user)
    (record,) = read_records(log_path)
    assert [entry.get("asked") for entry in record["entries"]][-1] == ["accepted", "declined"]
    assert SECRET not in log_path.read_text()


async def test_keys_stand_in_one_order_from_version_to_hash(
    audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    async with audited(log_path) as chain:
        for name in ("ls", "rm"):
            await chain.execute(event="tools/call", phase="request", payload={"name": name, "arguments": {}})
    allowed, denied = read_records(log_path)
    order = [
        "v", "seq", "timestamp", "decision_id", "process", "event", "phase", "direction", "target", "status",
        "blocked_by", "reason", "entries", "arrived_digest", "leaves_digest", "duration_ms", "prev", "hash",
    ]  # fmt: skip
    assert list(denied) == [key for key in order if key != "leaves_digest"]
    assert list(allowed) == [key for key in order if key not in ("blocked_by", "reason")]
    assert (allowed["v"], allowed["seq"], denied["seq"]) == (1, 1, 2)


async def test_equal_payloads_have_equal_digests_whatever_the_order_of_their_keys(
    audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    payloads: list[dict[str, Any]] = [
        {"name": "ls", "arguments": {"a": 1, "b": 2}},
        {"arguments": {"b": 2, "a": 1}, "name": "ls"},
        {"name": "ls", "arguments": {"a": 1, "b": 3}},
    ]
    async with audited(log_path) as chain:
        for payload in payloads:
            await chain.execute(event="tools/call", phase="request", payload=payload)
    one, same, other = read_records(log_path)
    text = json.dumps(payloads[0], sort_keys=True, separators=(",", ":"))
    assert one["arrived_digest"] == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    assert one["arrived_digest"] == same["arrived_digest"] == same["leaves_digest"]
    assert one["arrived_digest"] != other["arrived_digest"]


async def test_a_change_is_recorded_by_its_place_and_two_digests(
    audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    payload = {"content": [{"type": "text", "text": "fine"}, {"type": "text", "text": f"token {SECRET}"}]}
    async with audited(log_path) as chain:
        await chain.execute(event="tools/call", phase="response", payload=payload)
    (record,) = read_records(log_path)
    assert record["changed"] == ["$.content[1].text"]
    assert record["arrived_digest"] != record["leaves_digest"]
    assert "target" not in record


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("tools/call", {"name": "ls", "arguments": {"token": SECRET}}),
        ("tools/call", {"name": "ls", "arguments": {SECRET: "as a key", "nested": {SECRET: {"x": SECRET}}}}),
        ("tools/call", {"name": SECRET, "arguments": {}}),
        ("tools/call", {"name": "rm", "arguments": {"token": SECRET}}),
        ("resources/read", {"uri": f"https://user:{SECRET}@example.org/a?token={SECRET}#{SECRET}"}),
        ("resources/read", {"uri": f"data:text/plain,{SECRET}"}),
        ("prompts/get", {"name": "p", "arguments": {"text": SECRET}}),
        ("custom/method", {SECRET: SECRET}),
    ],
)
async def test_a_planted_secret_is_nowhere_in_the_file(
    event: str, payload: dict[str, Any], audited: Audited, log_path: Path, read_records: ReadRecords
) -> None:
    async with audited(log_path) as chain:
        await chain.execute(event=event, phase="request", payload=payload)
        await chain.execute(event=event, phase="response", payload={"structuredContent": payload, "content": []})
    assert len(read_records(log_path)) == 2
    assert SECRET not in log_path.read_text()


async def test_a_uri_is_recorded_without_user_query_and_fragment_also_when_nothing_redacts_it(
    log_path: Path, audited: Audited, read_records: ReadRecords
) -> None:
    async with audited(log_path) as chain:
        for uri in ("https://u:p@example.org/a/b?c=d#e", "file:///etc/hosts", "DATA:,x", "mem:7?q"):
            await chain.execute(event="resources/read", phase="request", payload={"uri": uri})
        await chain.execute(event="resources/read", phase="request", payload={"uri": 7})
    targets = [record.get("target") for record in read_records(log_path)]
    assert targets == ["https://example.org/a/b", "file:///etc/hosts", "data:", "mem:7", None]


async def test_the_target_can_be_left_out(audited: Audited, log_path: Path, read_records: ReadRecords) -> None:
    async with audited(log_path, target=False) as chain:
        await chain.execute(event="tools/call", phase="request", payload={"name": "ls"})
    assert "target" not in read_records(log_path)[0]


async def test_texts_are_cut_and_hold_no_control_characters(
    log_path: Path, audited: Audited, read_records: ReadRecords
) -> None:
    @validator(events=["*"], phase="request")
    def loud(payload: dict[str, Any]) -> str:
        return "\x1b[31mred\n\u202edesrever \ud800 " + "x" * 1000

    async with audited(log_path, max_field_length=64) as chain:
        chain.add(loud)
        await chain.execute(event="m" * 5000, phase="request", payload={})
        await chain.execute(event="tools/call", phase="request", payload={"name": "t\x07" + "é" * 500})
    long_method, named = read_records(log_path)
    reason = long_method["reason"]
    assert reason.startswith("?[31mred??desrever ? xxx")
    assert reason.endswith("x...")
    assert {len(reason), len(long_method["event"]), len(named["target"])} == {64}
    assert named["target"].startswith("t?éé")


async def test_a_request_that_a_mutator_answered_has_no_leaving_payload(
    log_path: Path, audited: Audited, read_records: ReadRecords
) -> None:
    @mutator(events=["tools/call"], phase="request")
    def cached(payload: dict[str, Any]) -> Answer:
        return Answer({"content": []})

    async with audited(log_path) as chain:
        chain.add(cached)
        result = await chain.execute(event="tools/call", phase="request", payload={"name": "ls"})
    assert result.answered_by == "cached"
    (record,) = read_records(log_path)
    assert record["answered_by"] == "cached"
    assert "leaves_digest" not in record


async def test_only_the_configured_events_are_recorded(
    log_path: Path, audited: Audited, read_records: ReadRecords
) -> None:
    async with audited(log_path, events=("tools/*", "prompts/get")) as chain:
        for event in ("tools/call", "tools/list", "resources/read", "prompts/get", "prompts/list"):
            await chain.execute(event=event, phase="request", payload={})
    assert [record["event"] for record in read_records(log_path)] == ["tools/call", "tools/list", "prompts/get"]


async def test_with_a_key_digests_cannot_be_guessed_and_still_tell_equal_payloads(
    log_path: Path, tmp_path: Path, audited: Audited, read_records: ReadRecords
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("a" * 64 + "\n")
    guess = {"name": "pin", "arguments": {"pin": "1234"}}
    async with audited(log_path, key_file=key_file) as chain:
        for _ in range(2):
            await chain.execute(event="tools/call", phase="request", payload=guess)
    one, same = read_records(log_path)
    plain = hashlib.sha256(json.dumps(guess, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert plain not in log_path.read_text()
    assert one["arrived_digest"].startswith("hmac-sha256:")
    assert one["arrived_digest"] == same["arrived_digest"]


async def test_the_record_is_in_the_file_when_the_message_may_leave(
    log_path: Path, audited: Audited, read_records: ReadRecords
) -> None:
    async with audited(log_path, fsync=True) as chain:
        for number in range(1, 4):
            result = await chain.execute(event="tools/call", phase="request", payload={"name": "ls"})
            assert [record["decision_id"] for record in read_records(log_path)][number - 1 :] == [result.decision_id]


async def test_decisions_of_many_sessions_at_once_are_one_chain(
    log_path: Path, audited: Audited, read_records: ReadRecords
) -> None:
    async with audited(log_path, fsync=True) as chain, anyio.create_task_group() as group:

        async def session(name: str) -> None:
            for _ in range(5):
                context = InvocationContext(session_id=name)
                await chain.execute(event="tools/call", phase="request", payload={"name": "ls"}, context=context)

        for number in range(40):
            group.start_soon(session, f"s-{number}")
    records = read_records(log_path)
    assert [record["seq"] for record in records] == list(range(1, 201))
    assert len({record["decision_id"] for record in records}) == 200
