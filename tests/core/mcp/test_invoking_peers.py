"""`invoke_interceptor` against servers that are not ours, and connections that end."""

from typing import Any

import anyio
import pytest
from mcp import ClientSession, MCPError
from mcp.client import Client
from mcp.server import Server
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import RequestParams

from midspan_sdk import (
    InterceptorFailedError,
    InterceptorTimeoutError,
    InvalidInvocationError,
    InvocationError,
    LostServerError,
    MutationResult,
    UnknownInterceptorError,
    ValidationResult,
)
from midspan_sdk.mcp import invoke_interceptor

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"event": "tools/call", "phase": "request", "payload": {}}
VALID: dict[str, Any] = {"interceptor": "guard", "type": "validation", "phase": "request", "valid": True}


class Params(RequestParams):
    """Takes note of nothing."""


def peer(result: Any = None, *, error: MCPError | None = None, calls: list[Any] | None = None) -> Server[Any]:
    """Return a server that answers every invocation alike."""
    server = Server("peer")

    async def answer(ctx: Any, params: Params) -> Any:
        if calls is not None:
            calls.append(ctx.params)
        if error is not None:
            raise error
        return result

    server.add_request_handler("interceptor/invoke", Params, answer)
    return server


async def test_what_the_sdk_stamps_on_results_is_dropped(connect: Any) -> None:
    async with connect(server=peer({**VALID, "_meta": {"a": 1}, "resultType": "complete"})) as client:
        result = await invoke_interceptor(client, "guard", **CALL)
    assert result == ValidationResult(interceptor="guard", phase="request", valid=True)


async def test_unknown_keys_of_a_result_are_ignored_and_missing_names_filled_in(connect: Any) -> None:
    async with connect(server=peer({"type": "validation", "valid": True, "mood": "fine"})) as client:
        result = await invoke_interceptor(client, "guard", **CALL)
    assert (result.interceptor, result.phase) == ("guard", "request")


async def test_all_parameters_go_out_as_plain_json(connect: Any) -> None:
    calls: list[Any] = []
    async with connect(server=peer(VALID, calls=calls)) as client:
        await invoke_interceptor(
            client,
            "guard",
            event="tools/call",
            phase="request",
            payload={"a": (1, None)},
            config={"b": None},
            timeout_ms=2000,
            context={"sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"},
            state={"c": None},
            request={},
        )
    (params,) = calls
    params.pop("_meta", None)
    assert params == {
        "name": "guard",
        "event": "tools/call",
        "phase": "request",
        "payload": {"a": [1, None]},
        "config": {"b": None},
        "timeoutMs": 2000,
        "context": {
            "sessionId": "s",
            "timestamp": "2026-01-01T00:00:00Z",
            "interceptorState": {"c": None},
            "request": {},
        },
    }


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"type": "oracle", "valid": True},
        {"type": 1, "valid": True},
        {"type": "validation"},
        {"type": "validation", "valid": "yes"},
        {"type": "validation", "valid": 1},
        {"type": "validation", "valid": True, "messages": [{"message": "x", "severity": "fatal"}]},
        {"type": "mutation", "modified": True},
        {"type": "mutation", "modified": True, "payload": [1]},
        {"type": "mutation", "modified": None, "payload": {}},
        {"type": "sink", "recorded": "no"},
        {**VALID, "interceptor": "other"},
        {**VALID, "phase": "response"},
    ],
)
async def test_a_result_of_the_wrong_shape_is_a_failure(connect: Any, result: Any) -> None:
    async with connect(server=peer(result)) as client:
        with pytest.raises(InterceptorFailedError) as caught:
            await invoke_interceptor(client, "guard", **CALL)
    assert not isinstance(caught.value, LostServerError)


@pytest.mark.parametrize(
    ("error", "kind", "data"),
    [
        (MCPError(-32602, "x", {"interceptor": "guard"}), UnknownInterceptorError, {}),
        (
            MCPError(-32602, "x", {"interceptor": "guard", "reason": "bad\nconfig"}),
            InvalidInvocationError,
            {"reason": "bad config"},
        ),
        (MCPError(-32602, "x"), InvalidInvocationError, {"reason": "the server refused the invocation"}),
        (
            MCPError(-32000, "x", {"interceptor": "guard", "timeoutMs": 70, "phase": "request"}),
            InterceptorTimeoutError,
            {"timeoutMs": 70, "phase": "request"},
        ),
        (
            MCPError(-32000, "Interceptor execution timeout"),
            InterceptorTimeoutError,
            {"timeoutMs": 9000, "phase": "request"},
        ),
        (MCPError(-32000, "Connection closed"), LostServerError, {"reason": "the interceptor server is gone"}),
        (MCPError(-32000, "out of order"), InterceptorFailedError, {"reason": "the server failed with code -32000"}),
        (MCPError(-32603, "x", {"reason": "raised"}), InterceptorFailedError, {"reason": "raised"}),
        (MCPError(-32603, "x", "text"), InterceptorFailedError, {"reason": "the server failed with code -32603"}),
        (
            MCPError(-32601, "x"),
            InterceptorFailedError,
            {"reason": "the server does not serve interceptor/invoke"},
        ),
    ],
)
async def test_errors_of_a_peer_become_errors_of_the_sdk(
    connect: Any, error: MCPError, kind: type[InvocationError], data: dict[str, Any]
) -> None:
    async with connect(server=peer(error=error)) as client:
        with pytest.raises(InvocationError) as caught:
            await invoke_interceptor(client, "guard", **CALL, timeout_ms=9000)
    assert type(caught.value) is kind
    assert caught.value.data == {"interceptor": "guard", **data}


async def test_a_long_reason_is_cut(connect: Any) -> None:
    async with connect(server=peer(error=MCPError(-32603, "x", {"reason": "r" * 10_000}))) as client:
        with pytest.raises(InterceptorFailedError) as caught:
            await invoke_interceptor(client, "guard", **CALL)
    assert caught.value.reason == "r" * 300


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"n": value}
    return value


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": {"a": ["\ud800"]}}, "lone surrogate"),
        ({"payload": {"\udfff": 1}}, "lone surrogate"),
        ({"config": {"a": "\ud800"}}, "lone surrogate"),
        ({"state": {"a": "\ud800"}}, "lone surrogate"),
        ({"request": {"a": "\ud800"}}, "lone surrogate"),
        ({"context": {"sessionId": "\ud800"}}, "lone surrogate"),
        ({"event": "\ud800"}, "lone surrogate"),
        ({"payload": nested(200)}, "nested deeper"),
        ({"payload": nested(100_000)}, "not plain JSON"),
        ({"payload": {"a": 10**5000}}, "integer"),
        ({"payload": {"a": float("nan")}}, "not plain JSON"),
        ({"payload": {"a": float("inf")}}, "not plain JSON"),
        ({"payload": {"a": b"bytes"}}, "not plain JSON"),
        ({"config": {1: "a"}}, "not plain JSON"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_anything_is_sent(
    connect: Any, changes: dict[str, Any], reason: str
) -> None:
    calls: list[Any] = []
    async with connect(server=peer(VALID, calls=calls)) as client:
        with pytest.raises(InvalidInvocationError, match=reason):
            await invoke_interceptor(client, "guard", **{**CALL, **changes})
        assert calls == []
        await invoke_interceptor(client, "guard", **CALL)


async def test_the_deepest_payload_and_the_longest_integer_pass(connect: Any) -> None:
    payload = {"a": 10**4000, "b": nested(195)}
    result = {"type": "mutation", "modified": False, "payload": payload}
    async with connect(server=peer(result)) as client:
        answer = await invoke_interceptor(client, "guard", event="tools/call", phase="request", payload=payload)
    assert isinstance(answer, MutationResult)
    assert answer.payload == payload


async def test_a_connection_that_ends_in_the_middle_is_a_lost_server_not_a_timeout() -> None:
    async with create_client_server_memory_streams() as (near, far), ClientSession(*near) as session:

        async def hang_up() -> None:
            await far[0].receive()
            await far[1].aclose()

        async with anyio.create_task_group() as group:
            group.start_soon(hang_up)
            with anyio.fail_after(5), pytest.raises(LostServerError):
                await invoke_interceptor(session, "guard", **CALL, timeout_ms=60_000)


async def test_a_client_that_is_closed_is_a_lost_server(connect: Any) -> None:
    async with connect(server=peer(VALID)) as client:
        session = client.session
    for closed in (client, session):
        with pytest.raises(LostServerError):
            await invoke_interceptor(closed, "guard", **CALL)


async def test_a_server_that_says_nothing_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midspan_sdk.mcp._invoking.ANSWER_MARGIN", 0.01)
    server = Server("peer")

    async def answer(ctx: Any, params: Params) -> None:
        await anyio.sleep_forever()

    server.add_request_handler("interceptor/invoke", Params, answer)
    with anyio.fail_after(5):
        async with Client(server) as client:
            with pytest.raises(InterceptorTimeoutError) as caught:
                await invoke_interceptor(client, "guard", **CALL, timeout_ms=10)
    assert caught.value.timeout_ms == 10
