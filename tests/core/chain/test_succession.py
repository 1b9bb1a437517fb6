"""A chain that takes the place of another goes on with its sessions, its store and its hanging threads."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from midspan_sdk import Chain, Exchange, InvocationContext, State, Store, validator

pytestmark = pytest.mark.anyio


def counting(*groups: str) -> Any:
    """Return a validator of each group that counts in its session's state, and shows the count."""

    def one(group: str) -> Any:
        @validator(events=["a"], phase="both", name=f"{group}.count")
        def count(session_state: State, payload: dict[str, Any]) -> str:
            session_state["count"] = session_state.get("count", 0) + 1
            return f"{group} {session_state['count']}"

        return count

    return [one(group) for group in groups]


def chain_of(*groups: str, **options: Any) -> Chain:
    chain = Chain(**options)
    chain.add(*counting(*groups))
    return chain


async def counts(chain: Chain, session: str = "s") -> list[str]:
    result = await chain.execute(event="a", phase="request", payload={}, context=InvocationContext(session_id=session))
    return [outcome.reason() for outcome in result.outcomes]


async def test_sessions_go_on_in_the_next_chain_and_in_the_one_before_it() -> None:
    old = chain_of("x", "y")
    assert await counts(old) == ["x 1", "y 1"]
    new = chain_of("x", "y", succeeding=old)
    assert await counts(new) == ["x 2", "y 2"]
    assert await counts(old) == ["x 3", "y 3"]
    assert await counts(chain_of("x", succeeding=new)) == ["x 4"]


async def test_without_a_predecessor_nothing_is_known() -> None:
    await counts(chain_of("x"))
    assert await counts(chain_of("x")) == ["x 1"]


async def test_what_is_fresh_starts_anew_and_the_old_chain_keeps_its_own() -> None:
    old = chain_of("x", "y")
    await counts(old)
    new = chain_of("x", "y", succeeding=old, fresh=["x"])
    assert await counts(new) == ["x 1", "y 2"]
    assert await counts(old) == ["x 2", "y 3"]
    third = chain_of("x", "y", succeeding=new)
    assert await counts(third) == ["x 2", "y 4"]
    assert await counts(chain_of("x", succeeding=third, fresh=["x"])) == ["x 1"]
    assert await counts(old) == ["x 3", "y 5"]


async def test_two_that_succeed_the_same_chain_do_not_share_what_is_fresh() -> None:
    old = chain_of("x")
    one, other = (chain_of("x", succeeding=old, fresh=["x"]) for _ in range(2))
    assert [await counts(one), await counts(other), await counts(one)] == [["x 1"], ["x 1"], ["x 2"]]


async def test_what_is_first_kept_after_the_succession_is_shared_too() -> None:
    old = chain_of("x")
    new = chain_of("x", succeeding=old)
    assert [await counts(old), await counts(new), await counts(old)] == [["x 1"], ["x 2"], ["x 3"]]


@pytest.mark.parametrize("ended_by", [0, 1])
async def test_a_session_that_ends_in_one_has_ended_in_both(ended_by: int) -> None:
    old = chain_of("x", "y")
    new = chain_of("x", "y", succeeding=old, fresh=["x"])
    for chain in (old, new):
        await counts(chain)
        await counts(chain, "other")
    (old, new)[ended_by].end_session("s")
    assert await counts(old) == ["x 1", "y 1"]
    assert await counts(new) == ["x 1", "y 2"]
    assert await counts(new, "other") == ["x 2", "y 3"]


async def test_what_only_the_old_chain_knows_goes_with_it() -> None:
    class Large(dict[str, Any]):
        pass

    larges = [Large()]
    gone = weakref.ref(larges[0])

    @validator(events=["a"], phase="request", name="x.keeps")
    def keeps(session_state: State) -> None:
        if larges:
            session_state["large"] = larges.pop()

    old = Chain()
    old.add(keeps)
    await counts(old)
    new = chain_of("x", succeeding=old, fresh=["x"])
    assert gone() is not None
    del old
    gc.collect()
    assert gone() is None
    assert await counts(new) == ["x 1"]


async def test_the_store_goes_on_unless_another_is_given() -> None:
    seen: list[Any] = []

    @validator(events=["a"], phase="request", name="x.stores")
    async def stores(store: Store) -> None:
        seen.append(await store.get("key"))
        await store.set("key", len(seen))

    class Made(Chain):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.add(stores)

    first = Made()
    await counts(first)
    second = Made(succeeding=first)
    await counts(second)
    from midspan_sdk import MemoryStore

    await counts(Made(succeeding=second, store=MemoryStore()))
    assert seen == [None, 1, None]


async def test_an_exchange_s_state_is_not_touched() -> None:
    @validator(events=["a"], phase="both", name="x.state")
    def both(state: State) -> str:
        state["count"] = state.get("count", 0) + 1
        return str(state["count"])

    old = Chain()
    old.add(both)
    exchange = Exchange()
    context = InvocationContext(session_id="s")
    await old.execute(event="a", phase="request", payload={}, context=context, exchange=exchange)
    Chain(succeeding=old, fresh=["x"])
    result = await old.execute(event="a", phase="response", payload={}, context=context, exchange=exchange)
    assert result.outcomes[0].reason() == "2"
