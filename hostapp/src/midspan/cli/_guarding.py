"""The servers that a running command guards, and what a changed config makes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midspan.cli._guards import Guards
from midspan.cli._log_choice import LogChoice
from midspan.cli._plan import Plan, paths_of, servers_of
from midspan.cli._said import said
from midspan.cli._server import ServerChoice, towards_clients
from midspan.errors import OperatorError

if TYPE_CHECKING:
    from midspan.config import Config
    from midspan.gateway import Gateway
    from midspan.http import Front
    from midspan.interception import Retired
    from midspan.plugins import Assembly, Builder, Running

    Build = Callable[[Config, Builder | None], Builder]

logger = logging.getLogger("midspan.config")


class Guarding:
    """Guards servers, and goes over to another config while they run.

    Args:
        choice: what the command line says of the servers.
        build: makes a builder for a config, after the one whose chains run.
        config: the config at the start.
        log: what the command line says of the log.

    Raises:
        OperatorError: the config cannot be used.
    """

    def __init__(self, choice: ServerChoice, build: Build, config: Config, log: LogChoice) -> None:
        self._choice = choice
        self._log = log
        self._build = build
        self._front: Front | None = None
        self._running: Running | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._plan: Plan | None = None
        self._plan = self.prepare(config)
        self._follow_log(self._plan)

    def _follow_log(self, plan: Plan) -> None:
        from midspan.plugins import plugin_logs

        instances = dict.fromkeys(one for assembly in plan.guards.distinct for one in assembly.instances)
        self._log.follow(plan.config, plugin_logs(instances))

    @property
    def counts(self) -> dict[str, int]:
        """How many servers are guarded, and how many are refused."""
        return {"guarded": len(self.plan.guards.assemblies), "refused": len(self.plan.guards.refused)}

    @property
    def gateways(self) -> Mapping[str, Gateway]:
        """The gateways of the servers that are served, by name."""
        return self.plan.gateways

    @property
    def plan(self) -> Plan:
        """What is in force."""
        assert self._plan is not None
        return self._plan

    def prepare(self, config: Config) -> Plan:
        """Build and check what a config says, aside.

        Raises:
            OperatorError: it cannot be used, or no server is left, or one that is served now would be refused.
        """
        before = self._plan
        builder = self._build(config, None if before is None else before.builder)
        servers = servers_of(self._choice, config)
        guards = Guards.of(builder, servers, after=None if before is None else before.guards)
        tables = {name: config.server(name) for name in servers if name in config.servers and self._is_of_config}
        gateways: dict[str, Gateway] = {}
        for name, assembly in guards.assemblies.items():
            kept = before.gateways.get(name) if before is not None and self._keeps(before, name, tables) else None
            # Made also where the one before is kept: it tells what cannot be.
            made = self._gateway(config, name, assembly)
            gateways[name] = kept or made
        paths = paths_of(self._choice, servers, before)
        return Plan(
            config=config,
            builder=builder,
            servers=servers,
            paths=paths,
            tables=tables,
            guards=guards,
            gateways=gateways,
        )

    def _keeps(self, before: Plan, name: str, tables: Mapping[str, object]) -> bool:
        """Tell whether the gateway of a server goes on; over stdio, where there is a single one, always."""
        return self._front is None or before.tables.get(name) == tables.get(name)

    @property
    def _is_of_config(self) -> bool:
        return self._choice.server is not None or not self._choice.given

    def _gateway(self, config: Config, name: str, assembly: Assembly) -> Gateway:
        gateway = self._choice.gateway(config, name, assembly.chain)
        try:
            gateway.check()
        except OperatorError as error:
            if not self._is_of_config:
                raise
            raise config.source.error(error.message, "servers", name, "command") from None
        return gateway

    async def enter(self, running: Running, front: Front | None = None) -> None:
        """Begin. A server whose guards cannot be entered is refused, and the others are served.

        Args:
            running: keeps lifespans and chains entered.
            front: serves the gateways over HTTP; None for a single one that is run otherwise.

        Raises:
            OperatorError: a lifespan cannot be entered, or an interceptor server cannot join, for every server.
        """
        self._running, self._front = running, front
        try:
            await running.enter(self.plan.guards.distinct)
        except OperatorError:
            if len(self.plan.guards.distinct) < 2:
                raise
            await self._enter_one_by_one(running)
        if front is None:
            return
        from midspan.gateway import mount

        for gateway in self.plan.gateways.values():
            await gateway.__aenter__()
        for path, name in self.plan.paths.items():
            mount(front, path, self.plan.gateways.get(name), refused=self.plan.refusal(name))

    async def _enter_one_by_one(self, running: Running) -> None:
        """Find out for whom it fails."""
        plan = self.plan
        failed: dict[Assembly, OperatorError] = {}
        for assembly in plan.guards.distinct:
            try:
                await running.enter([assembly])
            except OperatorError as error:
                failed[assembly] = error
        guards = plan.guards.without(failed)
        self._plan = replace(plan, guards=guards, gateways={name: plan.gateways[name] for name in guards.assemblies})
        _tell_news(plan, self._plan)

    async def leave(self) -> None:
        """End the gateways."""
        for task in self._ending:
            task.cancel()
        if self._ending:
            await asyncio.wait(self._ending)
        if self._front is None:
            return
        # Side by side: each may have servers that do not want to end.
        leaving = [gateway.__aexit__(None, None, None) for gateway in self.gateways.values()]
        for failure in await asyncio.gather(*leaving, return_exceptions=True):
            if isinstance(failure, Exception):
                logger.error("a gateway failed while it was left", exc_info=failure)

    def stop(self) -> None:
        """End the streams that would go on for ever; requests under way go on."""
        for gateway in self.gateways.values():
            gateway.stop()

    async def apply(self, plan: Plan) -> str:
        """Go over to another plan. Return what changed, in words.

        Raises:
            OperatorError: a lifespan cannot be entered; nothing has changed then.
        """
        assert self._running is not None
        before = self.plan
        if self._front is None and before.tables != plan.tables:
            logger.warning("what the config says of the server itself has changed; start midspan anew to take it")
        await self._running.enter(plan.guards.distinct)
        added = {name: gateway for name, gateway in plan.gateways.items() if before.gateways.get(name) is not gateway}
        if self._front is not None:
            for gateway in added.values():
                await gateway.__aenter__()
        # From here on nothing can fail, and all servers go over at once: nothing is waited for.
        retired = [
            gateway.replace_chain(plan.guards.assemblies[name].chain, **towards_clients(plan.config, name))
            for name, gateway in plan.gateways.items()
            if name not in added
        ]
        ended = [] if self._front is None else self._reseat(self._front, before, plan)
        self._plan = plan
        self._follow_log(plan)
        _tell_news(before, plan)
        self._later(self._drain(retired, ended, before))
        return said(before.guards, plan.guards)

    def _reseat(self, front: Front, before: Plan, plan: Plan) -> list[asyncio.Task[None]]:
        """Serve at each path what the plan has there; return what ends the gateways that are at none any more."""
        from midspan.gateway import mount

        old = {path: (name, before.gateways.get(name), before.refusal(name)) for path, name in before.paths.items()}
        new = {path: (name, plan.gateways.get(name), plan.refusal(name)) for path, name in plan.paths.items()}
        left: dict[str, list[asyncio.Event]] = {}
        for path, seat in old.items():
            if new.get(path) != seat:
                left.setdefault(seat[0], []).append(front.drop(path))
        for path, seat in new.items():
            if old.get(path) != seat:
                mount(front, path, seat[1], refused=seat[2])
        gone = {name: gateway for name, gateway in before.gateways.items() if plan.gateways.get(name) is not gateway}
        return [self._later(self._end(gateway, left.get(name, []))) for name, gateway in gone.items()]

    async def _end(self, gateway: Gateway, idle: Sequence[asyncio.Event]) -> None:
        """End a gateway whose server is not served any more, when its requests under way are over."""
        gateway.stop()
        try:
            for each in idle:
                await each.wait()
        finally:  # also when midspan ends before that
            await gateway.__aexit__(None, None, None)

    async def _drain(self, retired: Sequence[Retired], ended: Sequence[asyncio.Task[None]], before: Plan) -> None:
        """Leave what only earlier chains used, when nothing uses them any more."""
        for each in retired:
            await each.wait()
        if ended:
            await asyncio.wait(ended)
        assert self._running is not None
        await self._running.leave(before.guards.distinct)

    def _later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("what an earlier config had open could not be closed", exc_info=error)


def _tell_news(before: Plan, plan: Plan) -> None:
    """Log what an operator is told at a start, where it is new."""
    for warning in plan.guards.warnings:
        if warning not in before.guards.warnings:
            logger.warning("%s", warning)
    for server in plan.guards.refused:
        if plan.refusal(server) != before.refusal(server):
            logger.error("server %r is not served: %s", server, plan.refusal(server))
