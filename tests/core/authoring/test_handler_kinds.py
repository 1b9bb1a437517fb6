"""How handlers of each kind are called: inline, stepped, awaited, in a worker thread."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from midspan_sdk import Chain, FailedResult, mutator, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


def check_of(handler: Callable[..., object], **options: Any) -> Any:
    return validator(events=["tools/call"], phase="request", name="it", **options)(handler)


def thread_of(**options: Any) -> str:
    seen: list[str] = []
    assert call(check_of(lambda: seen.append(threading.current_thread().name), **options)).status == "success"
    return seen[0]


def test_a_def_runs_on_the_loop_s_thread_and_a_blocking_one_does_not() -> None:
    assert thread_of() == threading.main_thread().name
    assert thread_of(blocking=True) != threading.main_thread().name


def test_an_async_def_runs_in_the_task_of_the_caller() -> None:
    async def handler() -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(asyncio.current_task())

    async def main() -> None:

        chain = Chain()
        chain.add(check_of(handler))
        await chain.execute(event="tools/call", phase="request", payload=CALL)
        seen.append(asyncio.current_task())

    seen: list[Any] = []
    anyio.run(main)
    assert seen[0] is seen[1]


async def denies(payload: dict[str, Any]) -> str:
    await anyio.lowlevel.checkpoint()
    return "no"


class Callables:
    def plain(self, payload: dict[str, Any]) -> str:
        return "no"

    async def awaits(self, payload: dict[str, Any]) -> str:
        return await denies(payload)

    def __call__(self, payload: dict[str, Any]) -> str:
        return "no"


class AsyncCallable:
    async def __call__(self, payload: dict[str, Any]) -> str:
        return await denies(payload)


def wrapped(function: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    @functools.wraps(function)
    async def wrapper(*args: Any) -> object:
        return await function(*args)

    return wrapper


def with_extra(extra: int, payload: dict[str, Any]) -> str:
    return "no"


async def async_with_extra(extra: int, payload: dict[str, Any]) -> str:
    return await denies(payload)


@pytest.mark.parametrize(
    "handler",
    [
        Callables().plain,
        Callables().awaits,
        Callables(),
        AsyncCallable(),
        wrapped(denies),
        partial(with_extra, 1),
        partial(async_with_extra, 1),
        partial(denies),
    ],
)
def test_every_callable_can_be_a_handler(handler: Any) -> None:
    result = call(check_of(handler))
    assert result.aborted_at is not None
    assert result.aborted_at.reason == "no"


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("decorate", [validator, mutator])
def test_a_def_that_returns_an_awaitable_failed_and_leaves_no_coroutine_behind(decorate: Any, blocking: bool) -> None:
    def forgets(payload: dict[str, Any]) -> Awaitable[str]:
        return denies(payload)

    result = call(decorate(events=["tools/call"], phase="request", name="it", blocking=blocking)(forgets))
    (failed,) = result.results
    assert isinstance(failed, FailedResult)
    assert failed.error["data"]["reason"].endswith("returned the wrong type")


def test_an_async_def_that_returns_a_coroutine_failed() -> None:
    async def forgets(payload: dict[str, Any]) -> Awaitable[str]:
        return denies(payload)

    result = call(check_of(forgets))
    assert result.status == "validation_failed"
    assert isinstance(result.results[0], FailedResult)


def test_context_variables_reach_handlers_of_every_kind() -> None:

    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    async def awaits() -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(variable.get())

    token = variable.set("set")
    try:
        for handler, blocking in ((lambda: seen.append(variable.get()), False), (awaits, False)):
            call(check_of(handler, blocking=blocking))
        call(check_of(lambda: seen.append(variable.get()), blocking=True))
    finally:
        variable.reset(token)
    assert seen == ["set"] * 3
