"""The policy of whoever runs the chain: overrides, a filter of names, a shorter deadline."""

from typing import Any

import anyio

from midspan_sdk import Chain, Hook, InterceptorOverrides, validator


@validator(events=["tools/*"], phase="both")
def strict(payload: dict[str, Any]) -> str | None:
    return "nothing passes"


@validator(events=["tools/call"], phase="request")
def broken(payload: dict[str, Any]) -> None:
    raise RuntimeError("a bug")


async def main() -> None:
    chain = Chain(timeout=2.0)
    chain.add(
        strict,
        broken,
        overrides={
            "strict": InterceptorOverrides(mode="audit", hooks=(Hook(events=("tools/call",), phase="request"),)),
            "broken": {"failOpen": True, "timeoutMs": 250},
        },
    )
    call: dict[str, Any] = {"event": "tools/call", "phase": "request", "payload": {"name": "order"}}
    result = await chain.execute(**call)
    print(result.status, [each.to_wire().get("valid", "failed") for each in result.results])
    result = await chain.execute(**call, interceptors=["strict"], timeout_ms=500)
    print(result.status, [each.interceptor for each in result.results])
    print(chain.plan("tools/list", "response"))


if __name__ == "__main__":
    anyio.run(main)
