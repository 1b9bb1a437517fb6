"""The interceptors of the gateway: in a chain, or as a plugin file."""

from typing import Any

from midspan_sdk import Interceptor, hookimpl, mutator, sink, validator


@validator(events=["tools/call"], phase="request", name="no-removal")
def no_removal(payload: dict[str, Any]) -> str | None:
    """Deny removal."""
    return "no removal" if payload["name"] == "remove" else None


@mutator(events=["tools/*"], phase="both", name="stamp", priority_hint=3)
def stamp(payload: dict[str, Any]) -> dict[str, Any]:
    """Leave a mark."""
    return {**payload, "stamped": True}


@validator(events=["prompts/get"], phase="request", name="remembers")
async def remembers(payload: dict[str, Any], state: dict[str, Any], request: dict[str, Any] | None) -> None:
    """Count in the exchange's state."""
    state["count"] = state.get("count", 0) + 1


@sink(events=["tools/call"], phase="response", name="sees")
def sees(payload: dict[str, Any]) -> None:
    """See."""


INTERCEPTORS: list[Interceptor[..., Any]] = [no_removal, stamp, remembers, sees]


@hookimpl
def midspan_interceptors() -> list[Interceptor[..., Any]]:
    """Contribute all of them."""
    return INTERCEPTORS
