"""One matrix of cases, over interceptors in this process and on servers: the results are equal, durations aside."""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from remote_ways import Fill, call, fill_locally, text_of

from midspan_sdk import Chain, ChainError, ChainExecutionResult, DefinitionError, Exchange, InvocationContext, Principal

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
ANSWER: dict[str, Any] = {"content": [{"type": "text", "text": "hello"}]}
SAME = object()
FAILED, INVALID, TIMEOUT = -32603, -32602, -32000


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan")


def wire_of(result: ChainExecutionResult) -> dict[str, Any]:
    answer = {"answer": result.answer, "answeredBy": result.answered_by, "modified": result.modified}
    return {**result.to_wire(), **answer}


async def run_with(fill: Fill, *calls: dict[str, Any], overrides: Any = None) -> list[dict[str, Any]]:
    """Execute calls one after the other over a new chain of all guards."""
    with anyio.fail_after(20):
        async with Chain() as chain:
            await fill(chain, overrides=overrides)
            return [wire_of(await call(chain, **one)) for one in calls]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One execution, and what is to come out of it.

    Attributes:
        names: the interceptors that run.
        status: the chain's.
        by: who aborted.
        final: the final payload; SAME is the one that was passed in.
        result: what the first result must hold.
        summary: errors, warnings, infos.
    """

    names: list[str]
    payload: dict[str, Any] = field(default_factory=lambda: CALL)
    overrides: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    status: str = "success"
    by: str | None = None
    final: Any = SAME
    result: dict[str, Any] = field(default_factory=dict[str, Any])
    summary: tuple[int, int, int] | None = None
    answer: Any = None


def denied(name: str, **rest: Any) -> Case:
    return Case(names=[name], status="validation_failed", by=name, **rest)


def failed(name: str, code: int, reason: str, **rest: Any) -> Case:
    status = "validation_failed" if name.startswith("v") else "mutation_failed"
    error = {"code": code, "data": {"interceptor": name, "reason": reason}}
    return Case(names=[name], status=status, by=name, result={"error": error}, **rest)


def late(name: str, milliseconds: int, **rest: Any) -> Case:
    data = {"interceptor": name, "timeoutMs": milliseconds, "phase": "request"}
    error = {"code": TIMEOUT, "message": "Interceptor execution timeout", "data": data}
    return Case(names=[name], status="timeout", by=name, result={"error": error}, **rest)


def adds(**added: Any) -> dict[str, Any]:
    return {**CALL, **added}


ADDED = {"by": "m_adds", "nothing": None}
SHORT = {"timeoutMs": 50}

CASES: dict[str, Case] = {
    # what validators return
    "nobody": Case(names=[]),
    "None allows": Case(names=["v_none"], result={"valid": True}),
    "True allows": Case(names=["v_true"], result={"valid": True}),
    "a result allows": Case(names=["v_allowed"], result={"valid": True}),
    "False denies": denied("v_false", result={"valid": False}, summary=(1, 0, 0)),
    "a reason denies": denied("v_reason", result={"valid": False}, summary=(1, 0, 0)),
    "an empty reason denies": denied("v_empty_reason"),
    "a late reason denies": denied("v_late_reason"),
    "a thread's reason denies": denied("v_thread"),
    "a denial carries all it has": denied(
        "v_deny",
        result={
            "severity": "error",
            "messages": [{"path": "$.arguments.text", "message": "too long", "severity": "error"}],
            "suggestions": [{"path": "$.arguments.text", "value": {"short": [1, None]}}],
            "info": {"rule": "deny[0]", "nested": {"a": None}},
        },
    ),
    "a warning passes": Case(names=["v_warn"], result={"valid": False, "severity": "warn"}, summary=(0, 1, 0)),
    "an info passes": Case(names=["v_info"], result={"valid": False, "severity": "info"}, summary=(0, 0, 1)),
    "invalid without a word blocks": denied("v_silent", summary=(1, 0, 0)),
    "the worst message blocks": denied("v_worst", summary=(1, 1, 1)),
    "messages that only warn pass": Case(names=["v_worst_is_warn"], summary=(0, 1, 1)),
    "valid never blocks": Case(names=["v_valid_with_error"], result={"valid": True, "severity": "error"}),
    "a signature is carried": Case(
        names=["v_signed"], result={"signature": {"algorithm": "ed25519", "publicKey": "AAAA", "value": "BBBB"}}
    ),
    "all validators are heard": Case(
        names=["v_warn", "v_false", "v_none", "v_reason"],
        status="validation_failed",
        by="v_false",
        summary=(2, 1, 0),
    ),
    # failures
    "a crash blocks": failed("v_crash", FAILED, "the validator raised RuntimeError", summary=(1, 0, 0)),
    "a late crash blocks": failed("v_crash_late", FAILED, "the validator raised KeyError"),
    "leaving blocks": failed("v_exits", FAILED, "the validator raised SystemExit"),
    "a wrong type blocks": failed("v_wrong", FAILED, "the validator returned the wrong type"),
    "a wrong result blocks": failed("v_wrong_result", FAILED, "the validator returned the wrong type"),
    "a mutator's crash blocks": failed("m_crash", FAILED, "the mutator raised RuntimeError"),
    "a mutator's wrong type blocks": failed("m_wrong", FAILED, "the mutator returned the wrong type"),
    "a mutator's wrong result blocks": failed("m_wrong_result", FAILED, "the mutator returned the wrong type"),
    "what is not JSON blocks": failed("m_not_json", FAILED, "the mutator returned something that is not JSON"),
    "edited and None blocks": failed("m_edits_and_forgets", FAILED, "the mutator returned the wrong type"),
    "a hanging validator": late("v_hangs", 50, overrides={"v_hangs": SHORT}),
    "a hanging mutator": late("m_hangs", 50, overrides={"m_hangs": SHORT}),
    "its own deadline": late("v_hangs_declared", 50),
    "a held loop": late("v_holds", 50),
    "a shorter override": late("v_hangs_declared", 30, overrides={"v_hangs_declared": {"timeoutMs": 30}}),
    "the chain's own deadline": Case(
        names=["v_hangs", "v_none"],
        overrides={"v_hangs": {"timeoutMs": 900}},
        options={"timeout_ms": 60},
        status="timeout",
        by="chain",
        summary=(1, 0, 0),
    ),
    "the chain's own deadline, mutators": Case(
        names=["m_adds", "m_hangs"],
        overrides={"m_hangs": {"timeoutMs": 900}},
        options={"timeout_ms": 60},
        status="timeout",
        by="chain",
    ),
    # fail-open
    "a crash is let pass": Case(names=["v_crash_open", "v_none"], summary=(1, 0, 0)),
    "a crash is let pass by policy": Case(names=["v_crash"], overrides={"v_crash": {"failOpen": True}}),
    "policy closes what was open": Case(
        names=["v_crash_open"],
        overrides={"v_crash_open": {"failOpen": False}},
        status="validation_failed",
        by="v_crash_open",
    ),
    "a skipped mutator keeps earlier changes": Case(names=["m_b", "m_crash_open", "m_c"], final=adds(trail="bc")),
    "a deadline is let pass": Case(names=["v_hangs"], overrides={"v_hangs": {"failOpen": True, "timeoutMs": 50}}),
    # audit
    "audit records a denial": Case(names=["v_audit"], result={"valid": False}, summary=(1, 0, 0)),
    "audit records a crash": Case(names=["v_crash"], overrides={"v_crash": {"mode": "audit"}}, summary=(1, 0, 0)),
    "audit does not apply": Case(names=["m_audit"], result={"modified": True, "payload": adds(audited=True)}),
    "audit by policy": Case(names=["m_adds", "m_c"], overrides={"m_adds": {"mode": "audit"}}, final=adds(trail="c")),
    "active by policy": Case(
        names=["v_audit"], overrides={"v_audit": {"mode": "active"}}, status="validation_failed", by="v_audit"
    ),
    "audit of an answer": Case(names=["m_answers"], overrides={"m_answers": {"mode": "audit", "mayAnswer": True}}),
    # mutators
    "modified": Case(names=["m_adds"], final=adds(added=ADDED), result={"modified": True}),
    "modified late": Case(names=["m_adds_late"], final=adds(late=[1, 1.0, True])),
    "unmodified": Case(names=["m_none"], result={"modified": False, "payload": CALL}),
    "equal is unmodified": Case(names=["m_equal"], result={"modified": False, "payload": CALL}),
    "another type is another value": Case(
        names=["m_retypes"], payload=adds(number=1), final=adds(number=1.0), result={"modified": True}
    ),
    "emptied": Case(names=["m_empties"], final={}, result={"modified": True, "payload": {}}),
    "a model keeps what it does not know": Case(names=["m_typed"], final=adds(note="typed")),
    "a model that does not fit": failed(
        "m_typed", INVALID, "the payload does not fit Call: name", payload={"name": {"x": 1}}
    ),
    "a validator's model that does not fit": failed(
        "v_typed", INVALID, "the payload does not fit Call: name", payload={}
    ),
    "a result object": Case(names=["m_result"], final=adds(result=1), result={"info": {"why": "result", "none": None}}),
    "a result that says not modified": Case(
        names=["m_not_modified"], result={"modified": False, "payload": CALL, "info": {"why": "not"}}
    ),
    "all or nothing": Case(names=["m_adds", "m_b", "m_crash"], status="mutation_failed", by="m_crash"),
    "validators see what mutators made": Case(
        names=["v_sees", "m_adds"],
        final=adds(added=ADDED),
        result={"type": "mutation"},
    ),
    "receiving, they do not": Case(
        names=["v_sees", "m_adds"],
        options={"direction": "receiving"},
        final=adds(added=ADDED),
        result={"type": "validation", "info": {"saw": CALL, "event": "tools/call", "phase": "request"}},
    ),
    "nobody sees a validator's edits": Case(names=["v_edits", "v_sees"]),
    # priorities
    "priorities of the request": Case(names=["m_a", "m_b", "m_c", "m_d"], final=adds(trail="bcda")),
    "priorities of the response": Case(
        names=["m_a", "m_b", "m_c", "m_d"],
        payload=ANSWER,
        options={"phase": "response"},
        final={**ANSWER, "trail": "bdac"},
    ),
    "a priority by policy": Case(
        names=["m_b", "m_c", "m_d"],
        overrides={"m_b": {"priorityHint": 9}, "m_d": {"priorityHint": {"request": -1}}},
        final=adds(trail="dcb"),
    ),
    "one side of a priority hides the other": Case(
        names=["m_a", "m_c", "m_d"],
        payload=ANSWER,
        options={"phase": "response"},
        overrides={"m_d": {"priorityHint": {"request": -1}}},
        final={**ANSWER, "trail": "acd"},
    ),
    # hooks
    "narrowed away": Case(names=["v_any"], overrides={"v_any": {"hooks": [{"events": ["a/*"], "phase": "request"}]}}),
    "narrowed to it": Case(
        names=["v_any"],
        overrides={"v_any": {"hooks": [{"events": ["tools/*"], "phase": "both"}]}},
        result={"info": {"any": True}},
    ),
    "another event": Case(names=["v_any", "v_none"], options={"event": "a/b"}, result={"interceptor": "v_any"}),
    "a glob": Case(
        names=["v_glob"],
        options={"event": "resources/templates/list", "phase": "response"},
        status="validation_failed",
        by="v_glob",
    ),
    # config
    "no config": denied("v_config", result={"messages": [{"message": "more than 3", "severity": "error"}]}),
    "a config": Case(names=["v_config"], options={"config": {"v_config": {"most": 10}}}, result={"valid": True}),
    "a config that does not fit": failed(
        "v_config", INVALID, "the config does not fit: most", options={"config": {"v_config": {"most": "many"}}}
    ),
    "a config with an unknown key": failed(
        "v_config", INVALID, "the config does not fit: mots", options={"config": {"v_config": {"mots": 1}}}
    ),
    "a config nobody takes": failed("v_none", INVALID, "takes no config", options={"config": {"v_none": {"most": 1}}}),
    "a config a mutator does not take": failed(
        "m_adds", INVALID, "takes no config", options={"config": {"m_adds": {"most": 1}}}
    ),
    "a config of somebody else": Case(names=["v_none"], options={"config": {"v_config": {"most": 1}}}),
    # context
    "all of the context": Case(
        names=["v_context"],
        options={
            "context": InvocationContext(
                principal=Principal(type="user", id="ada", claims={"groups": ["x", None], "n": 2**60 + 1}),
                trace_id="t",
                span_id="s",
                timestamp="2026-01-01T00:00:00+00:00",
                session_id="session",
                server="files",
                flow="flow",
                protocol_version="2025-11-25",
            )
        },
    ),
    "the invocation": Case(
        names=["v_invocation"],
        overrides={"v_invocation": {"timeoutMs": 700}},
        result={
            "info": {
                "interceptor": "v_invocation",
                "event": "tools/call",
                "phase": "request",
                "timeout_ms": 700,
                "cancelled": False,
            }
        },
    ),
    "too old": failed(
        "v_modern",
        FAILED,
        "does not work with protocol version 2025-06-18",
        options={"context": InvocationContext(protocol_version="2025-06-18")},
    ),
    "too new": failed(
        "m_classic",
        FAILED,
        "does not work with protocol version 2026-07-28",
        options={"context": InvocationContext(protocol_version="2026-07-28")},
    ),
    "too old, let pass": Case(
        names=["v_modern"],
        overrides={"v_modern": {"failOpen": True}},
        options={"context": InvocationContext(protocol_version="2025-06-18")},
    ),
    "within its versions": Case(
        names=["v_modern", "m_classic"],
        options={"context": InvocationContext()},
        final=adds(classic=True),
    ),
    # protected parts
    "a reserved _meta key": failed(
        "m_sets",
        FAILED,
        "changed the protected part $._meta.modelcontextprotocol.io/x",
        payload={"_meta": {"modelcontextprotocol.io/x": 1}, "set": {"_meta": {"modelcontextprotocol.io/x": 2}}},
    ),
    "a progress token": failed(
        "m_sets",
        FAILED,
        "changed the protected part $._meta.progressToken",
        payload={"_meta": {"progressToken": 1}, "set": {"_meta": {"progressToken": 1.0}}},
    ),
    "a cursor": failed(
        "m_sets",
        FAILED,
        "changed the protected part $.cursor",
        payload={"cursor": "a", "set": {"cursor": "b"}},
    ),
    "a received target": failed(
        "m_sets",
        FAILED,
        "changed the protected part $.name",
        payload={"name": "read", "set": {"name": "rm"}},
        options={"direction": "receiving"},
    ),
    "a target on its way": Case(
        names=["m_sets"],
        payload={"name": "read", "set": {"name": "list"}},
        final={"name": "list", "set": {"name": "list"}},
    ),
    "left out is put back": Case(
        names=["m_sets"],
        payload={"name": "a", "_meta": {"progressToken": 1, "mine": 2}, "drop": ["_meta"]},
        final={"name": "a", "drop": ["_meta"], "_meta": {"progressToken": 1}},
    ),
    "an interim result": failed(
        "m_sets",
        FAILED,
        "changed the protected part $.resultType",
        payload={"resultType": "input_required", "set": {"resultType": "complete"}},
        options={"phase": "response"},
    ),
    "a changed listing is private": Case(
        names=["m_sets"],
        payload={"tools": [], "cacheScope": "public", "set": {"tools": [{}]}},
        options={"event": "tools/list", "phase": "response"},
        final={"tools": [{}], "cacheScope": "private", "set": {"tools": [{}]}},
    ),
    # answers
    "an answer": Case(
        names=["m_answers", "m_a", "v_sees"],
        overrides={"m_answers": {"mayAnswer": True}},
        answer={"content": [{"type": "text", "text": "echo"}], "extra": None},
    ),
    "an answer skips the mutators after it": Case(
        names=["m_c", "m_answers", "m_a"],
        overrides={"m_answers": {"mayAnswer": True}},
        final=adds(trail="c"),
        answer={"content": [{"type": "text", "text": "echo"}], "extra": None},
    ),
    "an answer to a response": failed(
        "m_answers_a_response",
        FAILED,
        "the mutator answered in the response phase",
        payload=ANSWER,
        options={"phase": "response"},
        overrides={"m_answers_a_response": {"mayAnswer": True}},
    ),
    "a denied answer is none": Case(
        names=["m_answers", "v_false"],
        overrides={"m_answers": {"mayAnswer": True}},
        status="validation_failed",
        by="v_false",
    ),
    # state of a session
    "a session is needed": failed("v_nth", INVALID, "needs a session, and the context names none"),
    "a state that is not JSON": failed("v_bad_state", FAILED, "the validator returned something that is not JSON"),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_case_comes_out_the_same_whatever_the_way(fill: Fill, name: str) -> None:
    case = CASES[name]
    call = {"payload": case.payload, "interceptors": case.names, **case.options}
    (wire,) = await run_with(fill, call, overrides=case.overrides)
    assert wire["status"] == case.status
    assert wire.get("abortedAt", {}).get("interceptor") == case.by
    if case.status == "success":
        assert text_of(wire["finalPayload"]) == text_of(case.payload if case.final is SAME else case.final)
    else:
        assert "finalPayload" not in wire
    if case.result:
        first = wire["results"][0]
        assert {key: first.get(key) for key in case.result if key != "error"} == {
            key: value for key, value in case.result.items() if key != "error"
        }
        for key, value in case.result.get("error", {}).items():
            assert first["error"][key] == value
    if case.summary is not None:
        summary = wire["validationSummary"]
        assert (summary["errors"], summary["warnings"], summary["infos"]) == case.summary
    assert wire["answer"] == case.answer
    (local,) = await run_with(fill_locally, call, overrides=case.overrides)
    assert text_of(wire) == text_of(local)


async def over_an_exchange(fill: Fill, names: list[str], arguments: dict[str, Any], **options: Any) -> list[Any]:
    exchange = Exchange()
    request = {"payload": {"name": "echo", "arguments": arguments}, "interceptors": names, "exchange": exchange}
    response = {**request, "payload": ANSWER, "phase": "response"}
    return await run_with(fill, request, response, **options)


async def test_state_lives_from_the_request_to_its_response_and_is_shared_within_a_plugin(fill: Fill) -> None:
    names = ["hide", "restore", "tells", "pair.first", "pair.second", "stranger.alone"]
    request, response = await over_an_exchange(fill, names, {"text": "x", "secret": {"a": [None]}})
    infos = {one["interceptor"]: one.get("info", {}).get("state") for one in request["results"]}
    kept = [1, None, {"a": 2**60 + 1}]
    assert infos == {
        "hide": None,
        "tells": {"hidden": {"a": [None]}, "list": kept},
        "pair.first": {"first": 1},
        "pair.second": {"second": 1},
        "stranger.alone": {},
    }
    assert request["finalPayload"]["arguments"] == {"text": "x"}
    infos = {one["interceptor"]: one.get("info", {}).get("state") for one in response["results"]}
    assert infos["pair.first"] == {"first": 2, "second": 1}
    assert infos["pair.second"] == {"first": 1, "second": 2}
    assert response["finalPayload"] == {**ANSWER, "restored": {"a": [None]}, "list": kept}
    assert text_of([request, response]) == text_of(
        await over_an_exchange(fill_locally, names, {"text": "x", "secret": {"a": [None]}})
    )


async def test_the_response_phase_knows_the_request_as_it_left(fill: Fill) -> None:
    names = ["m_adds_late", "v_request"]
    request, response = await over_an_exchange(fill, names, {"text": "x"})
    assert request["results"][1]["info"] == {"request": None}
    assert response["results"][0]["info"] == {"request": request["finalPayload"]}
    assert request["finalPayload"]["late"] == [1, 1.0, True]
    assert text_of([request, response]) == text_of(await over_an_exchange(fill_locally, names, {"text": "x"}))


async def test_session_state_is_kept_by_session(fill: Fill) -> None:
    one, other = secrets.token_hex(4), secrets.token_hex(4)
    calls = [
        {"payload": CALL, "interceptors": ["v_nth"], "context": InvocationContext(session_id=session)}
        for session in (one, other, one)
    ]
    wires = await run_with(fill, *calls)
    assert [wire["abortedAt"]["reason"] for wire in wires] == ["call 1", "call 1", "call 2"]
    assert text_of(wires) == text_of(await run_with(fill_locally, *calls))


async def test_the_store_keeps_values(fill: Fill) -> None:
    payload = {"name": "echo", "arguments": {"key": secrets.token_hex(4)}}
    call = {"payload": payload, "interceptors": ["v_stored"]}
    wires = await run_with(fill, call, call)
    assert [wire["abortedAt"]["reason"] for wire in wires] == ["stored 1", "stored 2"]
    assert text_of(wires) == text_of(await run_with(fill_locally, call, call))


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


async def test_sinks_see_what_leaves_and_their_failures_are_counted(fill: Fill, tmp_path: Path) -> None:
    async def records(by: Fill, file: Path) -> tuple[list[Any], dict[str, int], list[dict[str, Any]]]:
        payload = {"name": "echo", "arguments": {"file": str(file), "text": "é"}}
        names = ["s_file", "s_file_late", "s_crash", "s_wrong", "m_adds", "v_none"]
        with anyio.fail_after(20):
            async with Chain() as chain:
                await by(chain)
                result = await call(chain, payload=payload, interceptors=names)
                denied = await call(chain, payload=payload, interceptors=["s_file", "v_false"])
        seen = lines_of(file)
        for one in seen:
            assert one["payload"].pop("arguments")["file"] == str(file)
        wires = [wire_of(result), wire_of(denied)]
        wires[0]["finalPayload"].pop("arguments")
        wires[0]["results"][0]["payload"].pop("arguments")
        return sorted(seen, key=lambda one: one["who"]), chain.failed, wires

    seen, failures, wires = await records(fill, tmp_path / "way")
    assert [one["who"] for one in seen] == ["s_file", "s_file_late"]
    assert seen[0]["payload"] == {"name": "echo", "added": ADDED}
    assert (failures["s_file"], failures["s_crash"], failures["s_wrong"]) == (0, 1, 1)
    assert [one["interceptor"] for one in wires[0]["results"]] == ["m_adds", "v_none"]
    assert text_of([seen, failures, wires]) == text_of(await records(fill_locally, tmp_path / "local"))


@pytest.mark.parametrize("leave", [None, False, True])
async def test_an_answer_counts_from_a_server_only_with_the_operator_s_leave(fill: Fill, leave: bool | None) -> None:
    call = {"payload": CALL, "interceptors": ["m_answers", "m_a"]}
    (wire,) = await run_with(fill, call, overrides={"m_answers": {"mayAnswer": leave}})
    answered = fill is fill_locally or leave is True
    assert wire["answeredBy"] == ("m_answers" if answered else None)
    assert [one["interceptor"] for one in wire["results"]] == ["m_answers", "m_a"][: 1 if answered else 2]
    assert wire["finalPayload"] == (CALL if answered else adds(trail="a"))
    assert wire["results"][0]["answer"]["content"] == [{"type": "text", "text": "echo"}]


async def test_a_deadline_of_the_server_s_own_also_bounds_a_longer_one_of_the_operator(fill: Fill) -> None:
    call = {"payload": CALL, "interceptors": ["v_hangs_declared"]}
    (wire,) = await run_with(fill, call, overrides={"v_hangs_declared": {"timeoutMs": 400}})
    assert wire["status"] == "timeout"
    declared = 400 if fill is fill_locally else 50
    assert wire["results"][0]["error"]["data"]["timeoutMs"] == declared


async def test_widening_hooks_is_refused_and_adds_nothing(fill: Fill) -> None:
    async with Chain() as chain:
        with pytest.raises(DefinitionError, match="'prompts/list' in the request phase is outside"):
            await fill(chain, overrides={"v_none": {"hooks": [{"events": ["prompts/list"], "phase": "request"}]}})
        assert chain.entries == ()
        with pytest.raises(ChainError, match="'nobody'"):
            await fill(chain, overrides={"nobody": {"mode": "audit"}})
        assert chain.entries == ()
        await fill(chain)
        assert chain.entries


async def test_an_unknown_name_in_a_filter_or_a_config_is_an_error(fill: Fill) -> None:
    async with Chain() as chain:
        await fill(chain)
        with pytest.raises(ChainError, match="nobody"):
            await chain.execute(event="tools/call", phase="request", payload={}, interceptors=["nobody"])
        with pytest.raises(ChainError, match="nobody"):
            await chain.execute(event="tools/call", phase="request", payload={}, config={"nobody": {}})
