"""From enabled plugins to a server of their interceptors."""

from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client

from midspan.errors import OperatorError
from midspan.plugins import Assembly
from midspan.serve import interceptor_server, unused_observers
from midspan_sdk import InterceptorTimeoutError, InvalidInvocationError, ValidationResult
from midspan_sdk.mcp import invoke_interceptor, list_interceptors, read_capability

pytestmark = pytest.mark.anyio
Assembled = Callable[..., Assembly]

GUARD = """
from contextlib import asynccontextmanager
import anyio
from midspan_sdk import hookimpl, mutator, validator

@validator(events=["tools/call"], phase="both")
def looks(payload, lifespan) -> str:
    return f"opened: {lifespan}"

@mutator(events=["tools/call"], phase="request", priority_hint=3)
async def waits(payload):
    await anyio.sleep_forever()

@hookimpl
def midspan_interceptors():
    return [looks, waits]

@hookimpl
def midspan_lifespan():
    @asynccontextmanager
    async def lifespan():
        yield "yes"
    return lifespan()
"""

WATCH = """
from midspan_sdk import hookimpl

class Watch:
    name = "watch"
    durable = False
    async def observe(self, record): ...

@hookimpl
def midspan_observers():
    return [Watch()]
"""

NOTHING = """
from midspan_sdk import hookimpl

@hookimpl
def midspan_interceptors():
    return []
"""


async def test_the_enabled_plugins_are_served_under_their_wire_names(assembled: Assembled) -> None:
    assembly = assembled(guard=GUARD)
    async with assembly.running(), Client(interceptor_server(assembly)) as client:
        assert [one.name for one in await list_interceptors(client)] == ["guard.looks", "guard.waits"]
        assert client.server_info is not None
        assert client.server_info.name == "midspan"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_only_the_interceptor_methods_are_served_in_both_eras(assembled: Assembled, mode: Any) -> None:
    assembly = assembled(guard=GUARD)
    async with assembly.running(), Client(interceptor_server(assembly), mode=mode) as client:
        assert read_capability(client.server_capabilities) == {"supportedEvents": ["tools/call"]}
        assert client.server_capabilities.tools is None
        assert client.server_capabilities.resources is None
        assert client.server_capabilities.prompts is None


async def test_handlers_get_what_their_lifespan_yielded(assembled: Assembled) -> None:
    assembly = assembled(guard=GUARD)
    async with assembly.running(), Client(interceptor_server(assembly)) as client:
        result = await invoke_interceptor(client, "guard.looks", event="tools/call", phase="request", payload={})
    assert isinstance(result, ValidationResult)
    assert result.messages[0].message == "opened: yes"


async def test_the_operators_policy_stands_in_the_descriptors(assembled: Assembled) -> None:
    config = """
    [plugins.guard]
    mode = "audit"
    priority = { request = 7 }
    [plugins.guard.interceptors.looks]
    fail_open = true
    timeout = "20ms"
    hooks = [{ events = ["tools/call"], phase = "response" }]
    [plugins.guard.interceptors.waits]
    timeout = "20ms"
    """
    assembly = assembled(config, guard=GUARD)
    async with assembly.running(), Client(interceptor_server(assembly)) as client:
        looks, waits = await list_interceptors(client)
        assert looks.to_wire() == {
            "name": "guard.looks",
            "type": "validation",
            "hooks": [{"events": ["tools/call"], "phase": "response"}],
            "mode": "audit",
            "failOpen": True,
        }
        assert (waits.mode, waits.fail_open, waits.priority("request")) == ("audit", False, 7)
        with pytest.raises(InvalidInvocationError, match="not hooked to the request phase"):
            await invoke_interceptor(client, "guard.looks", event="tools/call", phase="request", payload={})
        with pytest.raises(InterceptorTimeoutError) as caught:
            await invoke_interceptor(client, "guard.waits", event="tools/call", phase="request", payload={})
        assert caught.value.timeout_ms == 20


def test_nothing_enabled_is_the_operators_mistake(assembled: Assembled) -> None:
    with pytest.raises(OperatorError, match=r"no plugin is enabled.*enable a plugin with --plugin ID"):
        interceptor_server(assembled())


def test_plugins_without_interceptors_are_named(assembled: Assembled) -> None:
    with pytest.raises(OperatorError, match=r"no enabled plugin contributes interceptors \('watch', 'nothing'\)"):
        interceptor_server(assembled(watch=WATCH, nothing=NOTHING))


def test_observers_that_stay_idle_are_told_of(assembled: Assembled) -> None:
    (line,) = unused_observers(assembled(guard=GUARD, watch=WATCH))
    assert line.startswith("plugin 'watch': its observers")
    assert unused_observers(assembled(guard=GUARD)) == []


def test_an_interceptor_that_needs_more_than_a_server_has_stops_the_start(assembled: Assembled) -> None:
    source = GUARD.replace("def looks(payload, lifespan)", "def looks(payload, tools, lifespan)")
    with pytest.raises(OperatorError, match=r"guard.*catalogue of tools"):
        interceptor_server(assembled(guard=source))
