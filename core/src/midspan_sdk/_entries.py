"""Chain entries: a descriptor, the invoker's policy for it, and who invokes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, field_validator

from midspan_sdk import events as _events
from midspan_sdk._descriptor import Descriptor, Hook, PhasePriorities, Priority, expand_phases, priority_in
from midspan_sdk._model import WireModel
from midspan_sdk.errors import DefinitionError
from midspan_sdk.wire import InterceptorType, Mode, Phase

LOCAL_TIMEOUT = 1.0
SESSION_TIMEOUT = 5.0
CHAIN_TIMEOUT = 10.0
"""Default deadlines in seconds (design, Invokers)."""


class InterceptorOverrides(WireModel):
    """The invoker's policy for one entry. Each field that is set wins over the descriptor as a whole.

    Attributes:
        fail_open: let the message pass when the entry fails.
        priority_hint: for mutators; `{request: 5}` hides a declared response priority.
        mode: `active` or `audit`.
        timeout_ms: the entry's deadline in milliseconds.
        hooks: narrows where the entry hooks in; widening is refused.
        may_answer: whether a remote mutator's `answer` is honoured; a local one's always is.
    """

    model_config = ConfigDict(extra="forbid")

    fail_open: bool | None = None
    priority_hint: Priority | PhasePriorities | None = None
    mode: Mode | None = None
    timeout_ms: Annotated[int, Field(gt=0)] | None = None
    hooks: tuple[Hook, ...] | None = None
    may_answer: bool | None = None

    @field_validator("hooks", mode="before")
    @classmethod
    def _expand_both(cls, value: object) -> object:
        return list(expand_phases(cast("Sequence[object]", value))) if isinstance(value, list | tuple) else value


NO_OVERRIDES = InterceptorOverrides()

PolicyField = Literal["mode", "fail_open", "priority", "timeout", "hooks"]
Origin = Literal["override", "declared", "default"]

_OVERRIDING: dict[PolicyField, str] = {"priority": "priority_hint", "timeout": "timeout_ms"}


class ChainEntry:
    """One interceptor in a chain, with its policy resolved.

    Attributes:
        name: unique in the chain; the wire name, or the operator's alias for it.
        descriptor: what the interceptor says of itself.
        overrides: what the invoker decided.
        server: the interceptor server it lives on, or None when it runs in this process.
        mode: `active` or `audit`, resolved.
        fail_open: resolved.
        hooks: resolved.
        timeout: deadline in seconds, resolved.

    Raises:
        DefinitionError: an override widens the hooks, or gives a sink or a validator what its kind does not take.
    """

    __slots__ = ("_times_itself", "descriptor", "fail_open", "hooks", "mode", "name", "overrides", "server", "timeout")

    def __init__(
        self,
        descriptor: Descriptor,
        *,
        overrides: InterceptorOverrides | None = None,
        server: str | None = None,
        name: str | None = None,
        timeout: float | None = None,
    ) -> None:
        policy = overrides or NO_OVERRIDES
        self.name = name or descriptor.name
        self.descriptor = descriptor
        self.overrides = policy
        self.server = server
        _check_kind(self.name, descriptor.type, policy)
        self.mode: Mode = policy.mode or descriptor.mode
        self.fail_open = descriptor.fail_open if policy.fail_open is None else policy.fail_open
        self.hooks = descriptor.hooks if policy.hooks is None else _narrowed(self.name, descriptor.hooks, policy.hooks)
        default = LOCAL_TIMEOUT if server is None else SESSION_TIMEOUT
        declared = timeout if timeout is not None else default
        self.timeout = policy.timeout_ms / 1000 if policy.timeout_ms is not None else declared
        self._times_itself = timeout is not None

    @property
    def type(self) -> InterceptorType:
        """`validation`, `mutation` or `sink`."""
        return self.descriptor.type

    def priority(self, phase: Phase) -> int:
        """Return the priority in this phase, override included."""
        hint = self.overrides.priority_hint
        return priority_in(self.descriptor.priority_hint if hint is None else hint, phase)

    def origin(self, field: PolicyField) -> Origin:
        """Tell where a value comes from: an `override`, what the interceptor itself `declared`, or the `default`.

        A value that is declared as the default has it is the `default`.
        """
        overriding = _OVERRIDING.get(field, field)
        if getattr(self.overrides, overriding) is not None:
            return "override"
        declared = self._times_itself if field == "timeout" else overriding in self.descriptor.model_fields_set
        return "declared" if declared else "default"

    def matches(self, event: str, phase: Phase) -> bool:
        """Tell whether the entry takes messages of this event in this phase."""
        if _events.hooked_only_by_name(event):
            return any(hook.phase == phase and event in hook.events for hook in self.hooks)
        return any(hook.matches(event, phase) for hook in self.hooks)

    def __repr__(self) -> str:
        where = f" on {self.server!r}" if self.server else ""
        return f"<ChainEntry {self.name!r} ({self.type}, {self.mode}){where}>"


_NOT_TAKEN_BY: dict[InterceptorType, frozenset[str]] = {
    "validation": frozenset({"priority_hint", "may_answer"}),
    "mutation": frozenset(),
    "sink": frozenset({"mode", "fail_open", "priority_hint", "may_answer"}),
}


def with_policy(own: InterceptorOverrides, policy: InterceptorOverrides, kind: InterceptorType) -> InterceptorOverrides:
    """Return overrides that take from a policy for many what they do not say, as far as their kind takes it."""
    taken = InterceptorOverrides.model_fields.keys() - _NOT_TAKEN_BY[kind]
    return own.model_copy(update={field: getattr(policy, field) for field in taken if getattr(own, field) is None})


def _check_kind(name: str, kind: InterceptorType, policy: InterceptorOverrides) -> None:
    def given(*fields: str) -> str | None:
        return next((field for field in fields if getattr(policy, field) is not None), None)

    if kind == "sink" and (field := given("mode", "fail_open", "priority_hint")):
        raise DefinitionError(name, "a sink takes no mode, fail_open or priority", field=field)
    if kind == "validation" and given("priority_hint"):
        raise DefinitionError(name, "only mutators have a priority; validators run in parallel", field="priority_hint")
    if kind != "mutation" and given("may_answer"):
        raise DefinitionError(name, "only mutators answer", field="may_answer")


def _narrowed(name: str, declared: tuple[Hook, ...], wanted: tuple[Hook, ...]) -> tuple[Hook, ...]:
    for hook in wanted:
        allowed = [event for each in declared if each.phase == hook.phase for event in each.events]
        for event in hook.events:
            if not any(_events.covers(pattern, event) for pattern in allowed):
                raise DefinitionError(
                    name,
                    f"may only narrow; {event!r} in the {hook.phase} phase is outside what the interceptor declares",
                    field="hooks",
                )
    if not wanted:
        raise DefinitionError(name, "leave at least one hook, or disable the interceptor", field="hooks")
    return wanted


def overrides_from(value: InterceptorOverrides | dict[str, Any] | None) -> InterceptorOverrides:
    """Accept overrides as a model or as the wire's mapping."""
    if isinstance(value, InterceptorOverrides):
        return value
    return NO_OVERRIDES if value is None else InterceptorOverrides.model_validate(value)
