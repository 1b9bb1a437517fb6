"""Interceptors as methods of an object, and the copies that a host binds to its plugin instance."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from midspan_sdk import Bindings, Chain, DefinitionError, Exchange, mutator, validator
from midspan_sdk.testing import run

CALL: dict[str, Any] = {"name": "echo", "n": 0}

call = partial(run, event="tools/call", phase="request", payload=CALL)


@validator(events=["tools/call"], phase="request")
def outside(payload: dict[str, Any]) -> str | None:
    return None if payload["name"] == "echo" else "not the payload"


class Counter:
    borrowed = outside

    def __init__(self, step: int) -> None:
        self.step = step

    @mutator(events=["tools/call"], phase="request")
    def count(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "n": payload["n"] + self.step}

    @validator(events=["tools/call"], phase="response")
    async def check(self, payload: dict[str, Any]) -> bool:
        return payload["n"] < 10

    @property
    def never_touched(self) -> None:
        raise AssertionError("collecting interceptors must not run properties")


class Named(Counter):
    @mutator(events=["tools/call"], phase="request", name="named")
    def count(self, payload: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]  # P is invariant
        return {**payload, "n": -1}


def test_decorated_methods_of_an_object_are_interceptors_in_order_of_definition() -> None:
    chain = Chain()
    chain.add(Counter(3))
    assert [entry.name for entry in chain.entries] == ["outside", "count", "check"]


def test_a_method_works_on_its_own_object() -> None:
    assert call(Counter(3)).final_payload == {"name": "echo", "n": 3}
    assert call(Counter(5)).final_payload == {"name": "echo", "n": 5}
    assert run(Counter(1), event="tools/call", phase="response", payload={"n": 11}).status == "validation_failed"


def test_a_decorated_function_in_a_class_body_is_no_method() -> None:
    assert call(Counter.borrowed).status == "success"


def test_a_bound_method_is_still_called_as_written() -> None:
    assert Counter(2).count({"n": 1}) == {"n": 3}


def test_a_subclass_replaces_a_decorated_method_in_its_place() -> None:
    chain = Chain()
    chain.add(Named(3))
    assert [entry.name for entry in chain.entries] == ["outside", "named", "check"]


def test_a_subclass_that_forgets_the_decorator_is_refused() -> None:
    class Forgets(Counter):
        def check(self, payload: dict[str, Any]) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # the case
            return True

    with pytest.raises(DefinitionError) as caught:
        Chain().add(Forgets(1))
    assert str(caught.value) == (
        "interceptor 'Forgets': check: replaces a decorated method by one that is not; "
        "decorate it, or set it to None to leave it out"
    )


def test_a_subclass_leaves_a_decorated_method_out_by_none() -> None:
    class Without(Counter):
        check = None  # pyright: ignore[reportAssignmentType]  # the case

    chain = Chain()
    chain.add(Without(1))
    assert [entry.name for entry in chain.entries] == ["outside", "count"]


def test_an_unbound_method_is_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        Chain().add(Counter.count)
    assert str(caught.value) == "interceptor 'count': is a method; contribute an instance of its class"


@pytest.mark.parametrize("value", [5, "text", [outside], None, object(), len])
def test_something_without_interceptors_is_refused(value: object) -> None:
    with pytest.raises(DefinitionError) as caught:
        Chain().add(value)
    assert str(caught.value) == (
        f"interceptor {type(value).__name__!r}: is no interceptor and has no decorated methods; "
        "decorate with @validator, @mutator or @sink"
    )


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = 1


def test_bound_makes_a_copy_under_another_name_and_leaves_the_original() -> None:
    copy = outside.bound(name="guard.outside", bindings=Bindings(Settings(limit=2), "life"), config_model=Settings)
    assert (copy.name, outside.name) == ("guard.outside", "outside")
    assert (copy.state_group, outside.state_group) == ("guard", "outside")
    assert (copy.bindings.config, copy.bindings.lifespan) == (Settings(limit=2), "life")
    assert (outside.bindings.config, outside.bindings.lifespan) == (None, None)
    assert copy.descriptor.to_wire() == {
        **outside.descriptor.to_wire(),
        "name": "guard.outside",
        "configSchema": Settings.model_json_schema(),
    }
    assert "configSchema" not in outside.descriptor.to_wire()


def test_bound_keeps_the_rest_of_the_descriptor() -> None:
    @mutator(
        events=["tools/call", "prompts/*"],
        phase="both",
        mode="audit",
        fail_open=True,
        priority_hint={"request": 5},
        compat={"min_protocol": "2025-06-18"},
        description="d",
        version="1",
    )
    def change() -> None: ...

    assert change.bound(name="x.change").descriptor.to_wire() == {**change.descriptor.to_wire(), "name": "x.change"}


def test_bound_refuses_a_name_as_the_decorator_does() -> None:
    with pytest.raises(DefinitionError) as caught:
        outside.bound(name="a\x00b")
    assert str(caught.value) == "interceptor 'a\\x00b': name: contains the control character '\\x00'"


def test_whether_the_author_gave_the_name_is_known() -> None:
    assert not outside.explicit_name
    assert Named(1).count.explicit_name


async def shared(group: str | None) -> list[Any]:
    seen: list[Any] = []

    @mutator(events=["tools/call"], phase="request", name="redact")
    def redact(state: dict[str, Any]) -> None:
        state["kept"] = 1

    @mutator(events=["tools/call"], phase="response", name="restore")
    def restore(state: dict[str, Any]) -> None:
        seen.append(dict(state))

    chain, exchange = Chain(), Exchange()
    chain.add(redact.bound(group=group), restore.bound(group=group))
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    return seen


@pytest.mark.anyio
async def test_state_is_shared_by_a_group() -> None:
    assert await shared("plugin") == [{"kept": 1}]
    assert await shared(None) == [{}]


@pytest.mark.anyio
async def test_the_methods_of_one_object_share_their_state() -> None:
    seen: list[Any] = []

    class Vault:
        @mutator(events=["tools/call"], phase="request")
        def redact(self, state: dict[str, Any]) -> None:
            state["kept"] = 1

        @mutator(events=["tools/call"], phase="response")
        def restore(self, state: dict[str, Any]) -> None:
            seen.append(dict(state))

    chain, exchange = Chain(), Exchange()
    chain.add(Vault())
    await chain.execute(event="tools/call", phase="request", payload=CALL, exchange=exchange)
    await chain.execute(event="tools/call", phase="response", payload={}, exchange=exchange)
    assert seen == [{"kept": 1}]
