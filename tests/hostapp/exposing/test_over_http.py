"""The exposed methods over HTTP, request by request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from midspan_sdk import Interceptor, validator
from tests.hostapp.exposing import guard
from tests.hostapp.exposing.samples import KEY, META, SAID, SETTINGS, Stuck
from tests.hostapp.http.wire import (
    HANDSHAKE,
    STATELESS_META,
    Answer,
    Link,
    events_of,
    guarded,
    notification,
    read_head,
    request,
    result,
    stateless,
)

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"event": "tools/call", "phase": "request", "payload": {"name": "remove"}}
SESSION = (("content-type", "application/json"), ("mcp-session-id", "s1"))


async def introduced(answer: Answer) -> None:
    """Answer whatever comes with an introduction."""
    message_id = answer.request.json().get("id")
    await answer.send(result(message_id, SAID), fields=SESSION)


async def never(answer: Answer) -> None:
    """Fail."""
    raise AssertionError(answer.request.body)


def exposing(handler: Any, *interceptors: Interceptor[..., Any]) -> Any:
    """Run a raw server behind a gateway that exposes these interceptors."""
    return guarded(handler, *interceptors, expose_interceptors=True)


async def invoked(link: Link, name: str, fields: Any = HANDSHAKE, **params: Any) -> Any:
    """Invoke an interceptor."""
    return (await link.post(request(7, "interceptor/invoke", {"name": name, **CALL, **params}), fields)).json()


async def test_both_methods_are_answered_in_both_eras_and_the_server_sees_neither() -> None:
    async with exposing(never, guard.no_removal) as link:
        listed = await link.post(request(1, "interceptors/list"))
        assert (listed.status, listed.header("content-type")) == (200, "application/json")
        assert [one["name"] for one in listed.json()["result"]["interceptors"]] == ["no-removal"]
        assert (await invoked(link, "no-removal"))["result"]["valid"] is False

        listed = await link.post(request(1, "interceptors/list", META), stateless("interceptors/list"))
        assert listed.json()["result"].keys() == {"interceptors", "resultType", "ttlMs", "cacheScope"}
        fields = stateless("interceptor/invoke", "no-removal")
        answer = await invoked(link, "no-removal", fields, _meta=STATELESS_META)
        assert (answer["result"]["valid"], answer["result"]["resultType"]) == (False, "complete")
        assert link.seen == []


async def test_headers_that_say_otherwise_stop_them() -> None:
    async with exposing(never, guard.no_removal) as link:
        for fields in (stateless("tools/list"), stateless("interceptors/list")):
            body = request(1, "interceptors/list", META)
            answer = await link.post(body, [*fields, ("mcp-name", "x")])
            assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)
        answer = await link.post(request(1, "tools/list", META), stateless("interceptors/list"))
        assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)


async def test_a_handshake_tells_of_them_as_json_and_as_an_event() -> None:
    async def streaming(answer: Answer) -> None:
        if "stream" not in answer.request.json()["params"]:
            await introduced(answer)
            return
        await answer.stream(b"id: 1\ndata: " + result(answer.request.json()["id"], SAID) + b"\n\n", fields=SESSION[1:])

    async with exposing(streaming, guard.no_removal) as link:
        plain = await link.post(request(1, "initialize", {"protocolVersion": "2025-11-25"}))
        connection = await link.connect()
        body = request(2, "initialize", {"stream": True})
        await connection.start("POST", body, HANDSHAKE)
        head = await read_head(connection.reader)
        (event,) = await events_of(connection, 1)
        assert (plain.header("mcp-session-id"), head.header("mcp-session-id")) == ("s1", "s1")
        assert event.startswith(b"id: 1\n")
        for answer in (plain.json(), json.loads(event.partition(b"data: ")[2])):
            assert answer["result"]["capabilities"]["extensions"] == {KEY: SETTINGS}
            assert answer["result"]["capabilities"]["experimental"] == {"other": {"x": None}, KEY: SETTINGS}


async def test_an_introduction_that_is_delivered_again_tells_of_them_again() -> None:
    async def resuming(answer: Answer) -> None:
        if answer.request.method == "GET":
            await answer.stream(b"id: 1\ndata: " + result(1, SAID) + b"\n\n")
        else:
            await introduced(answer)

    async with exposing(resuming, guard.no_removal) as link:
        await link.post(request(1, "initialize"))
        connection = await link.connect()
        resumed = [("accept", "text/event-stream"), ("mcp-session-id", "s1"), ("last-event-id", "0")]
        await connection.start("GET", b"", resumed)
        await read_head(connection.reader)
        (event,) = await events_of(connection, 1)
        said = json.loads(event.partition(b"data: ")[2])["result"]["capabilities"]
        assert said["extensions"] == {KEY: SETTINGS}


async def test_a_discovery_tells_of_them_among_the_extensions() -> None:
    async with exposing(introduced, guard.no_removal) as link:
        answer = await link.post(request(1, "server/discover", META), stateless("server/discover"))
        capabilities = answer.json()["result"]["capabilities"]
        assert capabilities["extensions"] == {KEY: SETTINGS}
        assert capabilities["experimental"] == {"other": {"x": None}}


async def test_a_cancelled_invocation_ends_and_the_server_does_not_hear_of_it() -> None:
    stuck = Stuck()
    async with exposing(introduced, stuck.interceptor) as link:
        await link.post(request(1, "initialize"))
        waiting = asyncio.create_task(
            link.post(request(2, "interceptor/invoke", {"name": "stuck", **CALL}), session="s1")
        )
        await stuck.asked.wait()
        cancel = await link.post(notification("notifications/cancelled", {"requestId": 2}), session="s1")
        assert cancel.status == 202
        assert (await waiting).json()["error"]["code"] == -32800
        assert stuck.cancelled.is_set()
        assert len(link.seen) == 1


async def test_an_invocation_whose_client_is_gone_ends() -> None:
    stuck = Stuck()
    async with exposing(never, stuck.interceptor) as link:
        connection = await link.connect()
        body = request(2, "interceptor/invoke", {"name": "stuck", **CALL, "_meta": STATELESS_META})
        await connection.start("POST", body, stateless("interceptor/invoke"))
        await stuck.asked.wait()
        await connection.close()
        await stuck.cancelled.wait()


async def test_when_they_are_not_exposed_everything_passes_as_it_is() -> None:
    theirs: dict[str, Any] = {"capabilities": {"extensions": {KEY: {"supportedEvents": ["theirs"]}}}, "odd": 1.0}

    async def has_its_own(answer: Answer) -> None:
        await answer.send(result(answer.request.json()["id"], theirs))

    @validator(events=["tools/call"], phase="request")
    def guards(payload: dict[str, Any]) -> None: ...

    async with guarded(has_its_own, guards) as link:
        for method in ("initialize", "interceptors/list", "interceptor/invoke"):
            body = request(1, method)
            assert (await link.post(body)).body == result(1, theirs)
            assert link.seen[-1].body == body
