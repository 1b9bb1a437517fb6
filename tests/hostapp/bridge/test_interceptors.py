"""Interceptors between HTTP clients and a server behind lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midspan.interception import DenialForm, Denials
from midspan_sdk import Chain, InvocationContext, State, mutator, validator
from tests.hostapp.bridge.fronted import ALONE, alone, bearer, begin, fronted, initialize, listen, seen, telling
from tests.hostapp.http.wire import JSON_HEADERS, STATELESS_META, call, notification, stateless
from tests.hostapp.relay.harness import gone, request, result, send, written

pytestmark = pytest.mark.anyio

CALL = stateless("tools/call", "echo")


@validator(events=["tools/call"], phase="request")
def never(payload: dict[str, Any]) -> str:
    return "no"


@mutator(events=["*"], phase="response")
def marks(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "marked": True}


@validator(events=["notifications/secret"], phase="request")
def hides(payload: dict[str, Any]) -> str:
    return "secret"


@pytest.mark.parametrize("form", ["result", "error"])
async def test_a_denied_call_never_reaches_the_server(log: Path, form: DenialForm) -> None:
    async with fronted(log, never, denials=Denials(form=form)) as link:
        session = await begin(link)
        answers = [
            await link.post(call('"x"'), session=session),
            await link.post(call(1.0, "echo", None, _meta=STATELESS_META), CALL),
        ]
        # Since 2026-07-28 an error has the status of its code.
        assert [answer.status for answer in answers] == [200, 400 if form == "error" else 200]
        for answer, message_id in zip(answers, ('"x"', 1.0), strict=True):
            assert answer.json()["id"] == message_id
            assert form in answer.json()
            assert b"never" in answer.body
        assert (await link.post(request(2, "ping"), session=session)).json()["result"] == {}
    assert [one["method"] for one in seen(log)] == ["initialize", "ping"]


async def test_what_an_interceptor_changed_is_what_arrives(log: Path) -> None:
    async with fronted(log, marks) as link:
        session = await begin(link)
        assert (await link.post(request(1, "a"), session=session)).json()["result"] == {"marked": True}
        answer = await link.post(alone(b'"x"'), ALONE)
        assert answer.json() == {"jsonrpc": "2.0", "id": "x", "result": {"marked": True}}


async def test_what_is_hidden_from_the_client_stays_so(log: Path, tmp_path: Path) -> None:
    async with fronted(log, hides) as link:
        session = await begin(link)
        secret, other = notification("notifications/secret"), notification("notifications/other", {})
        steps = send(secret, other), ("tell", str(tmp_path / "said"))
        await link.post(telling({"method": "notifications/x"}, *steps), session=session)
        await written(tmp_path / "said")
        assert await (await listen(link, session)).raw() == other


async def test_refused_by_a_judge_is_answered(log: Path) -> None:
    async with fronted(log, marks) as link:
        session = await begin(link)
        twice = b'{"jsonrpc":"2.0","id":4,"method":"a","params":{"x":1,"x":2}}'
        assert (await link.post(twice, session=session)).json()["error"]["code"] == -32600
        twice = alone(4).replace(b'"params": {', b'"params": {"y": {"x":1,"x":2}, ')
        refused = await link.post(twice, ALONE)
        assert (refused.status, refused.json()["error"]["code"]) == (400, -32600)
    assert len(seen(log)) == 1


async def test_interceptors_know_whose_message_it_is(log: Path) -> None:
    known: list[InvocationContext] = []

    @validator(events=["a"], phase="request")
    def notes(payload: dict[str, Any], context: InvocationContext) -> None:
        known.append(context)

    async with fronted(log, notes, name="files") as link:
        one, two = await begin(link, fields=[("authorization", "Bearer x")]), await begin(link)
        for session in (one, one, two):
            await link.post(request(len(known), "a"), session=session)
        for fields in (bearer("x"), bearer("x"), bearer("y"), ALONE):
            await link.post(alone(1, method="a"), [(key, "a" if key == "mcp-method" else v) for key, v in fields])
    assert {context.server for context in known} == {"files"}
    sessions = [context.session_id for context in known]
    assert sessions[0] == sessions[1] != sessions[2]
    assert sessions[3] == sessions[4] != sessions[5]
    assert sessions[6] is None
    principals = [context.principal.id if context.principal else None for context in known]
    assert principals[0] == principals[1] == principals[3] == principals[4]
    assert principals[2] is principals[6] is None
    assert principals[5] not in (None, principals[0])


async def test_a_sessions_state_ends_with_it_and_a_principals_outlives_its_server(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @mutator(events=["tools/list"], phase="response")
    def counts(payload: dict[str, Any], session_state: State) -> dict[str, Any]:
        session_state["count"] = session_state.get("count", 0) + 1
        return {**payload, "count": session_state["count"]}

    ended: list[str] = []
    chain = Chain()
    chain.add(counts)
    end = chain.end_session
    monkeypatch.setattr(chain, "end_session", lambda session: (ended.append(session), end(session)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - of a patch
    async with fronted(log, chain=chain) as link:
        session = await begin(link, ("tell", str(tmp_path / "it")), send(result(0, {})))
        for count in (1, 2):
            assert (await link.post(request(count, "tools/list"), session=session)).json()["result"]["count"] == count
        await link.send("DELETE", b"", [("mcp-session-id", session)])
        await gone((await written(tmp_path / "it"))["pid"])
        assert (await link.post(alone(1), bearer("x"))).json()["result"]["count"] == 1
        died = await link.post(alone(1, ("exit", 1)), bearer("x"))
        assert died.json()["error"]["code"] == -32000
        assert len(ended) == 1
        assert (await link.post(alone(1), bearer("x"))).json()["result"]["count"] == 2
        assert (await link.post(alone(1), bearer("y"))).json()["result"]["count"] == 1
    assert len(ended) == 3


async def test_initialize_may_be_denied(log: Path) -> None:
    @validator(events=["initialize"], phase="request")
    def refuses(payload: dict[str, Any]) -> str:
        return "no"

    async with fronted(log, refuses) as link:
        response = await link.post(initialize(), JSON_HEADERS)
        assert "error" in json.loads(response.body)
        session = response.header("mcp-session-id")
        assert (await link.post(request(1, "ping"), session=session)).status == 404
    assert seen(log) == []
