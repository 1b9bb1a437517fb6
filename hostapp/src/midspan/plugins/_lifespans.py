"""Lifespans: what plugins keep open while traffic flows."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Final

from midspan.errors import PluginError
from midspan.plugins._causes import cause_of
from midspan.plugins._instance import Instance
from midspan_sdk import Chain

logger = logging.getLogger("midspan.plugins")

LEAVE_TIMEOUT: Final = 6.0
"""Seconds in which a lifespan is left, the longest: more than a plugin gives a disk that hangs."""


async def enter_lifespan(stack: AsyncExitStack, instance: Instance) -> None:
    """Enter an instance's lifespan, if it has one, and bind what it yields to the instance's interceptors.

    Args:
        stack: leaves it.
        instance: whose.

    Raises:
        PluginError: the hook, or entering what it returned, failed.
    """
    try:
        lifespan = instance.plugin.lifespan(instance.config, instance.name)
        if lifespan is None:
            return
        instance.bindings.lifespan = await _entered(lifespan, instance)
    except PluginError as error:
        raise error.with_hint(instance.without) from error
    about = {"plugin": instance.plugin.info.id, "instance": instance.name}
    stack.push_async_exit(_Leaving(lifespan, f"the lifespan of plugin {instance.name!r}", LEAVE_TIMEOUT, about))


async def _entered(lifespan: AbstractAsyncContextManager[Any], instance: Instance) -> object:
    try:
        return await lifespan.__aenter__()
    except (Exception, SystemExit) as error:
        problem = f"midspan_lifespan could not be entered: {cause_of(error)}"
        raise instance.plugin.info.error(problem, instance=instance.name) from error


async def enter_chain(stack: AsyncExitStack, chain: Chain) -> None:
    """Enter the chain: start its background workers."""
    await chain.__aenter__()
    stack.push_async_exit(_Leaving(chain, "the chain"))


class _Leaving:
    """Leaves a lifespan or the chain.

    An error of the traffic is none of theirs: they are left as if all had gone well, so that they can neither swallow
    it nor wrap it in the group of a task group. A cancellation they do get: it may be that of their own task group,
    which then takes it back.
    """

    def __init__(
        self,
        left: AbstractAsyncContextManager[Any],
        name: str,
        timeout: float | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self._left = left
        self._name = name
        self._timeout = timeout
        self._about = about

    async def __call__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        # No scope of anyio's: what is left may have scopes of its own, which end in the order in which they began.
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                if isinstance(error, CancelledError):
                    return bool(await self._left.__aexit__(kind, error, traceback))
                await self._left.__aexit__(None, None, None)
        except Exception as failure:
            if isinstance(failure, TimeoutError) and limit.expired():
                logger.error(
                    "%s was not left within %g s; gave it up", self._name, self._timeout or 0, extra=self._about
                )
            elif isinstance(error, CancelledError):
                raise
            else:
                # Traffic is over and was served; that closing failed must not turn it into a failure.
                logger.exception("%s failed while it was left", self._name, extra=self._about)
        return False
