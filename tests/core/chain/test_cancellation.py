"""Cancelling an execution, and handlers that do unusual things with cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from midspan_sdk import Chain, FailedResult, Invocation, mutator, validator
from midspan_sdk.testing import run

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "echo"}
ON_CALLS: dict[str, Any] = {"events": ["tools/call"], "phase": "request"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


async def execute(chain: Chain, **options: Any) -> Any:
    return await chain.execute(event="tools/call", phase="request", payload=CALL, **options)


class Waits:
    """A handler that waits, and tells how it ended."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.ended: list[str] = []

    async def __call__(self) -> None:
        self.started.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(0)  # a clean-up that suspends is waited for
            self.ended.append("cancelled")
            raise


@pytest.mark.parametrize("decorate", [validator, mutator])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("how", ["task", "scope"])
async def test_a_cancelled_execution_cancels_every_running_handler_and_waits_for_it(
    decorate: Any, count: int, how: str
) -> None:
    handlers = [Waits() for _ in range(count)]
    chain = Chain()
    chain.add(*(decorate(**ON_CALLS, name=str(n), timeout=30)(handler) for n, handler in enumerate(handlers)))
    running = handlers if decorate is validator else handlers[:1]
    ended: list[str] = []

    async def send(scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await execute(chain)
            finally:
                ended.append(",".join(one for handler in running for one in handler.ended))

    with anyio.fail_after(5):
        scope = anyio.CancelScope()
        task = asyncio.ensure_future(send(scope))
        for handler in running:
            await handler.started.wait()
        if how == "task":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            scope.cancel()
            await task
            assert scope.cancelled_caught
    assert ended == [",".join(["cancelled"] * len(running))]


async def test_a_cancelled_execution_tells_a_blocking_handler_and_does_not_wait_for_it() -> None:
    started, release = threading.Event(), threading.Event()
    seen: list[bool] = []

    @validator(**ON_CALLS, blocking=True, timeout=30)
    def works(invocation: Invocation) -> None:
        started.set()
        release.wait(5)
        seen.append(invocation.cancelled)

    chain = Chain()
    chain.add(works)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(execute, chain))
            await anyio.to_thread.run_sync(started.wait)
            tasks.cancel_scope.cancel()
        assert seen == []
        release.set()
        while not seen:
            await anyio.lowlevel.checkpoint()
    assert seen == [True]


async def test_a_blocking_handler_that_ignores_its_deadline_does_not_hold_the_chain() -> None:
    release = threading.Event()
    seen: list[bool] = []

    @validator(**ON_CALLS, blocking=True, timeout=0.02, name="late")
    def ignores(invocation: Invocation) -> None:
        release.wait(5)
        seen.append(invocation.cancelled)

    chain = Chain()
    chain.add(ignores)
    with anyio.fail_after(5):
        result = await execute(chain)
        assert result.status == "timeout"
        assert seen == []
        release.set()
        while not seen:
            await anyio.lowlevel.checkpoint()
    assert seen == [True]


async def test_an_invocation_that_was_in_time_is_not_cancelled() -> None:
    seen: list[Invocation] = []

    @validator(**ON_CALLS, blocking=True)
    def keeps(invocation: Invocation) -> None:
        seen.append(invocation)

    chain = Chain()
    chain.add(keeps)
    await execute(chain)
    assert not seen[0].cancelled


async def test_abandoned_threads_are_bounded_and_the_bound_is_lifted_when_they_return() -> None:
    release = threading.Event()
    started, ended = threading.Semaphore(0), threading.Semaphore(0)

    @validator(**ON_CALLS, blocking=True, timeout=30, name="hangs")
    def hangs() -> None:
        started.release()
        release.wait(20)
        ended.release()

    @validator(**ON_CALLS, blocking=True, name="quick")
    def quick() -> None: ...

    chain = Chain()
    chain.add(hangs, quick)
    try:
        with anyio.fail_after(15):
            async with anyio.create_task_group() as tasks:
                for _ in range(32):
                    tasks.start_soon(partial(execute, chain, interceptors=["hangs"]))
                for _ in range(32):
                    await anyio.to_thread.run_sync(started.acquire)
                assert (await execute(chain, interceptors=["quick"])).status == "success"
                tasks.cancel_scope.cancel()
            refused = await execute(chain, interceptors=["quick"])
            assert refused.status == "validation_failed"
            assert refused.aborted_at.reason == "too many earlier calls still hang in their threads"
    finally:
        release.set()
    with anyio.fail_after(15):
        for _ in range(32):
            await anyio.to_thread.run_sync(ended.acquire)
        while (await execute(chain, interceptors=["quick"])).status != "success":
            await anyio.lowlevel.checkpoint()


async def execute_often(chain: Chain, count: int) -> list[Any]:
    results: list[Any] = []

    async def one() -> None:
        results.append(await execute(chain))

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
    return results


async def test_a_call_that_never_got_a_thread_is_not_counted_as_abandoned() -> None:
    release = threading.Event()
    limiter = anyio.to_thread.current_default_thread_limiter()
    total, limiter.total_tokens = limiter.total_tokens, 1
    started = threading.Event()

    def occupy() -> None:
        started.set()
        release.wait(20)

    @validator(**ON_CALLS, blocking=True, timeout=0.01, name="hangs", fail_open=True)
    def waits_for_a_thread() -> None: ...

    chain = Chain()
    chain.add(waits_for_a_thread)
    results: list[Any] = []
    try:
        with anyio.fail_after(15):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, occupy)
                while not started.is_set():
                    await anyio.lowlevel.checkpoint()
                results = await execute_often(chain, 40)
                release.set()
            assert {result.results[0].error["code"] for result in results} == {-32000}
            limiter.total_tokens = total
            assert (await execute(chain)).results[0].valid
    finally:
        release.set()
        limiter.total_tokens = total


def cancelled_error() -> None:
    raise asyncio.CancelledError


async def cancelled_error_without_await() -> None:
    raise asyncio.CancelledError


async def cancelled_error_at_once() -> None:
    if CALL:
        raise asyncio.CancelledError
    await anyio.lowlevel.checkpoint()


async def cancelled_error_later() -> None:
    await anyio.lowlevel.checkpoint()
    raise asyncio.CancelledError


async def awaits_a_cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@pytest.mark.parametrize(
    ("handler", "options"),
    [
        (cancelled_error, {}),
        (cancelled_error, {"blocking": True}),
        (cancelled_error_without_await, {}),
        (cancelled_error_at_once, {}),
        (cancelled_error_later, {}),
        (awaits_a_cancelled_future, {}),
    ],
)
@pytest.mark.parametrize("decorate", [validator, mutator])
@pytest.mark.parametrize("others", [0, 2])
async def test_a_handler_that_raises_cancelled_error_by_itself_failed(
    handler: Any, options: dict[str, Any], decorate: Any, others: int
) -> None:
    async def other() -> None:
        await anyio.lowlevel.checkpoint()

    chain = Chain()
    chain.add(decorate(**ON_CALLS, name="it", **options)(handler))
    chain.add(*(validator(**ON_CALLS, name=f"other{n}")(other) for n in range(others)))
    with anyio.fail_after(5):
        result = await execute(chain)
        await anyio.lowlevel.checkpoint()  # and nothing is left that would cancel the caller
    assert result.status in ("validation_failed", "mutation_failed")
    failed = result.results[0]
    assert isinstance(failed, FailedResult)
    assert failed.error["data"]["reason"] == "the handler cancelled itself"


async def test_a_handler_that_cancels_its_own_task_beside_others_failed() -> None:
    async def cancels_its_task() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.lowlevel.checkpoint()

    async def other() -> None:
        await anyio.lowlevel.checkpoint()

    chain = Chain()
    chain.add(validator(**ON_CALLS, name="it")(cancels_its_task), validator(**ON_CALLS, name="other")(other))
    with anyio.fail_after(5):
        result = await execute(chain)
    assert result.status == "validation_failed"
    assert [type(one).__name__ for one in result.results] == ["FailedResult", "ValidationResult"]


# Cancel scopes and timeouts inside handlers


async def moves_on(suspend: Callable[[], Any]) -> bool:
    await suspend()
    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep_forever()
    await suspend()
    return scope.cancelled_caught


async def fails_after(suspend: Callable[[], Any]) -> bool:
    await suspend()
    try:
        with anyio.fail_after(0.01):
            await anyio.sleep_forever()
    except TimeoutError:
        await suspend()
        return True
    return False


async def asyncio_timeout(suspend: Callable[[], Any]) -> bool:
    await suspend()
    try:
        async with asyncio.timeout(0.01):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        await suspend()
        return True
    return False


async def task_group(suspend: Callable[[], Any]) -> bool:
    await suspend()
    done: list[int] = []

    async def child(n: int) -> None:
        await anyio.lowlevel.checkpoint()
        done.append(n)

    async with anyio.create_task_group() as tasks:
        for n in range(3):
            tasks.start_soon(child, n)
    await suspend()
    return sorted(done) == [0, 1, 2]


async def cancelled_task_group(suspend: Callable[[], Any]) -> bool:
    await suspend()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep_forever)
        await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    await suspend()
    return True


async def asyncio_task_group(suspend: Callable[[], Any]) -> bool:
    await suspend()
    async with asyncio.TaskGroup() as tasks:
        one = tasks.create_task(asyncio.sleep(0, True))
    await suspend()
    return one.result()


async def scope_around_everything(suspend: Callable[[], Any]) -> bool:
    with anyio.CancelScope() as scope:
        await suspend()
        scope.cancel()
        await anyio.sleep_forever()
    await suspend()
    return scope.cancelled_caught


async def shielded(suspend: Callable[[], Any]) -> bool:
    with anyio.CancelScope(shield=True):
        await suspend()
    return True


async def nothing_to_wait_for() -> None: ...


HANDLERS = [
    moves_on,
    fails_after,
    asyncio_timeout,
    task_group,
    cancelled_task_group,
    asyncio_task_group,
    scope_around_everything,
    shielded,
]


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("suspend", [anyio.lowlevel.checkpoint, nothing_to_wait_for])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("scope", ["none", "anyio", "asyncio"])
async def test_scopes_and_timeouts_work_inside_handlers(handler: Any, suspend: Any, count: int, scope: str) -> None:
    async def check() -> bool:
        return await handler(suspend)

    chain = Chain()
    chain.add(*(validator(**ON_CALLS, name=str(n), timeout=5)(check) for n in range(count)))
    result: Any = None
    with anyio.fail_after(5):
        if scope == "anyio":
            with anyio.move_on_after(4):
                result = await execute(chain)
        elif scope == "asyncio":
            async with asyncio.timeout(4):
                result = await execute(chain)
        else:
            result = await execute(chain)
        await anyio.lowlevel.checkpoint()
    assert result.status == "success", result.results
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("scope", ["anyio", "asyncio"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("decorate", [validator, mutator])
async def test_a_scope_around_an_execution_ends_it(decorate: Any, count: int, scope: str) -> None:
    handlers = [Waits() for _ in range(count)]
    chain = Chain()
    chain.add(*(decorate(**ON_CALLS, name=str(n), timeout=30)(handler) for n, handler in enumerate(handlers)))
    ended = False
    with anyio.fail_after(5):
        if scope == "anyio":
            with anyio.move_on_after(0.02) as outer:
                await execute(chain)
            ended = outer.cancelled_caught
        else:
            try:
                async with asyncio.timeout(0.02):
                    await execute(chain)
            except TimeoutError:
                ended = True
        await anyio.lowlevel.checkpoint()
    assert ended
    assert handlers[0].ended == ["cancelled"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_deadline_that_passes_inside_a_scope_of_the_handler_is_a_timeout() -> None:
    async def waits_in_scopes() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            with anyio.move_on_after(30):
                async with asyncio.timeout(30):
                    await anyio.sleep_forever()

    chain = Chain()
    chain.add(validator(**ON_CALLS, name="it", timeout=0.02)(waits_in_scopes))
    with anyio.fail_after(5):
        result = await execute(chain)
        await anyio.lowlevel.checkpoint()
    assert result.status == "timeout"


async def test_a_timeout_of_the_handler_s_own_is_a_crash_and_not_its_deadline() -> None:
    async def gives_up() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.get_running_loop().create_future()

    chain = Chain()
    chain.add(validator(**ON_CALLS, name="it", timeout=5)(gives_up))
    result = await execute(chain)
    assert result.status == "validation_failed"
    assert result.aborted_at.reason == "the validator raised TimeoutError"


async def test_a_slow_handler_of_one_message_does_not_delay_another_message() -> None:
    release = anyio.Event()

    @validator(**ON_CALLS, timeout=5)
    async def slow(payload: dict[str, Any]) -> None:
        if payload["name"] == "slow":
            await release.wait()

    chain = Chain()
    chain.add(slow)
    done: list[str] = []

    async def send(name: str) -> None:
        await chain.execute(event="tools/call", phase="request", payload={"name": name})
        done.append(name)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, "slow")
            await anyio.wait_all_tasks_blocked()
            await send("quick")
            assert done == ["quick"]
            release.set()
    assert done == ["quick", "slow"]


async def test_a_coroutine_that_is_closed_closes_its_handlers() -> None:
    closed: list[bool] = []

    @validator(**ON_CALLS, timeout=30)
    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    chain = Chain()
    chain.add(waits)
    coroutine = execute(chain)
    coroutine.send(None)
    coroutine.close()
    assert closed == [True]
