"""Bad handlers and bad payloads: never a crash, a hang or a leak; always a result, or one clear error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import pytest

from midspan_sdk import (
    Answer,
    Chain,
    DecisionRecord,
    Exchange,
    FailedResult,
    MutationResult,
    mutator,
    sink,
    validator,
)
from midspan_sdk.testing import run

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"name": "echo"}

call = partial(run, event="tools/call", phase="request", payload=CALL)


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": [value]} if depth % 2 else {"a": value}
    return value


def containing_itself() -> dict[str, Any]:
    value: dict[str, Any] = {"list": []}
    value["list"].append(value)
    return value


def reason_of(result: Any) -> str:
    failed = result.results[-1]
    assert isinstance(failed, FailedResult)
    return failed.error["data"]["reason"]


# Payloads


@pytest.mark.parametrize("payload", [nested(5000), containing_itself()], ids=["deep", "cyclic"])
@pytest.mark.parametrize("decorate", [validator, mutator])
async def test_a_payload_that_is_no_json_is_refused_with_one_clear_error(
    payload: dict[str, Any], decorate: Any
) -> None:
    chain = Chain()
    chain.add(decorate(events=["*"], phase="both", name="it")(lambda: None))
    with pytest.raises(ValueError, match=r"^\$: nested too deeply$"):
        await chain.execute(event="tools/call", phase="request", payload=payload)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"a": [1, {"b": float("nan")}]}, "$.a[1].b: is not a finite number"),
        ({"a": float("inf")}, "$.a: is not a finite number"),
        ({"a": {1: 2}}, "$.a: has a key of type int; JSON keys are strings"),
        ({"a": {"s"}}, "$.a: is a set, which JSON does not have"),
        ({"a": b"x"}, "$.a: is a bytes, which JSON does not have"),
        ([], "$: must be a JSON object, not list"),
        (None, "$: must be a JSON object, not NoneType"),
        ("text", "$: must be a JSON object, not str"),
    ],
    ids=str,
)
async def test_the_error_says_where_and_what_but_not_the_value(payload: Any, problem: str) -> None:
    chain = Chain()
    chain.add(validator(events=["*"], phase="both", name="it")(lambda: None))
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        await chain.execute(event="tools/call", phase="request", payload=payload)


def test_subclasses_and_tuples_are_taken_over_as_plain_json() -> None:
    class Text(str):
        __slots__ = ()

    class Object(dict[str, Any]):
        pass

    class Number(int):
        pass

    seen: list[Any] = []

    @validator(events=["*"], phase="both")
    def look(payload: dict[str, Any]) -> None:
        seen.append(payload)

    payload = Object({"t": (1, Text("x")), Text("k"): Number(3), "o": Object(a=True)})
    result = call(look, payload=payload)
    assert json.dumps(seen[0]) == '{"t": [1, "x"], "k": 3, "o": {"a": true}}'
    assert [type(one) for one in (seen[0], seen[0]["t"], seen[0]["k"], seen[0]["o"])] == [dict, list, int, dict]
    assert not result.modified


class Keeps:
    def __init__(self, *, durable: bool) -> None:
        self.name = f"durable={durable}"
        self.durable = durable

    async def observe(self, record: DecisionRecord) -> None: ...


@pytest.mark.parametrize("depth", [50, 200, 280, 330, 400, 450, 480, 600, 750, 850, 900, 930, 960, 990])
@pytest.mark.parametrize("changes", [False, True])
async def test_a_payload_of_any_depth_is_either_refused_or_handled(depth: int, changes: bool) -> None:
    def change(payload: dict[str, Any]) -> dict[str, Any] | None:
        return {**payload, "new": 1} if changes else None

    payload = nested(depth)
    async with Chain(observers=[Keeps(durable=True), Keeps(durable=False)]) as chain:
        chain.add(
            mutator(events=["*"], phase="both", name="m")(change),
            validator(events=["*"], phase="both", name="v")(lambda: None),
            sink(events=["*"], phase="both", name="s")(lambda: None),
        )
        try:
            result = await chain.execute(event="x", phase="request", payload=payload, exchange=Exchange())
            outcome = result.status
        except ValueError as error:
            outcome = str(error)
    assert outcome in ("success", "mutation_failed", "validation_failed", "$: nested too deeply")
    assert outcome == "success" or depth >= 200


# Handlers


def recurses() -> object:
    return recurses()


async def recurses_async() -> object:
    return await recurses_async()


def exits() -> None:
    raise SystemExit(7)


async def exits_later() -> None:
    await anyio.lowlevel.checkpoint()
    raise SystemExit(7)


class Stop(BaseException):
    pass


def stops() -> None:
    raise Stop


async def stops_in_a_group() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stops_later)


async def stops_later() -> None:
    await anyio.lowlevel.checkpoint()
    raise Stop


def raises_stop_iteration() -> None:
    raise StopIteration(5)


async def raises_stop_iteration_async() -> None:
    await anyio.lowlevel.checkpoint()
    raise StopIteration(5)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def raises_the_unprintable() -> None:
    raise UnprintableError


HANDLERS: list[tuple[Callable[[], object], dict[str, Any], str]] = [
    (recurses, {}, "RecursionError"),
    (recurses, {"blocking": True}, "RecursionError"),
    (recurses_async, {}, "RecursionError"),
    (exits, {}, "SystemExit"),
    (exits, {"blocking": True}, "SystemExit"),
    (exits_later, {}, "SystemExit"),
    (stops, {}, "Stop"),
    (stops, {"blocking": True}, "Stop"),
    (stops_later, {}, "Stop"),
    (stops_in_a_group, {}, "BaseExceptionGroup"),
    (raises_stop_iteration, {}, "StopIteration"),
    (raises_stop_iteration_async, {}, "RuntimeError"),
    (raises_the_unprintable, {}, "UnprintableError"),
]


@pytest.mark.parametrize(("handler", "options", "name"), HANDLERS)
@pytest.mark.parametrize("decorate", [validator, mutator])
@pytest.mark.parametrize("others", [0, 1])
def test_whatever_a_handler_raises_is_its_failure_and_ends_nothing_else(
    handler: Any, options: dict[str, Any], name: str, decorate: Any, others: int
) -> None:
    async def other() -> None:
        await anyio.lowlevel.checkpoint()

    entry = decorate(events=["*"], phase="both", name="it", timeout=5, fail_open=True, **options)(handler)
    result = call(entry, *(validator(events=["*"], phase="both", name=f"o{n}")(other) for n in range(others)))
    assert result.status == "success"
    failed = result.results[0]
    assert isinstance(failed, FailedResult)
    noun = "validator" if decorate is validator else "mutator"
    assert failed.error["data"]["reason"] == f"the {noun} raised {name}"


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_keyboard_interrupt_is_for_whoever_runs_the_program(blocking: bool) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    chain = Chain()
    chain.add(validator(events=["*"], phase="both", name="it", blocking=blocking, fail_open=True)(interrupted))
    with pytest.raises(KeyboardInterrupt):
        await chain.execute(event="tools/call", phase="request", payload=CALL)


class Raising(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (nested(5000), "the mutator returned something that is not JSON"),
        (containing_itself(), "the mutator returned something that is not JSON"),
        (Answer(containing_itself()), "the mutator returned something that is not JSON"),
        (Raising(), "the mutator raised KeyError"),
    ],
    ids=["deep", "cyclic", "cyclic answer", "raising"],
)
def test_an_output_that_cannot_be_read_is_a_failure_of_its_mutator(value: object, reason: str) -> None:
    result = call(mutator(events=["*"], phase="both", name="it")(lambda: value))
    assert result.status == "mutation_failed"
    assert reason_of(result) == reason


def test_a_mutator_that_makes_its_copy_cyclic_and_returns_none_failed() -> None:
    @mutator(events=["*"], phase="both")
    def loops(payload: dict[str, Any]) -> None:
        payload["self"] = payload

    result = call(loops, payload={"self": {"self": {}}})
    assert result.status == "mutation_failed"


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"text": "x" * 900}, True),
        ({"text": "x" * 1100}, False),
        ({"list": [1] * 1000}, False),
        ({"x" * 1100: 1}, False),
        (Answer({"text": "x" * 900}), True),
        (Answer({"text": "x" * 1100}), False),
        (MutationResult(modified=True, payload={"text": "x" * 1100}), False),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_an_output_that_is_too_large_is_a_failure_of_its_mutator(value: object, fits: bool) -> None:
    chain = Chain(max_payload_bytes=1000)
    chain.add(mutator(events=["*"], phase="both", name="it")(lambda: value))
    result = await chain.execute(event="tools/call", phase="request", payload=CALL)
    assert (result.status == "success") is fits
    if not fits:
        assert reason_of(result) == "the result is too large"


async def test_a_large_payload_that_nobody_changed_is_not_the_mutator_s_fault() -> None:
    chain = Chain(max_payload_bytes=10)
    chain.add(mutator(events=["*"], phase="both", name="it")(lambda: None))
    payload = {"text": "x" * 1000}
    assert (await chain.execute(event="x", phase="request", payload=payload)).final_payload is payload
