"""The error table of the protocol: each row over the wire, code and data."""

import json
import logging
from typing import Any

import anyio
import pytest
from mcp import MCPError
from pydantic import BaseModel, ConfigDict

from midspan_sdk import InvocationContext, MutationResult, SinkResult, mutator, sink, validator

pytestmark = pytest.mark.anyio

SECRET = "hunter2"


class Limits(BaseModel):
    """A config model."""

    model_config = ConfigDict(extra="forbid")

    bytes: int


class Call(BaseModel):
    """A typed payload."""

    name: str


@validator(events=["tools/call"], phase="request")
def plain(payload: dict[str, Any]) -> None: ...


@validator(events=["tools/call"], phase="request")
def configured(payload: dict[str, Any], config: Limits) -> str | None:
    return f"over {config.bytes}"


@validator(events=["tools/call"], phase="request")
def typed(params: Call) -> None: ...


@validator(events=["tools/call"], phase="request", timeout=0.02)
async def slow(payload: dict[str, Any]) -> None:
    await anyio.sleep(60)


@validator(events=["tools/call"], phase="request")
async def unhurried(payload: dict[str, Any]) -> None:
    await anyio.sleep(60)


@validator(events=["tools/call"], phase="request")
def crashing(payload: dict[str, Any]) -> None:
    raise RuntimeError(f"/etc/{payload['password']}")


@validator(events=["tools/call"], phase="request")
async def crashing_later(payload: dict[str, Any]) -> None:
    await anyio.lowlevel.checkpoint()
    raise RuntimeError(f"/etc/{payload['password']}")


@validator(events=["tools/call"], phase="request")
def leaving(payload: dict[str, Any]) -> None:
    raise SystemExit(3)


@validator(events=["tools/call"], phase="request")
def wrong_validator(payload: dict[str, Any]) -> Any:
    return MutationResult(modified=False, payload={})


@mutator(events=["tools/call"], phase="request")
def wrong_mutator(payload: dict[str, Any]) -> Any:
    return True


@mutator(events=["tools/call"], phase="request")
def not_json(payload: dict[str, Any]) -> Any:
    return {"when": object()}


@sink(events=["tools/call"], phase="request")
def wrong_sink(payload: dict[str, Any]) -> Any:
    return "recorded"


@validator(events=["tools/call"], phase="both")
def remembering(state: dict[str, Any], request: dict[str, Any] | None) -> None: ...


@validator(events=["tools/call"], phase="request")
def of_a_session(session_state: dict[str, Any]) -> None: ...


@validator(events=["tools/call"], phase="request", compat={"min_protocol": "2026-07-28"})
def modern(payload: dict[str, Any]) -> None: ...


ALL = (
    plain,
    configured,
    typed,
    slow,
    unhurried,
    crashing,
    crashing_later,
    leaving,
    wrong_validator,
    wrong_mutator,
    not_json,
    wrong_sink,
    remembering,
    of_a_session,
    modern,
)

INVALID, FAILED, TIMEOUT = -32602, -32603, -32000
DEEP: dict[str, Any] = json.loads('{"d":' * 250 + "{}" + "}" * 250)


def invalid(reason: str) -> tuple[int, str, dict[str, Any]]:
    return INVALID, "Invalid interceptor invocation", {"reason": reason}


def failed(reason: str) -> tuple[int, str, dict[str, Any]]:
    return FAILED, "Interceptor execution failed", {"reason": reason}


def timed_out(milliseconds: int) -> tuple[int, str, dict[str, Any]]:
    return TIMEOUT, "Interceptor execution timeout", {"timeoutMs": milliseconds, "phase": "request"}


ROWS: list[tuple[str, dict[str, Any], tuple[int, str, dict[str, Any]]]] = [
    ("nobody", {}, (INVALID, "Unknown interceptor", {})),
    ("plain", {"config": {"bytes": 1}}, invalid("takes no config")),
    ("plain", {"config": [1]}, invalid("config must be a JSON object")),
    ("configured", {"config": {"bytes": SECRET}}, invalid("the config does not fit: bytes")),
    ("configured", {"config": {"bytes": 1, "more": SECRET}}, invalid("the config does not fit: more")),
    ("configured", {"config": {}}, invalid("the config does not fit: bytes")),
    ("plain", {"payload": [SECRET]}, invalid("the payload must be a JSON object")),
    ("plain", {"payload": None}, invalid("the payload must be a JSON object")),
    ("plain", {"payload": {"a": "\ud800"}}, invalid("the payload holds text that is not Unicode: a lone surrogate")),
    ("plain", {"payload": DEEP}, invalid("the payload is nested deeper than 199 levels")),
    ("typed", {"payload": {"name": {"x": SECRET}}}, invalid("the payload does not fit Call: name")),
    ("plain", {"event": "prompts/get"}, invalid("is not hooked to this event")),
    ("plain", {"event": 7}, invalid("event must be the name of a JSON-RPC method")),
    ("plain", {"phase": "response"}, invalid("is not hooked to the response phase of this event")),
    ("plain", {"phase": "both"}, invalid("phase must be 'request' or 'response'")),
    ("plain", {"timeoutMs": 0}, invalid("timeoutMs must be a positive number of milliseconds")),
    ("plain", {"timeoutMs": True}, invalid("timeoutMs must be a positive number of milliseconds")),
    ("plain", {"context": "me"}, invalid("context must be a JSON object")),
    ("plain", {"context": {"sessionId": 7}}, invalid("the context does not fit: sessionId")),
    ("remembering", {}, invalid("needs interceptorState in the context; send {} at first")),
    ("remembering", {"context": {"interceptorState": 1}}, invalid("context.interceptorState must be a JSON object")),
    (
        "remembering",
        {"phase": "response", "context": {"interceptorState": {}}},
        invalid("needs the request's payload in the context"),
    ),
    ("of_a_session", {}, invalid("needs a session, and the context names none")),
    ("slow", {}, timed_out(20)),
    ("slow", {"timeoutMs": 60_000}, timed_out(20)),
    ("unhurried", {"timeoutMs": 30}, timed_out(30)),
    ("crashing", {"payload": {"password": SECRET}}, failed("the validator raised RuntimeError")),
    ("crashing_later", {"payload": {"password": SECRET}}, failed("the validator raised RuntimeError")),
    ("leaving", {}, failed("the validator raised SystemExit")),
    ("wrong_validator", {}, failed("the validator returned the wrong type")),
    ("wrong_mutator", {}, failed("the mutator returned the wrong type")),
    ("wrong_sink", {}, failed("the sink returned the wrong type")),
    ("not_json", {}, failed("the mutator returned something that is not JSON")),
    (
        "modern",
        {"context": {"protocolVersion": "2025-06-18"}},
        failed("does not work with protocol version 2025-06-18"),
    ),
]


@pytest.mark.parametrize(
    ("name", "changes", "expected"), ROWS, ids=[f"{name}-{index}" for index, (name, _, _) in enumerate(ROWS)]
)
async def test_each_fault_is_answered_with_its_row(
    connect: Any,
    send: Any,
    caplog: pytest.LogCaptureFixture,
    name: str,
    changes: dict[str, Any],
    expected: tuple[int, str, dict[str, Any]],
) -> None:
    caplog.set_level(logging.CRITICAL, logger="midspan.mcp")
    params: dict[str, Any] = {"name": name, "event": "tools/call", "phase": "request", "payload": {}, **changes}
    async with connect(*ALL) as client:
        with pytest.raises(MCPError) as caught:
            await send(client, "interceptor/invoke", params)
        await send(client, "interceptors/list", {})  # and the server lives
    code, message, data = expected
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.data == {"interceptor": name, **data}
    assert SECRET not in str(caught.value.data)


async def test_a_name_that_is_no_string_is_invalid(connect: Any, send: Any) -> None:
    async with connect(plain) as client:
        with pytest.raises(MCPError) as caught:
            await send(client, "interceptor/invoke", {"event": "tools/call", "phase": "request", "payload": {}})
    assert caught.value.code == INVALID
    assert caught.value.data == {"interceptor": "", "reason": "name must be the name of an interceptor"}


async def test_an_unknown_name_that_is_not_unicode_is_not_echoed(connect: Any, send: Any) -> None:
    async with connect(plain) as client:
        with pytest.raises(MCPError) as caught:
            await send(client, "interceptor/invoke", {"name": "\ud800", "payload": {}})
    assert caught.value.code == INVALID
    assert "\ud800" not in str(caught.value.data)


async def test_a_failure_is_logged_with_its_cause(connect: Any, send: Any, caplog: pytest.LogCaptureFixture) -> None:
    params = {"name": "crashing", "event": "tools/call", "phase": "request", "payload": {"password": "x"}}
    async with connect(*ALL) as client:
        with pytest.raises(MCPError):
            await send(client, "interceptor/invoke", params)
    record = next(record for record in caplog.records if record.name == "midspan.mcp")
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)


@mutator(events=["tools/call"], phase="request")
def surrogate_out(payload: dict[str, Any]) -> dict[str, Any]:
    return {"a": "\udfff"}


@mutator(events=["tools/call"], phase="request")
def deep_out(payload: dict[str, Any]) -> dict[str, Any]:
    return DEEP


@mutator(events=["tools/call"], phase="request")
def long_integer_out(payload: dict[str, Any]) -> dict[str, Any]:
    return {"a": 10**5000}


@sink(events=["tools/call"], phase="request")
def odd_info(payload: dict[str, Any]) -> SinkResult:
    return SinkResult(recorded=True, info={"context": InvocationContext, "x": {1, 2}})


@pytest.mark.parametrize("interceptor", [surrogate_out, deep_out, long_integer_out, odd_info])
async def test_a_result_that_would_break_the_transport_is_a_failure_and_the_server_lives(
    connect: Any, send: Any, interceptor: Any
) -> None:
    params: dict[str, Any] = {"name": interceptor.name, "event": "tools/call", "phase": "request", "payload": {}}
    async with connect(interceptor) as client:
        with pytest.raises(MCPError) as caught:
            await send(client, "interceptor/invoke", params)
        await send(client, "interceptors/list", {})
    assert caught.value.code == FAILED
    assert caught.value.data["reason"].endswith("returned something that is not JSON")
