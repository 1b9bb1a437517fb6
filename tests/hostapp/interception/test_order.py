"""Order and concurrency: what must keep its place does, and nobody waits for somebody else's judge."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from midspan_sdk import mutator, validator
from tests.hostapp.relay.harness import guarded, notification, request, result, send

pytestmark = pytest.mark.anyio


class Gates:
    """Events by name, for interceptors that wait."""

    def __init__(self) -> None:
        self._came: defaultdict[object, asyncio.Event] = defaultdict(asyncio.Event)
        self._may_go: defaultdict[object, asyncio.Event] = defaultdict(asyncio.Event)

    async def stop(self, name: object) -> None:
        """Come to a gate and wait there."""
        self._came[name].set()
        await self._may_go[name].wait()

    async def reached(self, name: object) -> None:
        """Wait until somebody came to the gate."""
        await self._came[name].wait()

    def open(self, *names: object) -> None:
        """Let pass who waits or will come."""
        for name in names:
            self._may_go[name].set()


def progress(number: int) -> bytes:
    return notification("notifications/progress", {"progressToken": "t", "progress": number})


async def test_notifications_keep_their_order_and_stay_before_the_result_however_slow_the_judge(log: Path) -> None:
    gates = Gates()

    @mutator(events=["notifications/progress"], phase="request")
    async def slow(payload: dict[str, Any]) -> dict[str, Any]:
        await gates.stop(payload["progress"])
        return {**payload, "judged": True}

    lines = [progress(1), notification("notifications/message", {"n": 2}), progress(3), progress(4), result(1, {})]
    async with guarded(log, slow) as link:
        await link.send(request(1, "go", None, send(*lines)))
        for number in (4, 3, 1):  # judged side by side, and done in the wrong order
            await gates.reached(number)
        for number in (4, 3, 1):
            gates.open(number)
            await asyncio.sleep(0)
        received = [await link.read() for _ in lines]
    assert [
        message.get("id") or message["params"].get("progress") or message["params"]["n"] for message in received
    ] == [1, 2, 3, 4, 1]
    assert [message["method"] for message in received[:-1]] == [
        "notifications/progress",
        "notifications/message",
        "notifications/progress",
        "notifications/progress",
    ]
    assert all(message["params"]["judged"] for message in received if message.get("method") == "notifications/progress")


async def test_a_long_burst_of_mixed_notifications_stays_in_order(log: Path) -> None:
    @validator(events=["notifications/progress"], phase="request")
    async def uneven(payload: dict[str, Any]) -> None:
        for _ in range(payload["progress"] * 7 % 5):
            await asyncio.sleep(0)

    lines = [
        progress(number) if number % 3 else notification("notifications/message", {"progress": number})
        for number in range(1000)
    ]
    async with guarded(log, uneven) as link:
        await link.send(request(1, "go", None, send(*lines, result(1, {}))))
        received = [(await link.read())["params"]["progress"] for _ in lines]
        assert received == list(range(1000))
        assert (await link.read())["id"] == 1


async def test_a_clients_notifications_keep_their_order_too(log: Path) -> None:
    gates = Gates()

    @validator(events=["a"], phase="request")
    async def slow(payload: dict[str, Any]) -> None:
        await gates.stop("a")

    async with guarded(log, slow) as link:
        await link.send(notification("a", {}), notification("b"), notification("c"))
        await gates.reached("a")
        await link.works()  # a request need not wait
        gates.open("a")
        await link.finish()
    assert [message["method"] for message in link.seen_messages()] == ["ping", "a", "b", "c"]


async def test_an_answer_does_not_overtake_the_notifications_before_it(log: Path) -> None:
    gates = Gates()

    @validator(events=["notifications/progress"], phase="request")
    async def slow(payload: dict[str, Any]) -> None:
        await gates.stop("notification")

    @validator(events=["go"], phase="response")
    async def judged(payload: dict[str, Any]) -> None:
        gates.open("answer judged")

    async with guarded(log, slow, judged) as link:
        await link.send(request(1, "go", None, send(progress(1), result(1, {}))))
        await gates.reached("notification")
        await gates.stop("answer judged")
        gates.open("notification")
        assert [(await link.read()).get("method"), (await link.read()).get("id")] == ["notifications/progress", 1]


async def test_a_request_that_is_judged_slowly_does_not_delay_others(log: Path) -> None:
    gates = Gates()

    @validator(events=["slow"], phase="request")
    async def slow(payload: dict[str, Any]) -> None:
        await gates.stop("slow")

    async with guarded(log, slow) as link:
        await link.send(request("slow", "slow"))
        await gates.reached("slow")
        for number in range(20):
            await link.works(number)
        gates.open("slow")
        assert (await link.read())["id"] == "slow"


async def test_an_answer_that_is_judged_slowly_does_not_delay_others(log: Path) -> None:
    gates = Gates()

    @validator(events=["slow"], phase="response")
    async def slow(payload: dict[str, Any]) -> None:
        await gates.stop("slow")

    async with guarded(log, slow) as link:
        await link.send(request("slow", "slow"))
        await gates.reached("slow")
        await link.works()
        await link.send(request(1, "go", None, send(progress(1), result(1, {}))))
        assert (await link.read())["method"] == "notifications/progress"
        assert (await link.read())["id"] == 1
        gates.open("slow")
        assert (await link.read())["id"] == "slow"


async def test_hundreds_of_requests_at_once_each_get_their_own_answer(log: Path) -> None:
    @mutator(events=["echo"], phase="both")
    async def uneven(payload: dict[str, Any], phase: str) -> dict[str, Any]:
        for _ in range(payload.get("n", 3) * 7 % 11):
            await asyncio.sleep(0)
        return {**payload, phase: True}

    lines = [request(number, "echo", {"n": number}, send(result(number, {"n": number}))) for number in range(600)]
    async with guarded(log, uneven) as link:
        sending = asyncio.create_task(link.send(*lines))
        answers = [await link.read() for _ in lines]
        await sending
    assert sorted(answer["id"] for answer in answers) == list(range(600))
    assert all(answer["result"] == {"n": answer["id"], "response": True} for answer in answers)
    assert all(message["params"]["request"] for message in link.seen_messages())


async def test_when_too_many_are_judged_at_once_the_gateway_stops_reading(log: Path) -> None:
    gates = Gates()
    waiting = 0

    @validator(events=["slow"], phase="request", timeout=30)
    async def slow(payload: dict[str, Any]) -> None:
        nonlocal waiting
        waiting += 1
        await gates.stop("slow")

    big = "x" * 50_000
    async with guarded(log, slow, timeout=30) as link:
        sending = asyncio.create_task(
            link.send(*(request(number, "slow", {"text": big}, send(result(number, {}))) for number in range(400)))
        )
        for _ in range(5):
            await gates.reached("slow")
            await asyncio.wait({sending}, timeout=0.1)
        assert not sending.done()
        assert waiting <= 256
        gates.open("slow")
        answers = [(await link.read())["id"] for _ in range(400)]
        await sending
    assert sorted(answers) == list(range(400))


async def test_the_same_number_names_different_requests_in_the_two_directions(log: Path) -> None:
    seen: list[tuple[str, str]] = []

    @validator(events=["tools/call", "sampling/createMessage", "elicitation/create", "roots/list"], phase="both")
    async def watch(payload: dict[str, Any], event: str, phase: str) -> None:
        await asyncio.sleep(0)
        seen.append((event, phase))

    methods = ["sampling/createMessage", "elicitation/create", "roots/list", "sampling/createMessage"]
    steps: list[Any] = []
    for method in methods:
        steps += [send(request(1, method, {"messages": []})), ("read", 1)]
    async with guarded(log, watch) as link:
        await link.send(request(1, "tools/call", {"name": "x"}, *steps, send(result(1, {"final": True}))))
        for method in methods:
            asked = await link.read()
            assert (asked["id"], asked["method"]) == (1, method)
            await link.send(result(1, {"for": method}))
        assert await link.read() == {"jsonrpc": "2.0", "id": 1, "result": {"final": True}}
        assert [message["result"]["for"] for message in link.seen_messages()[1:]] == methods
    assert seen == [
        ("tools/call", "request"),
        *((method, phase) for method in methods for phase in ("request", "response")),
        ("tools/call", "response"),
    ]
