"""`interceptors/list`, as a client sees it."""

from typing import Any

import pytest
from mcp import MCPError
from pydantic import BaseModel

from midspan_sdk import (
    DefinitionError,
    DuplicateInterceptorError,
    UnmetNeedError,
    mutator,
    sink,
    validator,
)
from midspan_sdk.mcp import InterceptorsExtension, list_interceptors

pytestmark = pytest.mark.anyio


class Limits(BaseModel):
    """A config model."""

    bytes: int = 1


@validator(events=["tools/call"], phase="both", name="z-first")
def first(payload: dict[str, Any]) -> None: ...


@mutator(
    events=["prompts/*"],
    phase="request",
    name="a-second",
    priority_hint={"request": 5},
    mode="audit",
    fail_open=True,
    compat={"min_protocol": "2025-06-18"},
    description="Rewrites prompts.",
    version="1.2",
)
def second(payload: dict[str, Any], config: Limits) -> None: ...


@sink(events=["*"], phase="response", name="m-third")
def third(payload: dict[str, Any]) -> None: ...


async def test_the_list_keeps_the_order_of_registration_and_leaves_defaults_out(connect: Any, send: Any) -> None:
    async with connect(first, second, third) as client:
        result = await send(client, "interceptors/list", {})
    assert result["interceptors"] == [
        {
            "name": "z-first",
            "type": "validation",
            "hooks": [
                {"events": ["tools/call"], "phase": "request"},
                {"events": ["tools/call"], "phase": "response"},
            ],
        },
        {
            "name": "a-second",
            "version": "1.2",
            "description": "Rewrites prompts.",
            "type": "mutation",
            "hooks": [{"events": ["prompts/*"], "phase": "request"}],
            "mode": "audit",
            "failOpen": True,
            "priorityHint": {"request": 5},
            "compat": {"minProtocol": "2025-06-18"},
            "configSchema": Limits.model_json_schema(),
        },
        {"name": "m-third", "type": "sink", "hooks": [{"events": ["*"], "phase": "response"}]},
    ]


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (None, ["z-first", "a-second", "m-third"]),
        ("tools/call", ["z-first", "m-third"]),
        ("prompts/get", ["a-second", "m-third"]),
        ("tools/*", ["z-first", "m-third"]),
        ("*/call", ["z-first", "a-second", "m-third"]),
        ("*", ["z-first", "a-second", "m-third"]),
        ("custom/operation", ["m-third"]),
    ],
)
async def test_the_event_filter_honours_wildcards_on_both_sides(
    connect: Any, event: str | None, names: list[str]
) -> None:
    async with connect(first, second, third) as client:
        assert [descriptor.name for descriptor in await list_interceptors(client, event)] == names


async def test_descriptors_come_back_as_they_were_registered(connect: Any) -> None:
    async with connect(first, second, third) as client:
        assert await list_interceptors(client) == [one.descriptor for one in (first, second, third)]


async def test_a_server_without_interceptors_lists_none(connect: Any) -> None:
    async with connect() as client:
        assert await list_interceptors(client) == []


async def test_an_event_that_is_no_string_is_invalid(connect: Any, send: Any) -> None:
    async with connect(first) as client:
        with pytest.raises(MCPError) as caught:
            await send(client, "interceptors/list", {"event": 7})
    assert caught.value.code == -32602
    assert caught.value.data == {"reason": "event must be a string"}


def test_a_name_cannot_be_registered_twice() -> None:
    with pytest.raises(DuplicateInterceptorError, match=r"'z-first': name: is registered twice"):
        InterceptorsExtension(first, second, first)


@validator(events=["tools/call"], phase="request")
async def asking(ask: Any) -> None: ...


@validator(events=["tools/call"], phase="request")
def looking_up(tools: Any) -> None: ...


@pytest.mark.parametrize(("interceptor", "sentence"), [(asking, "asks the user"), (looking_up, "catalogue of tools")])
def test_what_a_server_cannot_give_is_refused_at_construction(interceptor: object, sentence: str) -> None:
    with pytest.raises(UnmetNeedError, match=sentence):
        InterceptorsExtension(interceptor)


def test_a_descriptor_that_would_break_the_transport_is_refused_at_construction() -> None:
    @validator(events=["tools/call"], phase="request", description="\ud800")
    def odd(payload: dict[str, Any]) -> None: ...

    with pytest.raises(DefinitionError, match="lone surrogate"):
        InterceptorsExtension(odd)
