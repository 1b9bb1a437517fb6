"""The two methods as plain JSON in and out, without a transport."""

from typing import Any

import pytest

from midspan_sdk import Chain, InvalidInvocationError, UnknownInterceptorError, UnmetNeedError, mutator, validator
from midspan_sdk.serving import InterceptorService, add_capability, error_data

pytestmark = pytest.mark.anyio

KEY = "io.modelcontextprotocol/interceptors"


@validator(events=["tools/call"], phase="request")
def guard(payload: dict[str, Any]) -> str | None:
    return "no" if payload.get("name") == "rm" else None


@mutator(events=["prompts/*"], phase="both", priority_hint=2)
def rewrite(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "x": 1}


async def test_an_invocation_comes_to_the_flat_result() -> None:
    result = await InterceptorService(guard).invoke(
        {"name": "guard", "event": "tools/call", "phase": "request", "payload": {"name": "rm"}, "timeoutMs": 500}
    )
    assert result.pop("durationMs") >= 0
    assert result == {
        "interceptor": "guard",
        "type": "validation",
        "phase": "request",
        "valid": False,
        "severity": "error",
        "messages": [{"message": "no", "severity": "error"}],
    }


async def test_a_refused_invocation_raises_with_code_and_data() -> None:
    service = InterceptorService(guard)
    with pytest.raises(UnknownInterceptorError) as unknown:
        await service.invoke({"name": "nobody"})
    assert (unknown.value.code, error_data(unknown.value)) == (-32602, {"interceptor": "nobody"})
    with pytest.raises(InvalidInvocationError) as invalid:
        await service.invoke({"name": "guard", "event": "tools/call", "phase": "late"})
    assert error_data(invalid.value)["reason"] == "phase must be 'request' or 'response'"


async def test_what_cannot_be_sent_is_not_echoed() -> None:
    with pytest.raises(UnknownInterceptorError) as unknown:
        await InterceptorService(guard).invoke({"name": "\ud800"})
    assert "\ud800" not in str(error_data(unknown.value))


def test_a_listing_is_one_page_in_order_and_filtered() -> None:
    service = InterceptorService(rewrite, guard)
    assert [one["name"] for one in service.listing({})["interceptors"]] == ["rewrite", "guard"]
    assert [one["name"] for one in service.listing({"event": "prompts/get"})["interceptors"]] == ["rewrite"]
    assert "nextCursor" not in service.listing({})


@pytest.mark.parametrize(
    ("params", "words"), [({"event": 7}, "event must be a string"), ({"cursor": "x"}, "there is no such cursor")]
)
def test_a_parameter_of_a_listing_that_is_not_acceptable_is_named(params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        InterceptorService(guard).listing(params)


def test_what_a_server_cannot_give_is_refused() -> None:
    @validator(events=["*"], phase="request")
    def looks_up(tools: Any) -> None: ...

    with pytest.raises(UnmetNeedError, match="catalogue of tools"):
        InterceptorService(looks_up)


@pytest.mark.parametrize("handshake", [True, False])
def test_the_capability_stands_where_its_era_has_it_and_everything_else_stays(handshake: bool) -> None:
    said: dict[str, Any] = {"a": None, "capabilities": {"tools": {}, "extensions": {"b": {}}}}
    added = add_capability(said, {"supportedEvents": []}, handshake=handshake)
    capability: dict[str, Any] = {KEY: {"supportedEvents": []}}
    experimental = {"experimental": capability} if handshake else {}
    assert added == {
        "a": None,
        "capabilities": {"tools": {}, "extensions": {"b": {}, **capability}, **experimental},
    }
    assert said == {"a": None, "capabilities": {"tools": {}, "extensions": {"b": {}}}}


def test_what_else_was_said_of_interceptors_goes() -> None:
    others = {KEY: {"supportedEvents": ["x"], "context": ["request"]}}
    said = {"capabilities": {"experimental": others, "extensions": others, "interceptor": {"supportedEvents": ["x"]}}}
    own = {KEY: {"supportedEvents": ["y"]}}
    added = add_capability(said, own[KEY], handshake=False)
    assert added["capabilities"] == {"experimental": own, "extensions": own}


def test_a_chain_tells_its_local_interceptors_as_it_runs_them() -> None:
    chain = Chain()
    hooks = [{"events": ["prompts/get"], "phase": "response"}]
    policy = {"mode": "audit", "fail_open": True, "priority_hint": {"request": 7}, "timeout_ms": 20, "hooks": hooks}
    chain.add(guard, rewrite, overrides={"rewrite": policy})
    first, second = chain.local_interceptors
    assert first.descriptor == guard.descriptor
    assert (second.descriptor.mode, second.descriptor.fail_open, second.timeout) == ("audit", True, 0.02)
    assert [hook.to_wire() for hook in second.descriptor.hooks] == hooks
    assert second.descriptor.priority("request") == 7
    assert (rewrite.descriptor.mode, rewrite.timeout) == ("active", None), "the author's own is not touched"
