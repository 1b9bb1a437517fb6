"""`interceptor/invoke`: handlers run on a server as they run in a chain."""

from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import Server
from pydantic import BaseModel

from midspan_sdk import (
    Answer,
    Chain,
    Exchange,
    InterceptorTimeoutError,
    Invocation,
    InvocationContext,
    MemoryStore,
    MutationResult,
    Principal,
    SinkResult,
    ValidationResult,
    mutator,
    sink,
    validator,
)
from midspan_sdk.mcp import InterceptorsExtension, invoke_interceptor

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"event": "tools/call", "phase": "request"}

PAYLOAD: dict[str, Any] = {
    "z": None,
    "name": "echo",
    "unknown": {"b": [None, {"x": None}], "a": True},
    "numbers": [1, 1.0, -0.0, 2**60 + 1, 2**70, 1e300],
    "text": "é 中 😀 \u2028",
    "_meta": {"progressToken": 7, "vendor/key": None},
    "empty": [{}, [], ""],
}


class Limits(BaseModel):
    """A config model."""

    bytes: int = 10


@mutator(events=["tools/call"], phase="both")
def touch(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "touched": True}


@mutator(events=["tools/call"], phase="both")
def leave(payload: dict[str, Any]) -> None: ...


def text_of(value: Any) -> str:
    """Tells 1 from 1.0 and true, and one order of keys from another."""
    return repr(value)


async def test_a_payload_survives_unchanged_in_values_types_and_order(connect: Any) -> None:
    async with connect(touch, leave) as client:
        touched = await invoke_interceptor(client, "touch", **CALL, payload=PAYLOAD)
        left = await invoke_interceptor(client, "leave", **CALL, payload=PAYLOAD)
    assert isinstance(touched, MutationResult)
    assert touched.modified
    assert text_of(touched.payload) == text_of({**PAYLOAD, "touched": True})
    assert isinstance(left, MutationResult)
    assert not left.modified
    assert text_of(left.payload) == text_of(PAYLOAD)


async def test_results_are_flat_and_name_interceptor_type_and_phase(connect: Any, send: Any) -> None:
    async with connect(touch) as client:
        result = await send(client, "interceptor/invoke", {"name": "touch", **CALL, "payload": {"a": None}})
    for stamp in ("_meta", "resultType"):
        result.pop(stamp, None)
    duration = result.pop("durationMs")
    assert 0 <= duration < 1000
    assert result == {
        "interceptor": "touch",
        "type": "mutation",
        "phase": "request",
        "modified": True,
        "payload": {"a": None, "touched": True},
    }


@sink(events=["*"], phase="request")
async def count(payload: dict[str, Any]) -> SinkResult:
    await anyio.lowlevel.checkpoint()
    return SinkResult(recorded=True, metrics={"keys": len(payload)})


async def test_a_sink_answers_what_it_recorded(connect: Any) -> None:
    async with connect(count) as client:
        result = await invoke_interceptor(client, "count", event="any/thing", phase="request", payload={"a": 1})
    assert isinstance(result, SinkResult)
    assert (result.recorded, result.metrics) == (True, {"keys": 1})
    assert result.interceptor == "count"
    assert result.duration_ms is not None


@validator(events=["tools/call"], phase="request")
def limited(payload: dict[str, Any], config: Limits) -> str | None:
    return f"more than {config.bytes}" if len(str(payload)) > config.bytes else None


async def test_a_config_of_the_invocation_replaces_the_configured_one(connect: Any) -> None:
    from midspan_sdk import Bindings

    async with connect(limited.bound(bindings=Bindings(Limits(bytes=5)))) as client:
        own = await invoke_interceptor(client, "limited", **CALL, payload={"a": 1})
        other = await invoke_interceptor(client, "limited", **CALL, payload={"a": 1}, config={"bytes": 500})
        defaults = await invoke_interceptor(client, "limited", **CALL, payload={"a": "1" * 10}, config={})
    assert isinstance(own, ValidationResult)
    assert own.messages[0].message == "more than 5"
    assert isinstance(other, ValidationResult)
    assert other.valid
    assert isinstance(defaults, ValidationResult)
    assert defaults.messages[0].message == "more than 10"


async def test_an_empty_config_is_no_config_for_an_interceptor_without_one(connect: Any) -> None:
    async with connect(leave) as client:
        await invoke_interceptor(client, "leave", **CALL, payload={}, config={})


seen: list[InvocationContext] = []


@validator(events=["tools/call"], phase="request")
def watching(context: InvocationContext) -> None:
    seen.append(context)


async def test_the_context_reaches_the_handler_with_a_time(connect: Any) -> None:
    seen.clear()
    principal = Principal(type="user", id="ada", claims={"groups": ["x", None]})
    context = InvocationContext(principal=principal, session_id="s", trace_id="t", server="files")
    async with connect(watching) as client:
        await invoke_interceptor(client, "watching", **CALL, payload={}, context=context)
        await invoke_interceptor(client, "watching", **CALL, payload={}, context={"sessionId": "s", "newer": 1})
    assert seen[0].timestamp is not None
    assert seen[0] == context.model_copy(update={"timestamp": seen[0].timestamp})
    assert seen[1].session_id == "s"


@validator(events=["tools/call"], phase="both")
def both_phases(
    phase: str, payload: dict[str, Any], state: dict[str, Any], request: dict[str, Any] | None
) -> str | None:
    if phase == "request":
        state["asked"] = payload["name"]
        state.pop("old", None)
        return None
    assert request is not None
    return f"{state['asked']} of {request['name']}, answered {payload['text']}"


async def test_state_and_request_travel_with_the_caller(connect: Any) -> None:
    async with connect(both_phases) as client:
        first = await invoke_interceptor(
            client, "both_phases", **CALL, payload={"name": "echo"}, state={"old": 1, "kept": None}
        )
        state = {"kept": None, "asked": "echo"}
        assert first.info == {"interceptorState": state}
        second = await invoke_interceptor(
            client,
            "both_phases",
            event="tools/call",
            phase="response",
            payload={"text": "hi"},
            state=state,
            request={"name": "echo"},
        )
    assert isinstance(second, ValidationResult)
    assert second.messages[0].message == "echo of echo, answered hi"
    assert second.info == {"interceptorState": state}


@validator(events=["tools/call"], phase="request")
async def waiting_with_state(state: dict[str, Any]) -> None:
    await anyio.lowlevel.checkpoint()
    state["n"] = state.get("n", 0) + 1


async def test_the_state_of_a_handler_that_suspends_comes_back_too(connect: Any) -> None:
    async with connect(waiting_with_state) as client:
        result = await invoke_interceptor(client, "waiting_with_state", **CALL, payload={}, state={"n": 4})
    assert result.info == {"interceptorState": {"n": 5}}


async def test_a_server_keeps_no_state_of_an_exchange_between_calls(connect: Any) -> None:
    async with connect(waiting_with_state) as client:
        for _ in range(2):
            result = await invoke_interceptor(client, "waiting_with_state", **CALL, payload={}, state={})
            assert result.info == {"interceptorState": {"n": 1}}


@validator(events=["tools/call"], phase="request")
def nth(session_state: dict[str, Any]) -> str | None:
    session_state["n"] = session_state.get("n", 0) + 1
    return f"call {session_state['n']}"


async def nth_in(client: Client, session: str) -> str:
    result = await invoke_interceptor(client, "nth", **CALL, payload={}, context={"sessionId": session})
    assert isinstance(result, ValidationResult)
    return result.messages[0].message


async def test_session_state_is_kept_by_the_session_id_of_the_context(connect: Any) -> None:
    async with connect(nth) as client:
        assert [await nth_in(client, session) for session in ("a", "b", "a")] == ["call 1", "call 1", "call 2"]


async def test_the_number_of_sessions_is_bounded_and_one_can_be_ended() -> None:
    server = Server("guards")
    extension = InterceptorsExtension(nth, max_sessions=2)
    extension.install(server)
    async with Client(server) as client:
        for session in ("a", "b", "a", "c"):  # `b` was used longest ago
            await nth_in(client, session)
        assert await nth_in(client, "a") == "call 3"
        assert await nth_in(client, "b") == "call 1"
        extension.end_session("a")
        assert await nth_in(client, "a") == "call 1"


@validator(events=["tools/call"], phase="request")
async def counting_in_store(store: Any) -> str:
    return f"call {await store.increment('calls')}"


async def test_the_store_is_the_one_that_was_passed_in(mode: Any) -> None:
    store = MemoryStore()
    for expected in ("call 1", "call 2"):
        server = Server("guards")
        InterceptorsExtension(counting_in_store, store=store).install(server)
        async with Client(server, mode=mode) as client:
            result = await invoke_interceptor(client, "counting_in_store", **CALL, payload={})
        assert isinstance(result, ValidationResult)
        assert result.messages[0].message == expected


@mutator(events=["tools/call"], phase="request")
def answering(payload: dict[str, Any]) -> Answer:
    return Answer({"content": [], "extra": None})


async def test_an_answer_is_part_of_the_result(connect: Any) -> None:
    async with connect(answering) as client:
        result = await invoke_interceptor(client, "answering", **CALL, payload={"name": "x"})
    assert isinstance(result, MutationResult)
    assert result.answer == {"content": [], "extra": None}
    assert not result.modified
    assert result.payload == {"name": "x"}


@validator(events=["tools/call"], phase="request")
async def how_long(invocation: Invocation) -> str:
    return str(invocation.timeout_ms)


@validator(events=["tools/call"], phase="request", timeout=0.5, name="declared")
async def how_long_declared(invocation: Invocation) -> str:
    return str(invocation.timeout_ms)


@pytest.mark.parametrize(
    ("name", "asked", "counts"),
    [
        ("how_long", None, "1000"),
        ("how_long", 200, "200"),
        ("how_long", 3000, "3000"),
        ("declared", None, "500"),
        ("declared", 200, "200"),
        ("declared", 3000, "500"),
    ],
)
async def test_the_shorter_of_the_callers_and_the_declared_deadline_counts(
    connect: Any, name: str, asked: int | None, counts: str
) -> None:
    async with connect(how_long, how_long_declared) as client:
        result = await invoke_interceptor(client, name, **CALL, payload={}, timeout_ms=asked)
    assert isinstance(result, ValidationResult)
    assert result.messages[0].message == counts


async def test_a_handler_is_cancelled_when_its_deadline_passes(connect: Any) -> None:
    ended = anyio.Event()

    @validator(events=["tools/call"], phase="request", timeout=0.02)
    async def stuck(payload: dict[str, Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with connect(stuck) as client:
        with pytest.raises(InterceptorTimeoutError) as caught:
            await invoke_interceptor(client, "stuck", **CALL, payload={})
        assert ended.is_set()
    assert caught.value.data == {"interceptor": "stuck", "timeoutMs": 20, "phase": "request"}


async def test_a_handler_is_cancelled_when_its_caller_is(connect: Any) -> None:
    started, ended = anyio.Event(), anyio.Event()

    @validator(events=["tools/call"], phase="request", timeout=60)
    async def stuck(payload: dict[str, Any]) -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with connect(stuck, leave) as client:
        async with anyio.create_task_group() as group:

            async def call() -> None:
                await invoke_interceptor(client, "stuck", **CALL, payload={})

            group.start_soon(call)
            await started.wait()
            group.cancel_scope.cancel()
        await ended.wait()
        await invoke_interceptor(client, "leave", **CALL, payload={})


async def test_a_handler_that_does_not_suspend_and_is_late_is_a_timeout(connect: Any) -> None:
    @validator(events=["tools/call"], phase="request", timeout=0.000001)
    def spinning(payload: dict[str, Any]) -> None:
        sum(range(1000))

    async with connect(spinning) as client:
        with pytest.raises(InterceptorTimeoutError):
            await invoke_interceptor(client, "spinning", **CALL, payload={})


async def test_one_slow_invocation_does_not_hold_up_another(connect: Any) -> None:
    go = anyio.Event()

    @validator(events=["tools/call"], phase="request", timeout=30)
    async def patient(payload: dict[str, Any]) -> None:
        await go.wait()

    async with connect(patient, leave) as client, anyio.create_task_group() as group:

        async def call() -> None:
            await invoke_interceptor(client, "patient", **CALL, payload={})

        group.start_soon(call)
        await invoke_interceptor(client, "leave", **CALL, payload={})
        go.set()


async def test_a_result_equals_the_one_of_a_local_chain(connect: Any) -> None:
    chain = Chain()
    chain.add(touch, limited, both_phases)
    local = await chain.execute(**CALL, payload={"name": "echo"}, exchange=Exchange())
    async with connect(touch, limited, both_phases) as client:
        remote = [
            await invoke_interceptor(client, "touch", **CALL, payload={"name": "echo"}),
            await invoke_interceptor(
                client, "both_phases", **CALL, payload={"name": "echo", "touched": True}, state={}
            ),
        ]
    by_name = {result.interceptor: result for result in local.results}
    for result in remote:
        expected = {**by_name[result.interceptor].to_wire(), "durationMs": 0, "info": None}
        assert {**result.to_wire(), "durationMs": 0, "info": None} == expected
