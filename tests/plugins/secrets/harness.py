"""Run the plugin's interceptors the way a host does: through its hooks, in a chain."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import pluggy
from pydantic import BaseModel

import midspan_secrets
from midspan_sdk import Bindings, Chain, ChainExecutionResult, Interceptor, Observer, hookspecs
from midspan_sdk.wire import Direction, Phase


def chain_of(config: dict[str, Any] | None = None, *, observers: Iterable[Observer] = ()) -> Chain:
    """Return a chain with what the plugin contributes under a config table."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(midspan_secrets, "secrets")
    manager.check_pending()
    hook: Any = manager.hook
    (model,) = cast("list[type[BaseModel]]", hook.midspan_config())
    validated = model.model_validate(config or {})
    (contributed,) = hook.midspan_interceptors(config=validated, instance="secrets")
    bindings = Bindings(config=validated)
    chain = Chain(observers=observers)
    for interceptor in cast("list[Interceptor[..., Any]]", contributed):
        chain.add(interceptor.bound(name=f"secrets.{interceptor.name}", bindings=bindings, config_model=model))
    return chain


@cache
def _default_chain() -> Chain:
    return chain_of()


async def guard(
    payload: dict[str, Any],
    *,
    event: str = "tools/call",
    phase: Phase = "response",
    direction: Direction | None = None,
    config: dict[str, Any] | None = None,
    error: bool = False,
) -> ChainExecutionResult:
    """Send one message through such a chain."""
    chain = _default_chain() if config is None else chain_of(config)
    return await chain.execute(event=event, phase=phase, payload=payload, direction=direction, error=error)
