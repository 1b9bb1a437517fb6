"""What a handler may ask for by naming a parameter: a closed list."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
from pydantic import BaseModel, ConfigDict

from midspan_sdk import (
    Bindings,
    Chain,
    DefinitionError,
    Exchange,
    Invocation,
    InvocationContext,
    Principal,
    State,
    Store,
    ToolCatalog,
    UnmetNeedError,
    ValidationResult,
    mutator,
    sink,
    validator,
)
from midspan_sdk.testing import run
from midspan_sdk.wire import Phase

pytestmark = pytest.mark.anyio

PARAMETERS = (
    "payload, params, result, request, event, phase, config, context, state, session_state, store, lifespan, tools, "
    "ask, invocation"
)
CALL: dict[str, Any] = {"name": "echo", "arguments": {"text": "hi"}}
ON_CALLS: dict[str, Any] = {"events": ["tools/call"], "phase": "request", "name": "it"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = 3


class Arguments(BaseModel):
    text: str


class Call(BaseModel):
    name: str
    arguments: Arguments


class Result(BaseModel):
    content: list[Any]


def allowed(result: Any) -> bool:
    assert result.status == "success", result.results
    return True


def test_payload_is_a_copy_of_the_message() -> None:
    seen: list[dict[str, Any]] = []

    @validator(**ON_CALLS)
    def check(payload: dict[str, Any]) -> None:
        seen.append(payload)

    assert allowed(call(check))
    assert seen == [CALL]
    assert seen[0] is not CALL


def test_params_is_the_typed_payload_of_a_request() -> None:
    seen: list[Call] = []

    @validator(**ON_CALLS)
    def check(params: Call) -> None:
        seen.append(params)

    assert allowed(call(check))
    assert seen == [Call(name="echo", arguments=Arguments(text="hi"))]


def test_result_is_the_typed_payload_of_a_response() -> None:
    seen: list[Result] = []

    @validator(events=["tools/call"], phase="response")
    def check(result: Result) -> None:
        seen.append(result)

    assert allowed(run(check, event="tools/call", phase="response", payload={"content": []}))
    assert seen == [Result(content=[])]


async def test_request_is_the_request_as_it_left_in_the_response_phase_and_none_before() -> None:
    seen: list[Any] = []

    @mutator(events=["tools/call"], phase="request")
    def redact(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "arguments": {"text": "[redacted]"}}

    @validator(events=["tools/call"], phase="both")
    def check(request: dict[str, Any] | None) -> None:
        seen.append(request)

    chain, exchange = Chain(), Exchange()
    chain.add(redact, check)
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={"content": []}, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={"content": []})
    assert seen == [None, {"name": "echo", "arguments": {"text": "[redacted]"}}, None]


async def test_editing_the_request_in_the_response_phase_changes_it_for_nobody() -> None:
    seen: list[Any] = []

    @validator(events=["tools/call"], phase="response", name="a")
    def edits(request: dict[str, Any]) -> None:
        request["arguments"]["text"] = "edited"

    @validator(events=["tools/call"], phase="response", name="b")
    def looks(request: dict[str, Any]) -> None:
        seen.append(request)

    chain, exchange = Chain(), Exchange()
    chain.add(edits, looks)
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    assert seen == [CALL]


async def test_a_denied_request_is_not_kept_for_the_response_phase() -> None:
    @validator(**ON_CALLS)
    def deny_all() -> bool:
        return False

    chain, exchange = Chain(), Exchange()
    chain.add(deny_all)
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    assert exchange.request is None


@pytest.mark.parametrize("phase", ["request", "response"])
def test_event_and_phase_say_where_the_message_is(phase: Phase) -> None:
    seen: list[tuple[str, str]] = []

    @validator(events=["*"], phase="both")
    def check(event: str, phase: Phase) -> None:
        seen.append((event, phase))

    assert allowed(run(check, event="acme/compute", phase=phase, payload={}))
    assert seen == [("acme/compute", phase)]


def test_config_and_lifespan_are_what_the_host_bound() -> None:
    seen: list[Any] = []

    @validator(**ON_CALLS)
    def check(config: Settings, lifespan: object) -> None:
        seen.append((config, lifespan))

    connection = object()
    assert allowed(call(check.bound(bindings=Bindings(Settings(limit=5), connection))))
    assert seen == [(Settings(limit=5), connection)]


def test_config_and_lifespan_are_none_when_nothing_was_bound() -> None:
    seen: list[Any] = []

    @validator(**ON_CALLS)
    def check(config: Settings | None, lifespan: object) -> None:
        seen.append((config, lifespan))

    assert allowed(call(check))
    assert seen == [(None, None)]


def test_context_is_where_the_message_comes_from() -> None:
    seen: list[InvocationContext] = []

    @validator(**ON_CALLS)
    def check(context: InvocationContext) -> None:
        seen.append(context)

    context = InvocationContext(
        principal=Principal(type="user", id="ada", claims={"team": "x"}), server="files", session_id="s1", trace_id="t"
    )
    assert allowed(call(check, context=context))
    assert allowed(call(check))
    assert seen == [context, InvocationContext()]


def test_editing_the_claims_of_the_principal_changes_them_for_nobody() -> None:
    seen: list[Any] = []

    @validator(events=["tools/call"], phase="request", name="a")
    def edits(context: InvocationContext, invocation: Invocation) -> None:
        for each in (context, invocation.context):
            assert each.principal is not None
            assert each.principal.claims is not None
            each.principal.claims["role"] = "admin"

    @validator(events=["tools/call"], phase="request", name="b")
    def looks(context: InvocationContext, invocation: Invocation) -> None:
        seen.extend([context, invocation.context])

    context = InvocationContext(principal=Principal(type="user", claims={"role": "guest"}))
    assert allowed(call(edits, looks, context=context))
    assert [one.principal and one.principal.claims for one in (*seen, context)] == [{"role": "guest"}] * 3


def test_invocation_names_the_call() -> None:
    seen: list[Invocation] = []

    @validator(events=["tools/call"], phase="request", name="x.it", timeout=0.25)
    def check(invocation: Invocation) -> None:
        seen.append(invocation)

    assert allowed(call(check, context=InvocationContext(server="files")))
    (invocation,) = seen
    assert (invocation.interceptor, invocation.event, invocation.phase) == ("x.it", "tools/call", "request")
    assert (invocation.timeout_ms, invocation.context.server, invocation.cancelled) == (250, "files", False)


def test_an_override_of_the_deadline_reaches_the_invocation() -> None:
    seen: list[int] = []

    @validator(**ON_CALLS)
    def check(invocation: Invocation) -> None:
        seen.append(invocation.timeout_ms)

    assert allowed(call(check))
    assert allowed(call(check, overrides={"it": {"timeout_ms": 40}}))
    assert seen == [1000, 40]


async def test_state_lives_for_the_exchange_and_is_shared_by_the_phases_of_one_plugin() -> None:
    seen: list[Any] = []

    @mutator(events=["tools/call"], phase="request", name="pii.hide")
    def hide(state: State) -> None:
        state["value"] = {"secret": ["s"]}

    @mutator(events=["tools/call"], phase="response", name="pii.restore")
    def restore(state: State) -> None:
        seen.append(dict(state))

    @validator(events=["tools/call"], phase="response", name="other.look")
    def look(state: State) -> None:
        seen.append(dict(state))

    chain = Chain()
    chain.add(hide, restore, look)
    for exchange in (Exchange(), Exchange()):
        await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
        await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    fresh = Exchange()
    await chain.execute(event="tools/call", phase="response", payload={}, exchange=fresh)
    kept: dict[str, Any] = {"value": {"secret": ["s"]}}
    assert seen == [{}, kept, {}, kept, {}, {}]


def test_state_can_lose_a_key_and_a_failed_handler_leaves_it_as_it_was() -> None:
    seen: list[Any] = []

    @mutator(events=["tools/call"], phase="request", name="p.one", priority_hint=1)
    def one(state: State) -> None:
        state.update(a=1, b=[2])

    @mutator(events=["tools/call"], phase="request", name="p.two", priority_hint=2)
    def two(state: State) -> None:
        del state["a"]

    @mutator(events=["tools/call"], phase="request", name="p.three", priority_hint=3, fail_open=True)
    def three(state: State) -> None:
        state["b"].append("lost")
        raise ValueError

    @validator(events=["tools/call"], phase="request", name="p.four")
    def four(state: State) -> None:
        seen.append(dict(state))

    assert allowed(call(one, two, three, four))
    assert seen == [{"b": [2]}]


async def test_parallel_validators_of_one_plugin_keep_each_other_s_state() -> None:
    seen: list[Any] = []

    @validator(events=["tools/call"], phase="request", name="p.one")
    def one(state: State) -> None:
        state["one"] = 1

    @validator(events=["tools/call"], phase="request", name="p.two")
    async def two(state: State, invocation: Invocation) -> None:
        state["two"] = 2

    @validator(events=["tools/call"], phase="response", name="p.look")
    def look(state: State) -> None:
        seen.append(dict(state))

    chain, exchange = Chain(), Exchange()
    chain.add(one, two, look)
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    assert seen == [{"one": 1, "two": 2}]


@pytest.mark.parametrize("value", [object(), {1}, float("nan"), b"x"])
def test_state_that_is_not_json_is_a_failure(value: object) -> None:
    @validator(**ON_CALLS)
    def check(state: State) -> None:
        state["value"] = value

    result = call(check)
    assert result.status == "validation_failed"
    assert result.aborted_at is not None


async def test_session_state_lives_for_the_session() -> None:
    seen: list[Any] = []

    @validator(events=["tools/call"], phase="request", name="p.count")
    def count(session_state: State) -> None:
        session_state["calls"] = session_state.get("calls", 0) + 1
        seen.append(session_state["calls"])

    chain = Chain()
    chain.add(count)
    for session_id in ("a", "a", "b", "a"):
        context = InvocationContext(session_id=session_id)
        assert allowed(await chain.execute(event="tools/call", phase="request", payload=CALL, context=context))
    chain.end_session("a")
    context = InvocationContext(session_id="a")
    assert allowed(await chain.execute(event="tools/call", phase="request", payload=CALL, context=context))
    assert seen == [1, 2, 1, 3, 1]


def test_session_state_without_a_session_is_a_failure() -> None:
    @validator(**ON_CALLS)
    def check(session_state: State) -> None:
        raise AssertionError("must not be called")

    result = call(check)
    assert result.status == "validation_failed"
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "needs a session, and the context names none"


async def test_store_is_the_plugin_s_own_part_of_the_chain_s_store() -> None:
    @validator(events=["tools/call"], phase="request", name="p.write")
    async def write(store: Store) -> None:
        await store.increment("n")

    @validator(events=["tools/call"], phase="response", name="p.read")
    async def read(store: Store) -> str | None:
        return str(await store.get("n"))

    @validator(events=["tools/call"], phase="response", name="q.read")
    async def other(store: Store) -> str | None:
        return str(await store.get("n"))

    chain = Chain()
    chain.add(write, read, other)
    for _ in range(2):
        await chain.execute(event="tools/call", phase="request", payload=CALL)
    result = await chain.execute(event="tools/call", phase="response", payload={})
    reasons = [one.messages[0].message for one in result.results if isinstance(one, ValidationResult)]
    assert reasons == ["2", "None"]


@pytest.mark.parametrize(
    ("parameter", "sentence"),
    [
        ("tools", "interceptor 'it': needs: needs the catalogue of tools, which this mount does not keep"),
        ("ask", "interceptor 'it': needs: asks the user, which this mount cannot do"),
    ],
)
def test_what_a_chain_cannot_give_refuses_the_interceptor(parameter: str, sentence: str) -> None:
    async def asks(ask: object) -> None: ...
    async def looks(tools: object) -> None: ...

    handlers: dict[str, Callable[..., object]] = {"ask": asks, "tools": looks}
    with pytest.raises(UnmetNeedError) as caught:
        Chain().add(validator(**ON_CALLS)(handlers[parameter]))
    assert str(caught.value) == sentence


async def test_tools_are_those_of_the_execution_and_each_handler_gets_copies() -> None:
    seen: list[Any] = []

    @validator(**ON_CALLS)
    def look(tools: ToolCatalog) -> None:
        found = cast("dict[str, Any]", tools.get("a"))
        seen.append((list(tools), len(tools), tools.get("b"), dict(found)))
        found["inputSchema"]["type"] = "spoilt"

    chain = Chain(gives=["tools"])
    chain.add(look)
    assert chain.needs == {"tools"}
    catalogue: dict[str, Any] = {"a": {"name": "a", "inputSchema": {"type": "object"}}}
    for _ in range(2):
        result = await chain.execute(event="tools/call", phase="request", payload=CALL, tools=catalogue)
        assert allowed(result)
    assert seen == [(["a"], 1, None, {"name": "a", "inputSchema": {"type": "spoilt"}})] * 2
    assert catalogue == {"a": {"name": "a", "inputSchema": {"type": "object"}}}


async def test_tools_without_a_catalogue_are_a_failure() -> None:
    @validator(**ON_CALLS)
    def look(tools: ToolCatalog) -> None:
        raise AssertionError("must not be called")

    chain = Chain(gives=["tools"])
    chain.add(look)
    result = await chain.execute(event="tools/call", phase="request", payload=CALL)
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "needs something that this mount does not give"


@pytest.mark.parametrize(
    ("need", "sentence"),
    [
        ("session", "interceptor 'it': needs: needs sessions, which this mount does not have"),
        ("store", "interceptor 'it': needs: needs a store, which this mount does not have"),
    ],
)
def test_a_chain_may_give_less_than_it_could(need: Any, sentence: str) -> None:
    @sink(**ON_CALLS, needs=[need])
    def count() -> None: ...

    with pytest.raises(UnmetNeedError) as caught:
        Chain(gives=()).add(count)
    assert str(caught.value) == sentence


def test_needs_are_the_declared_ones_and_those_of_the_parameters() -> None:
    @validator(**ON_CALLS, needs=["session"])
    async def check(tools: object, store: Store) -> None: ...

    assert check.needs == {"session", "tools", "store"}


def test_parameters_are_bound_by_name_in_any_order_and_by_keyword() -> None:
    seen: list[Any] = []

    @validator(**ON_CALLS)
    def check(phase: str, payload: dict[str, Any], *, context: InvocationContext, event: str) -> None:
        seen.append((phase, payload, context.server, event))

    assert allowed(call(check, context=InvocationContext(server="files")))
    assert seen == [("request", CALL, "files", "tools/call")]


def test_a_handler_may_take_nothing() -> None:
    @validator(**ON_CALLS)
    def closed() -> str:
        return "closed for maintenance"

    result = call(closed)
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "closed for maintenance"


def takes_unknown(body: dict[str, Any]) -> None: ...
def takes_default(payload: dict[str, Any], limit: int = 5) -> None: ...
def takes_args(*args: Any) -> None: ...
def takes_kwargs(payload: dict[str, Any], **kwargs: Any) -> None: ...
def takes_both(params: Call, result: Result) -> None: ...


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        (takes_unknown, f"interceptor 'it': handler: unknown parameter 'body'; a handler may take {PARAMETERS}"),
        (takes_default, f"interceptor 'it': handler: unknown parameter 'limit'; a handler may take {PARAMETERS}"),
        (takes_args, "interceptor 'it': handler: takes *args; name the parameters it needs"),
        (takes_kwargs, "interceptor 'it': handler: takes **kwargs; name the parameters it needs"),
        (
            takes_both,
            "interceptor 'it': handler: takes both 'params' and 'result'; a message has one of them",
        ),
    ],
)
def test_the_list_of_parameters_is_closed(handler: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        validator(**ON_CALLS)(handler)
    assert str(caught.value) == sentence
    assert (caught.value.interceptor, caught.value.field) == ("it", "handler")
