"""What a chain costs for each message.

    uv run --group bench python tests/benchmarks/bench_chain.py

All cases run in turn, many rounds, in one process; read the ratios, since machines differ and are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from mcp import Client
from mcp.server.lowlevel import Server

from midspan_sdk import Chain, Interceptor, mutator, validator
from midspan_sdk.mcp import InterceptorsExtension

sys.path.insert(0, str(Path(__file__).parent))

EVENT = "tools/call"
Case = Callable[[], Awaitable[object]]


def small_payload() -> dict[str, Any]:
    """Return about 1 KB: a tool call with a few objects and lists in it."""
    return {
        "name": "search",
        "arguments": {
            "query": "x" * 300,
            "filters": [{"field": "author", "value": "y" * 100}, {"field": "year", "value": "z" * 100}],
            "options": {"case": True, "limits": [1, 2, 3]},
            "columns": [str(number) * 10 for number in range(20)],
        },
        "_meta": {"progressToken": "t"},
    }


def flat_payload() -> dict[str, Any]:
    """Return about 1 KB without nesting."""
    return {"name": "search", "arguments": {f"key{number}": "v" * 80 for number in range(11)}}


def large_payload(megabytes: float) -> dict[str, Any]:
    """Return a tool result of many small blocks."""
    block = {"type": "text", "text": "x" * 900, "annotations": {"audience": ["user"], "priority": 1}}
    return {"content": [dict(block) for _ in range(int(megabytes * 1024))]}


def no_ops(style: str, count: int) -> list[Interceptor[..., Any]]:
    """Make `count` validators and `count` mutators that do nothing: `def`, `async`, or `await` (suspends once)."""
    return [_no_op(style, kind, number) for kind in ("v", "m") for number in range(count)]


def _no_op(style: str, kind: str, number: int) -> Interceptor[..., Any]:
    def plain(payload: dict[str, Any]) -> None:
        return None

    async def never_suspends(payload: dict[str, Any]) -> None:
        return None

    async def suspends(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    handler: Any = {"def": plain, "async": never_suspends, "await": suspends}[style]
    decorate: Any = validator if kind == "v" else mutator
    return decorate(events=[EVENT], phase="request", name=f"{kind}{number:03}")(handler)


def execute(chain: Chain, payload: dict[str, Any], event: str = EVENT) -> Case:
    """Return the case of one execution."""

    async def run() -> object:
        return await chain.execute(event=event, phase="request", payload=payload)

    return run


def local(style: str, payload: dict[str, Any], count: int = 5) -> Case:
    """Return the case of a local chain of no-ops."""
    chain = Chain()
    chain.add(*no_ops(style, count))
    return execute(chain, payload)


async def bare_awaits() -> None:
    """Ten awaits of nothing."""
    for _ in range(10):
        await _nothing()


async def _nothing() -> None:
    return None


async def microseconds(cases: dict[str, Case], rounds: int, calls: int = 20) -> dict[str, float]:
    """Return each case's median in microseconds; the cases take turns."""
    for case in cases.values():
        for _ in range(50):
            await case()
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            started = perf_counter()
            for _ in range(calls):
                await case()
            samples[name].append((perf_counter() - started) / calls * 1e6)
    return {name: statistics.median(values) for name, values in samples.items()}


async def per_message(rounds: int) -> None:
    """Print what the usual cases cost."""
    small = small_payload()
    cases: dict[str, Case] = {
        "ten bare awaits": bare_awaits,
        "no interceptor matches": execute(_one_elsewhere(), small),
        "5 + 5 def, flat 1 KB": local("def", flat_payload()),
        "5 + 5 async that never suspend, flat 1 KB": local("async", flat_payload()),
        "5 + 5 def, nested 1 KB": local("def", small),
        "5 + 5 async that never suspend, nested 1 KB": local("async", small),
        "5 + 5 that suspend once, nested 1 KB": local("await", small),
    }
    try:
        from cpex_peer import ten_no_op_plugins
    except ImportError:
        print("cpex is not installed: run with `--group bench`", file=sys.stderr)
    else:
        cases["cpex 0.1.4, ten no-op plugins, nested 1 KB"] = await ten_no_op_plugins(small)
    server = Server("guards")
    InterceptorsExtension(*no_ops("def", 5)).install(server)
    async with Client(server) as client, Chain() as remote:
        await remote.add_server(client)
        cases["5 + 5 through an in-memory MCP session"] = execute(remote, small)
        result = await microseconds(cases, rounds)
    base = result["5 + 5 def, nested 1 KB"]
    print(f"{'median µs':>12} {'ratio':>8}")
    for name, value in result.items():
        print(f"{value:12.2f} {value / base:8.2f}  {name}")


def _one_elsewhere() -> Chain:
    chain = Chain()

    @validator(events=["prompts/get"], phase="request")
    def elsewhere(payload: dict[str, Any]) -> None:
        return None

    chain.add(elsewhere)
    return chain


async def growth(rounds: int) -> None:
    """Print how the cost grows with interceptors and with size; linear growth keeps the last column level."""
    small = small_payload()
    by_count = {f"{2 * count} interceptors": local("def", small, count) for count in (5, 25, 50, 100)}
    result = await microseconds(by_count, max(3, rounds // 10))
    print(f"\n{'median µs':>12} {'per interceptor':>16}")
    for (name, value), count in zip(result.items(), (10, 50, 100, 200), strict=True):
        print(f"{value:12.1f} {value / count:16.2f}  {name}")
    sizes = (0.1, 1, 10)
    by_size = {f"{size} MB result": local("def", large_payload(size)) for size in sizes}
    result = await microseconds(by_size, 5, calls=1)
    print(f"\n{'median ms':>12} {'ms per MB':>16}")
    for (name, value), size in zip(result.items(), sizes, strict=True):
        print(f"{value / 1000:12.2f} {value / 1000 / size:16.2f}  {name}")
    image = {"content": [{"type": "image", "data": "A" * 5 * 1024 * 1024, "mimeType": "image/png"}]}
    result = await microseconds({"5 MB of base64": local("def", image)}, 20)
    print(f"{result['5 MB of base64']:12.2f} µs  5 MB of base64 in one string: copied by nobody")


async def memory(executions: int) -> None:
    """Print how much more memory is in use after many executions than after the first thousand."""
    case = local("def", small_payload())
    for _ in range(1000):
        await case()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(executions):
        await case()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"\n{after - before:12d} bytes more in use after {executions:,} executions")


async def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--executions", type=int, default=100_000)
    arguments = parser.parse_args()
    await per_message(arguments.rounds)
    await growth(arguments.rounds)
    await memory(arguments.executions)


if __name__ == "__main__":
    asyncio.run(main())
