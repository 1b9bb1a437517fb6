"""One test suite over both stores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from midspan_sdk import Chain, InvocationContext, MemoryStore, SQLiteStore, Store, validator


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Callable[[], MemoryStore | SQLiteStore]:
    if request.param == "memory":
        return lambda: MemoryStore(clock=clock)
    return lambda: SQLiteStore(tmp_path / "state" / "store.sqlite", clock=clock)


def run(make: Callable[[], MemoryStore | SQLiteStore], use: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = make()
        try:
            with anyio.fail_after(20):
                await use(store)
        finally:
            if isinstance(store, SQLiteStore):
                await store.aclose()

    anyio.run(main)


def test_a_value_comes_back_as_the_same_json(make: Callable[[], MemoryStore | SQLiteStore]) -> None:
    value: dict[str, Any] = {"a": [1, 1.0, True, None, 2**60 + 1, "é\ud800"], "b": {}}

    async def use(store: Store) -> None:
        assert await store.get("k") is None
        await store.set("k", value)
        got = await store.get("k")
        assert repr(got) == repr(value)
        got["a"].clear()
        assert repr(await store.get("k")) == repr(value)
        await store.delete("k")
        await store.delete("k")
        assert await store.get("k") is None

    run(make, use)


def test_what_is_not_json_is_refused(make: Callable[[], MemoryStore | SQLiteStore]) -> None:
    async def use(store: Store) -> None:
        with pytest.raises(ValueError, match="set"):
            await store.set("k", {"a": {1}})
        assert await store.get("k") is None

    run(make, use)


def test_a_value_is_gone_after_its_time(make: Callable[[], MemoryStore | SQLiteStore], clock: Clock) -> None:
    async def use(store: Store) -> None:
        await store.set("k", 1, ttl=10)
        clock.now += 9.9
        assert await store.get("k") == 1
        clock.now += 0.1
        assert await store.get("k") is None

    run(make, use)


def test_increments_keep_the_time_of_the_first(make: Callable[[], MemoryStore | SQLiteStore], clock: Clock) -> None:
    async def use(store: Store) -> None:
        assert await store.increment("n", ttl=10) == 1
        clock.now += 6
        assert await store.increment("n", 4, ttl=10) == 5
        clock.now += 5
        assert await store.increment("n", ttl=10) == 1
        await store.set("text", "x")
        with pytest.raises(TypeError, match="'text'"):
            await store.increment("text")
        assert await store.get("text") == "x"

    run(make, use)


def test_compare_and_set_tells_one_from_true(make: Callable[[], MemoryStore | SQLiteStore]) -> None:
    async def use(store: Store) -> None:
        assert await store.compare_and_set("k", None, 1)
        assert not await store.compare_and_set("k", None, 2)
        assert not await store.compare_and_set("k", True, 2)
        assert await store.compare_and_set("k", 1, {"x": 1})
        assert await store.get("k") == {"x": 1}

    run(make, use)


def test_increments_side_by_side_lose_none(make: Callable[[], MemoryStore | SQLiteStore]) -> None:
    async def use(store: Store) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(store.increment, "n")
        assert await store.get("n") == 50

    run(make, use)


COUNTER = """
import sys, anyio
from midspan_sdk import SQLiteStore
async def main():
    store = SQLiteStore(sys.argv[1])
    for _ in range(100):
        await store.increment("n")
    await store.aclose()
anyio.run(main)
"""


def test_increments_of_several_processes_lose_none(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    processes = [subprocess.Popen([sys.executable, "-c", COUNTER, str(file)]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]

    async def main() -> None:
        store = SQLiteStore(file)
        assert await store.get("n") == 300
        await store.aclose()

    anyio.run(main)
    assert file.stat().st_mode & 0o077 == 0


def test_a_store_outlives_its_process(tmp_path: Path) -> None:
    async def main() -> None:
        first = SQLiteStore(tmp_path / "s")
        await first.set("k", [1])
        await first.aclose()
        second = SQLiteStore(tmp_path / "s")
        assert await second.get("k") == [1]
        await second.aclose()

    anyio.run(main)


def test_plugins_see_their_own_keys_only(make: Callable[[], MemoryStore | SQLiteStore]) -> None:
    seen: list[Any] = []

    @validator(events=["tools/call"], phase="request", name="one.count")
    async def one(store: Store) -> None:
        seen.append(await store.increment("n"))

    @validator(events=["tools/call"], phase="request", name="two.count")
    async def two(store: Store) -> None:
        seen.append(await store.get("n"))

    async def use(store: Store) -> None:
        chain = Chain(store=store)
        chain.add(one, two)
        for _ in range(2):
            result = await chain.execute(
                event="tools/call", phase="request", payload={}, context=InvocationContext(session_id="s")
            )
            assert result.status == "success"

    run(make, use)
    assert sorted(seen, key=str) == [1, 2, None, None]
