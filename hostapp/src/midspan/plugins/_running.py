"""What is open while traffic flows: the lifespans of plugin instances, and chains.

Each is entered and left in a task of its own. So they can be left in another order than they were entered: after a
reload, what the new chains go on with stays open, and what only the old ones used is left when those have drained.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio

from midspan.errors import PluginError
from midspan.plugins._causes import cause_of
from midspan.plugins._remotes import join_all
from midspan_sdk import Chain, PeerError

if TYPE_CHECKING:
    from midspan.plugins._assembly import Assembly
    from midspan.plugins._instance import Instance

logger = logging.getLogger("midspan.plugins")

LEAVE_TIMEOUT: Final = 6.0
"""Seconds in which a lifespan is left, the longest: more than a plugin gives a disk that hangs."""


class Running:
    """Keeps assemblies entered; use it as an async context manager.

    Whatever is still entered at the end of the block is left then, chains first. A background task of a plugin that
    fails ends the block: a guard that has lost what it works with must not go on as if nothing had happened.
    """

    def __init__(self) -> None:
        self._lifespans: list[_Lifespan] = []
        self._chains: list[_EnteredChain] = []
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        """Begin; nothing is entered yet."""
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave everything, in the reverse of the order in which it was entered."""
        with anyio.CancelScope(shield=True):
            for chain in reversed(self._chains):
                await chain.leave(cancelled=_interrupts(error))
            for lifespan in reversed(self._lifespans):
                await lifespan.leave()
        # The group is not told of an error of the traffic, which would come out of it wrapped; of a cancellation it is,
        # since that may be its own, when a plugin failed.
        if isinstance(error, asyncio.CancelledError):
            await self._group.__aexit__(kind, error, traceback)
        else:
            await self._group.__aexit__(None, None, None)

    async def enter(self, assemblies: Iterable[Assembly]) -> None:
        """Enter assemblies: their lifespans, then their chains; then interceptor servers join, all side by side.

        What is entered already is shared, apart from connections to interceptor servers: each chain has its own.

        Args:
            assemblies: what to enter. An instance that is the same as one whose lifespan is open goes on with that.

        Raises:
            OperatorError: a lifespan could not be entered, or an interceptor server could not join. What was entered
                here is left.
        """
        given = list(dict.fromkeys(assemblies))
        entered: list[Assembly] = []
        users: list[tuple[_Lifespan, Instance]] = []
        try:
            for instance in dict.fromkeys(one for assembly in given for one in assembly.instances):
                lifespan = await self._open(instance)
                if lifespan is not None:
                    users.append((lifespan, instance))
            for assembly in given:
                await self._enter_chain(assembly)
                entered.append(assembly)
            await join_all([(assembly.chain, assembly.remotes) for assembly in given])
        except BaseException:
            with anyio.CancelScope(shield=True):
                for assembly in reversed(entered):
                    await self._leave_chain(assembly)
                for lifespan, instance in reversed(users):
                    await self._release(lifespan, instance)
            raise

    async def leave(self, assemblies: Iterable[Assembly]) -> None:
        """Leave assemblies whose chains are used no more; lifespans that others share stay."""
        given = list(dict.fromkeys(assemblies))
        for assembly in reversed(given):
            await self._leave_chain(assembly)
        for instance in reversed(list(dict.fromkeys(one for assembly in given for one in assembly.instances))):
            for lifespan in [one for one in self._lifespans if instance in one.users]:
                await self._release(lifespan, instance)

    # Lifespans

    async def _open(self, instance: Instance) -> _Lifespan | None:
        known = next((one for one in self._lifespans if one.goes_on_with(instance)), None)
        if known is None:
            try:
                manager = instance.plugin.lifespan(instance.config, instance.name)
            except PluginError as error:
                raise error.with_hint(instance.without) from error
            if manager is None:
                return None
            known = _Lifespan(manager, instance)
            try:
                await known.enter(self._group)
            except (Exception, SystemExit) as error:
                problem = f"midspan_lifespan could not be entered: {cause_of(error)}"
                raise instance.plugin.info.error(problem, instance=instance.name).with_hint(instance.without) from error
            self._lifespans.append(known)
        known.users.append(instance)
        instance.bindings.lifespan = known.value
        return known

    async def _release(self, lifespan: _Lifespan, instance: Instance) -> None:
        lifespan.users.remove(instance)
        if not lifespan.users:
            self._lifespans.remove(lifespan)
            await lifespan.leave()

    # Chains

    async def _enter_chain(self, assembly: Assembly) -> None:
        entered = _EnteredChain(assembly.chain)
        try:
            await entered.enter(self._group)
        except PeerError as error:  # of an interceptor server that joined it in an earlier block
            raise next(one for one in assembly.remotes if one.name == error.server).error(error.problem) from error
        self._chains.append(entered)

    async def _leave_chain(self, assembly: Assembly) -> None:
        for entered in [one for one in self._chains if one.chain is assembly.chain]:
            self._chains.remove(entered)
            await entered.leave()


class _Entered:
    """An async context manager that is entered and left in a task of its own.

    Args:
        manager: what is entered.
        name: what it is, for the log.
        timeout: seconds in which it is left; then it is given up.
        about: whose it is, for the log.
    """

    def __init__(
        self,
        manager: AbstractAsyncContextManager[Any],
        name: str,
        *,
        timeout: float | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.value: object = None
        self._manager = manager
        self._name = name
        self._timeout = timeout
        self._about = about
        self._end = anyio.Event()
        self._over = anyio.Event()
        self._cancelled = False

    async def enter(self, group: anyio.abc.TaskGroup) -> None:
        """Enter it. What entering raises is raised here.

        Args:
            group: where its task runs; ends when it fails later on.
        """
        entering: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        group.start_soon(self._live, entering)
        try:
            self.value = await entering
        except asyncio.CancelledError:
            self._end.set()
            raise

    async def leave(self, *, cancelled: bool = False) -> None:
        """Leave it, and wait for that.

        Args:
            cancelled: leave it as a block that was cancelled.
        """
        self._cancelled = cancelled
        self._end.set()
        await self._over.wait()

    async def _live(self, entering: asyncio.Future[object]) -> None:
        # The group is cancelled when anything in it fails; what is kept here is still left in order.
        with anyio.CancelScope(shield=True):
            try:
                await self._enter_and_leave(entering)
            finally:
                self._over.set()

    async def _enter_and_leave(self, entering: asyncio.Future[object]) -> None:
        try:
            value = await self._manager.__aenter__()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            if not entering.done():
                entering.set_exception(error if not isinstance(error, SystemExit) else _ExitedError(error))
            return
        if not entering.done():
            entering.set_result(value)
        try:
            await self._end.wait()
        except asyncio.CancelledError as error:
            # The manager's own: a task group of the plugin has lost a task. It then raises what happened.
            if not await self._manager.__aexit__(type(error), error, error.__traceback__):
                raise
            return
        # No scope of anyio's: what is left may have scopes of its own, which end in the order in which they began.
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                if self._cancelled:
                    await self._manager.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)
                else:
                    await self._manager.__aexit__(None, None, None)
        except Exception as failure:
            if isinstance(failure, TimeoutError) and limit.expired():
                text = "%s was not left within %g s; gave it up"
                logger.error(text, self._name, self._timeout or 0, extra=self._about)
            else:
                # Traffic is over and was served; that closing failed must not turn it into a failure.
                logger.exception("%s failed while it was left", self._name, extra=self._about)


class _ExitedError(Exception):
    """A plugin that called `sys.exit`: its exception must not end the task that waits for it."""

    def __init__(self, error: SystemExit) -> None:
        super().__init__(f"SystemExit: {error}")


class _Lifespan(_Entered):
    """The lifespan of an instance, and of later builds of the same instance.

    Attributes:
        users: the instances that use it.
    """

    def __init__(self, manager: AbstractAsyncContextManager[Any], instance: Instance) -> None:
        about = {"plugin": instance.plugin.info.id, "instance": instance.name}
        super().__init__(manager, f"the lifespan of plugin {instance.name!r}", timeout=LEAVE_TIMEOUT, about=about)
        self.users: list[Instance] = []
        self._first = instance

    def goes_on_with(self, instance: Instance) -> bool:
        """Tell whether an instance may use it."""
        return self._first.same_as(instance)


class _EnteredChain(_Entered):
    def __init__(self, chain: Chain) -> None:
        super().__init__(chain, "the chain")
        self.chain = chain


def _interrupts(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, Exception)
