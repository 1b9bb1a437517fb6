"""One message through the chain, with what each step came to. Nothing is started, recorded or sent."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from midspan.interception import (
    PROTOCOL_VERSION_KEY,
    ConnectionContext,
    Denials,
    LearntTools,
    local_user,
    payload_of_answer,
)
from midspan.plugins import GATEWAY_GIVES, Assembly, Builder
from midspan.sight._changes import Change, changes
from midspan.sight._events import Flow, flows_of
from midspan.sight._servers import OTHER, ServerGroup, remote_servers
from midspan.sight._views import EntryView, entry_view
from midspan_sdk import Chain, ChainExecutionResult, Exchange, MemoryStore, Principal, Question, Reply
from midspan_sdk.events import TOOLS_CALL, is_notification

if TYPE_CHECKING:
    from midspan_sdk import ChainEntry
    from midspan_sdk.wire import Direction, Phase

Meaning = Literal["passes", "blocked", "answered", "asks"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message to explain.

    Attributes:
        event: the JSON-RPC method.
        payload: the `params`, the `result`, or `{"error": {...}}`.
        flow: phase and direction.
        error: whether it is a JSON-RPC error.
    """

    event: str
    payload: dict[str, Any]
    flow: Flow
    error: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting:
    """In which situation a message comes.

    Attributes:
        server: the guarded server's name, or None.
        principal: the user; None for the one of this process.
        session: the session.
        tools: the tools that the client was shown, a listing's result; None for none.
        reply: what the user does with every question; None leaves questions open.
    """

    server: str | None = None
    principal: str | None = None
    session: str = "explain"
    tools: dict[str, Any] | None = None
    reply: Reply | None = None


@dataclass(frozen=True, kw_only=True)
class ExplainedStep:
    """What one entry came to.

    Attributes:
        entry: the entry.
        verdict: in the words of decision records; `not reached` when the message was blocked or answered before, `would
            get it` or `would not get it` for sinks.
        reasons: a validator's messages, or why it failed.
        duration_ms: how long it took; None when it did not run.
        blocked: whether this is what blocks the message.
        meaning: what it would mean, or why it does not count; None when the verdict says it all.
        info: what its result carried beside.
        changes: of a mutator, what it changes in the payload that it was given.
        answer: of a mutator, the answer in the place of the other side's.
    """

    entry: EntryView
    verdict: str
    reasons: tuple[str, ...] = ()
    duration_ms: float | None = None
    blocked: bool = False
    meaning: str | None = None
    info: dict[str, Any] | None = None
    changes: tuple[Change, ...] = ()
    answer: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "step": self.entry.step,
            "interceptor": self.entry.name,
            "kind": self.entry.kind,
            "mode": None if (mode := self.entry.values["mode"]) is None else mode.value,
            "verdict": self.verdict,
            "blocked": self.blocked,
            "reasons": list(self.reasons),
            "meaning": self.meaning,
            "info": self.info,
            "duration_ms": None if self.duration_ms is None else round(self.duration_ms, 3),
            "changes": [change.as_json() for change in self.changes],
            "answer": self.answer,
        }


@dataclass(frozen=True, kw_only=True)
class Explained:
    """What a chain makes of one message.

    Attributes:
        message: the message.
        steps: what each entry came to, in order.
        result: of the chain.
        meaning: whether the message passes, is blocked, is answered, or waits for the user.
        told: what its sender, or who waits for the answer, gets instead; None when it passes, or nobody is told.
        changes: what differs between the payload that arrived and the one that leaves.
        questions: what was asked, with the reply; None where it stays open.
        remote: interceptor servers whose interceptors would join, and were not asked.
    """

    message: Message
    steps: tuple[ExplainedStep, ...]
    result: ChainExecutionResult
    meaning: Meaning
    told: dict[str, Any] | None
    changes: tuple[Change, ...]
    questions: tuple[tuple[Question, Reply | None], ...]
    remote: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        aborted = self.result.aborted_at
        return {
            "event": self.message.event,
            "phase": self.message.flow.phase,
            "direction": self.message.flow.direction,
            "outcome": self.meaning,
            "blocked_by": None if aborted is None else aborted.interceptor,
            "reason": None if aborted is None else aborted.reason,
            "answered_by": self.result.answered_by,
            "steps": [step.as_json() for step in self.steps],
            "questions": [
                {"interceptor": question.interceptor, "message": question.message, "reply": reply and reply.action}
                for question, reply in self.questions
            ],
            "changes": [change.as_json() for change in self.changes],
            "told": self.told,
            "interceptor_servers": list(self.remote),
            "result": self.result.to_wire(),
        }


class Explainer:
    """Runs messages through the chain in front of some servers; the same one keeps state and the request.

    Args:
        builder: built the chain.
        group: the servers; their chain must not be refused.
        setting: in which situation the messages come.
    """

    def __init__(self, builder: Builder, group: ServerGroup, setting: Setting) -> None:
        assert group.assembly is not None, "a chain that is refused explains nothing"
        self._builder = builder
        self._assembly: Assembly = group.assembly
        self._setting = setting
        self._remote = tuple(name for name, _ in remote_servers(builder.config, setting.server or OTHER))
        limits = builder.config.settings.limits
        # Without observers: nothing is recorded of what never was.
        self._chain = Chain(
            gives=GATEWAY_GIVES,
            store=MemoryStore(),
            timeout=limits.chain_timeout / 1000,
            max_payload_bytes=limits.max_payload,
            late_sinks=True,
        )
        for instance in self._assembly.instances:
            self._chain.add(*instance.interceptors, overrides=instance.overrides)
        self._exchange = Exchange()
        self._tools = LearntTools()
        if setting.tools is not None:
            self._tools.learn(None, setting.tools, setting.tools)
        principal = local_user() if setting.principal is None else Principal(type="user", id=setting.principal)
        self._context = ConnectionContext(
            server=setting.server or "", principal=principal, flow="explain", session=setting.session
        )
        self._stateless = False
        self._target: object = None

    async def explain(self, message: Message) -> list[Explained]:
        """Run one message; when an interceptor answers it, the answer in the response phase too."""
        explained = await self._one(message)
        found = [explained]
        if explained.result.answer is not None:
            answer = payload_of_answer(explained.result.answer, message.event, stateless=self._stateless)
            back = Flow("response", "receiving" if message.flow.direction == "sending" else "sending")
            found.append(await self._one(Message(event=message.event, payload=answer, flow=back), answered=True))
        return found

    async def _one(self, message: Message, *, answered: bool = False) -> Explained:
        flow, setting = message.flow, self._setting
        if flow.phase == "request":
            meta = message.payload.get("_meta")
            self._stateless = isinstance(meta, dict) and PROTOCOL_VERSION_KEY in meta
            self._target = message.payload.get("name")
        planned = self._chain.plan(message.event, flow.phase, flow.direction, error=message.error)
        asked: list[tuple[Question, Reply | None]] = []

        async def ask(question: Question) -> Reply | None:
            asked.append((question, setting.reply))
            return setting.reply

        check = self._tools.check(self._target) if message.event == TOOLS_CALL and flow.phase == "response" else None
        last = None if check is None or message.error else (check.answered if answered else check.changed)
        if not answered and not self._chain.may_change(message.event, *flow, error=message.error):
            last = None
        with _quiet():
            result = await self._chain.execute(
                event=message.event,
                phase=flow.phase,
                direction=flow.direction,
                payload=message.payload,
                interceptors=[entry.name for entry in planned if entry.type != "sink"],
                context=self._context.of(message.payload),
                exchange=self._exchange,
                error=message.error,
                tools=self._tools.listed,
                finish=last,
                ask=ask,
            )
        leaves = result.final_payload
        return Explained(
            message=message,
            steps=tuple(self._steps(message, planned, result)),
            result=result,
            meaning=_meaning(result),
            told=self._told(message, result, ran=flow.phase == "response" and not answered),
            changes=() if leaves is None else tuple(changes(message.payload, leaves)),
            questions=tuple(asked),
            remote=self._remote,
        )

    def _told(self, message: Message, result: ChainExecutionResult, *, ran: bool) -> dict[str, Any] | None:
        if result.aborted_at is None or result.questions or is_notification(message.event):
            return None
        config = self._builder.config
        table = config.gateway(self._setting.server)
        denials = Denials(
            detail=table.denial_detail, form=table.denials, timeout_ms=config.settings.limits.chain_timeout
        )
        return denials.answer(message.event, 1, result, ran=ran, stateless=self._stateless, error=message.error)

    def _steps(
        self, message: Message, planned: tuple[ChainEntry, ...], result: ChainExecutionResult
    ) -> Iterator[ExplainedStep]:
        came = {outcome.entry.name: outcome for outcome in result.outcomes}
        step, before = 0, None
        for entry in planned:
            if before is None or entry.type == "mutation" or before.type != entry.type:
                step += 1
            before = entry
            view = entry_view(self._builder, self._assembly, entry, message.flow.phase, step=step)
            if entry.type == "sink":
                verdict = "would get it" if result.aborted_at is None else "would not get it"
                yield ExplainedStep(entry=view, verdict=verdict)
            elif entry.name not in came:
                yield ExplainedStep(entry=view, verdict="not reached")
            else:
                yield self._step(view, came[entry.name], result)

    def _step(self, view: EntryView, outcome: Any, result: ChainExecutionResult) -> ExplainedStep:
        value, error, verdict = outcome.value, outcome.error, outcome.verdict()
        aborted = result.aborted_at
        payload = getattr(value, "payload", None)
        return ExplainedStep(
            entry=view,
            verdict=verdict,
            reasons=(*outcome.reasons(), *(() if error is None else self._causes(view, error))),
            duration_ms=outcome.duration * 1000,
            blocked=aborted is not None and aborted.interceptor == view.name,
            meaning=_counts(outcome.entry, verdict),
            info=value.info if value is not None else None,
            changes=() if payload is None or outcome.given is None else tuple(changes(outcome.given, payload)),
            answer=getattr(value, "answer", None),
        )

    def _causes(self, view: EntryView, error: BaseException) -> Iterator[str]:
        interceptor = next(one for one in self._assembly.interceptors if one.name == view.name)
        if "lifespan" in interceptor.signature.names:
            yield "needs its lifespan, which explain does not enter"
        elif (cause := error.__cause__) is not None and cause.__traceback__ is not None:
            # The exception's own words are left out: a plugin's config may stand in them.
            last = traceback.extract_tb(cause.__traceback__)[-1]
            yield f"{type(cause).__name__} at {Path(last.filename).name}:{last.lineno}"


def _meaning(result: ChainExecutionResult) -> Meaning:
    if result.questions:
        return "asks"
    if result.aborted_at is not None:
        return "blocked"
    return "passes" if result.answer is None else "answered"


def _counts(entry: ChainEntry, verdict: str) -> str | None:
    """Say what a verdict would mean where it means nothing."""
    if entry.mode == "audit":
        would = {
            "denied": "would block",
            "modified": "would change the message",
            "answered": "would answer",
            "failed": "would let it pass" if entry.fail_open else "would block",
            "timeout": "would let it pass" if entry.fail_open else "would block",
        }.get(verdict)
        return f"audit: {would}, counts for nothing" if would else "audit: counts for nothing"
    if verdict in ("failed", "timeout"):
        return "fails open: lets it pass" if entry.fail_open else None
    return None


@contextmanager
def _quiet() -> Generator[None]:
    """Keep the chain's own log out of the output, which says the same."""
    log = logging.getLogger("midspan.chain")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def usual_flow(event: str, phase: Phase, direction: Direction | None) -> Flow:
    """Return the way in which such a message goes, unless another direction is wanted."""
    if direction is not None:
        return Flow(phase, direction)
    return next((flow for flow in flows_of(event) if flow.phase == phase), Flow(phase, "receiving"))
