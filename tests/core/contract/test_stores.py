"""The store that a chain gives to handlers, and each plugin's own part of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from midspan_sdk import Chain, MemoryStore, Store, ValidationResult, validator

pytestmark = pytest.mark.anyio


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("value", [None, 0, 1.5, True, "text", [1, {"a": None}], {"a": [1]}], ids=str)
async def test_a_value_is_kept_and_given_back(value: Any) -> None:
    store = MemoryStore()
    assert isinstance(store, Store)
    assert await store.get("k") is None
    await store.set("k", value)
    assert await store.get("k") == value
    await store.delete("k")
    await store.delete("k")
    assert await store.get("k") is None


async def test_a_kept_value_is_nobody_else_s_to_edit() -> None:
    store = MemoryStore()
    value: dict[str, Any] = {"a": [1]}
    await store.set("k", value)
    value["a"].append(2)
    (await store.get("k"))["a"].append(3)
    assert await store.get("k") == {"a": [1]}


@pytest.mark.parametrize("value", [object(), {1}, b"x", float("nan"), {1: 2}])
async def test_a_value_that_is_not_json_is_refused(value: Any) -> None:
    store = MemoryStore()
    with pytest.raises(ValueError, match=r"JSON|finite"):
        await store.set("k", value)
    with pytest.raises(ValueError, match=r"JSON|finite"):
        await store.compare_and_set("k", None, value)
    assert await store.get("k") is None


async def test_a_value_is_gone_after_its_time_to_live() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    await store.set("k", 1, ttl=10)
    clock.now += 9.9
    assert await store.get("k") == 1
    clock.now += 0.1
    assert await store.get("k") is None


async def test_a_number_is_counted_up_and_its_time_to_live_starts_with_it() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    assert await store.increment("n", ttl=10) == 1
    clock.now += 6
    assert await store.increment("n", 5, ttl=10) == 6
    clock.now += 4
    assert await store.increment("n", -2) == -2
    clock.now += 1000
    assert await store.get("n") == -2


@pytest.mark.parametrize("value", ["1", 1.0, True, [1]])
async def test_only_an_integer_is_counted_up(value: Any) -> None:
    store = MemoryStore()
    await store.set("n", value)
    with pytest.raises(TypeError, match="'n' is not an integer"):
        await store.increment("n")


async def test_a_value_is_set_if_the_present_one_is_as_expected() -> None:
    store = MemoryStore()
    assert await store.compare_and_set("k", None, 1)
    assert not await store.compare_and_set("k", None, 2)
    assert not await store.compare_and_set("k", 1.0, 2)
    assert not await store.compare_and_set("k", True, 2)
    assert await store.compare_and_set("k", 1, {"a": 1})
    assert await store.compare_and_set("k", {"a": 1}, "x")
    assert await store.get("k") == "x"


async def test_expired_values_do_not_stay_in_memory() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    for n in range(5000):
        await store.set(str(n), n, ttl=1)
        clock.now += 1
    assert len(store._values) < 2500  # pyright: ignore[reportPrivateUsage]  # there is no public view of dead keys


async def test_counting_up_is_atomic_among_handlers() -> None:
    @validator(events=["*"], phase="request", name="p.count", timeout=5)
    async def count(store: Store) -> None:
        await store.increment("n")

    store = MemoryStore()
    chain = Chain(store=store)
    chain.add(count)

    async def send() -> None:
        result = await chain.execute(event="x", phase="request", payload={})
        assert isinstance(result.results[0], ValidationResult)

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(send)
    values = [await store.get(key) for key in list(store._values)]  # pyright: ignore[reportPrivateUsage]  # its namespace
    assert values == [50]
