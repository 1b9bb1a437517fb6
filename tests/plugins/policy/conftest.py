from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
import pluggy
import pytest
from pydantic import BaseModel

import midspan_policy
from midspan_sdk import Bindings, Chain, ChainExecutionResult, Interceptor, Problem, hookspecs

INSTANCE = "policy"

Mount = Callable[..., Chain]


def _registered() -> Any:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(midspan_policy, INSTANCE)
    manager.check_pending()
    return manager.hook


@pytest.fixture
def mount() -> Mount:
    """Build a chain with the plugin's interceptors, through pluggy and named as the host names them."""

    def build(table: Mapping[str, Any], *, overrides: Mapping[str, Any] | None = None) -> Chain:
        hook = _registered()
        (model,) = cast("list[type[BaseModel]]", hook.midspan_config())
        config = model.model_validate(table)
        (contributed,) = hook.midspan_interceptors(config=config, instance=INSTANCE)
        chain = Chain()
        chain.add(
            *(
                one.bound(name=f"{INSTANCE}.{one.name}", bindings=Bindings(config=config), config_model=model)
                for one in cast("list[Interceptor[..., Any]]", contributed)
            ),
            overrides=overrides,
        )
        return chain

    return build


@pytest.fixture
def problems(mount: Mount) -> Callable[..., list[Problem]]:
    """Run the plugin's checks over the entries of a chain built as above."""

    def check(
        table: Mapping[str, Any], *, overrides: Mapping[str, Any] | None = None, without: str | None = None
    ) -> list[Problem]:
        hook = _registered()
        (model,) = cast("list[type[BaseModel]]", hook.midspan_config())
        entries = [entry for entry in mount(table, overrides=overrides).entries if entry.name != without]
        (found,) = hook.midspan_checks(config=model.model_validate(table), instance=INSTANCE, entries=entries)
        return list(found)

    return check


@pytest.fixture
def execute() -> Callable[..., ChainExecutionResult]:
    """Run one message through a chain."""

    def run(chain: Chain, event: str, phase: str, payload: dict[str, Any], **options: Any) -> ChainExecutionResult:
        async def main() -> ChainExecutionResult:
            with anyio.fail_after(30):
                return await chain.execute(event=event, phase=cast("Any", phase), payload=payload, **options)

        return anyio.run(main)

    return run
