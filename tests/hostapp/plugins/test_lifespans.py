from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan.errors import PluginError
from midspan.plugins import Assembly, Builder
from midspan_sdk import MemoryStore

pytestmark = pytest.mark.anyio

HEAD = """
import anyio
from contextlib import asynccontextmanager
from midspan_sdk import hookimpl, sink, validator

log = []
"""
PLUGIN = (
    HEAD
    + """
@hookimpl
@asynccontextmanager
async def midspan_lifespan(config, instance):
    log.append(f"enter {instance}")
    try:
        yield {"opened by": instance}
    finally:
        log.append(f"leave {instance}")

@validator(events=["tools/call"], phase="request")
def check(payload, lifespan):
    return f"{lifespan['opened by']}"

@hookimpl
def midspan_interceptors():
    return [check]
"""
)


TAP = """
@sink(events=["tools/call"], phase="request")
async def tap(payload):
    await anyio.lowlevel.checkpoint()
    log.append("drained")
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, source: str) -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        return path

    return write


def log_of(assembly: Assembly, number: int = 0) -> list[str]:
    """The list `log` of a plugin file, found through its hook."""
    from sys import modules

    name = assembly.instances[number].plugin.info.id.replace("-", "_")
    return modules[f"midspan_plugin_file_{name}"].log


async def test_a_lifespan_is_entered_by_running_only_and_reaches_handlers(file: Callable[[str, str], Path]) -> None:
    assembly = Builder(plugin_files=[file("one", PLUGIN)]).assembly()
    assert log_of(assembly) == []
    async with assembly.running() as chain:
        result = await chain.execute(event="tools/call", phase="request", payload={})
        assert log_of(assembly) == ["enter one"]
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "one"
    assert log_of(assembly) == ["enter one", "leave one"]


async def test_lifespans_are_left_in_reverse_and_after_the_chain_was_drained(
    file: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[str] = []
    source = PLUGIN.replace("log = []", "import builtins\nlog = builtins.midspan_test_log")
    two = source.replace("@validator", f"{TAP}\n@validator").replace("[check]", "[tap]")
    monkeypatch.setattr("builtins.midspan_test_log", shared, raising=False)
    assembly = Builder(plugin_files=[file("one", source.replace("[check]", "[]")), file("two", two)]).assembly()
    async with assembly.running() as chain:
        await chain.execute(event="tools/call", phase="request", payload={})
    assert shared == ["enter one", "enter two", "drained", "leave two", "leave one"]


async def test_a_lifespan_that_cannot_be_entered_stops_the_start_and_leaves_those_before_it(
    file: Callable[[str, str], Path],
) -> None:
    grouped = (
        PLUGIN.replace("    try:", "    async with anyio.create_task_group():\n     try:")
        .replace("        yield", "      yield")
        .replace("    finally:", "     finally:")
    )
    broken = PLUGIN.replace('log.append(f"enter {instance}")', "raise ConnectionError('no route')")
    assembly = Builder(plugin_files=[file("one", grouped), file("two", broken)]).assembly()
    with pytest.raises(PluginError) as caught:
        async with assembly.running():
            raise AssertionError("entered")
    assert caught.value.problem.startswith("midspan_lifespan could not be entered: ConnectionError: no route (")
    assert str(caught.value).endswith("(to start without it, leave out --plugin-file)")
    assert log_of(assembly) == ["enter one", "leave one"]


@pytest.mark.parametrize("returned", ["None", "raise"])
async def test_a_lifespan_hook_that_fails_is_the_plugins_error(returned: str, file: Callable[[str, str], Path]) -> None:
    body = "raise ValueError('no')" if returned == "raise" else "return None"
    source = HEAD + f"\n@hookimpl\ndef midspan_lifespan():\n    {body}\n"
    with pytest.raises(PluginError, match=r"midspan_lifespan (returned None|raised ValueError: no)"):
        async with Builder(plugin_files=[file("one", source)]).assembly().running():
            raise AssertionError("entered")


SWALLOWING = (
    HEAD
    + """
@hookimpl
@asynccontextmanager
async def midspan_lifespan():
    try:
        yield
    except BaseException:
        log.append("swallowed")
"""
)
GROUPED = (
    HEAD
    + """
@hookimpl
@asynccontextmanager
async def midspan_lifespan():
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        yield
        group.cancel_scope.cancel()
"""
)


@pytest.mark.parametrize("source", [SWALLOWING, GROUPED])
async def test_an_error_of_the_traffic_leaves_as_it_is(source: str, file: Callable[[str, str], Path]) -> None:
    assembly = Builder(plugin_files=[file("one", source)]).assembly()
    with anyio.fail_after(5), pytest.raises(KeyError, match="ours"):
        async with assembly.running():
            raise KeyError("ours")
    assert log_of(assembly) == []


async def test_a_background_task_of_a_plugin_that_fails_ends_the_traffic(file: Callable[[str, str], Path]) -> None:
    source = (
        HEAD
        + """
async def fail():
    raise ConnectionError("lost")

@hookimpl
@asynccontextmanager
async def midspan_lifespan():
    async with anyio.create_task_group() as group:
        group.start_soon(fail)
        yield
"""
    )
    with anyio.fail_after(5), pytest.raises(ExceptionGroup) as caught:
        async with Builder(plugin_files=[file("one", source)]).assembly().running():
            await anyio.sleep_forever()
    assert caught.group_contains(ConnectionError, match="lost")


async def test_cancelling_the_traffic_still_leaves_lifespans(file: Callable[[str, str], Path]) -> None:
    assembly = Builder(plugin_files=[file("one", PLUGIN)]).assembly()
    with anyio.CancelScope() as scope:
        async with assembly.running():
            scope.cancel()
            await anyio.sleep_forever()
    assert log_of(assembly) == ["enter one", "leave one"]


async def test_a_lifespan_that_fails_while_it_is_left_is_logged_and_the_others_are_left(
    file: Callable[[str, str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    broken = PLUGIN.replace('log.append(f"leave {instance}")', "raise OSError('cannot close')")
    assembly = Builder(plugin_files=[file("one", PLUGIN), file("two", broken)]).assembly()
    with caplog.at_level(logging.ERROR, "midspan.plugins"):
        async with assembly.running():
            pass
    assert log_of(assembly) == ["enter one", "leave one"]
    assert caplog.messages == ["the lifespan of plugin 'two' failed while it was left"]


async def test_the_store_of_the_mount_reaches_handlers(file: Callable[[str, str], Path]) -> None:
    source = (
        HEAD
        + """
@validator(events=["tools/call"], phase="request")
async def check(payload, store):
    await store.set("seen", True)

@hookimpl
def midspan_interceptors():
    return [check]
"""
    )
    kept: dict[str, Any] = {}

    class Recording(MemoryStore):
        async def set(self, key: str, value: Any, *, ttl: float | None = None) -> None:
            kept[key] = value

    with pytest.raises(PluginError, match="needs a store, which this mount does not have"):
        Builder(plugin_files=[file("one", source)]).assembly()
    async with (
        Builder(plugin_files=[file("one", source)], gives=["store"], store=Recording()).assembly().running() as chain
    ):
        await chain.execute(event="tools/call", phase="request", payload={})
    assert list(kept.values()) == [True]
