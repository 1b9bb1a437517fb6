"""What an interceptor says of itself: the elements of `interceptors/list`."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, field_validator, model_validator

from midspan_sdk import events as _events
from midspan_sdk._model import WireModel
from midspan_sdk.wire import InterceptorType, Mode, Phase

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

NOUNS: dict[InterceptorType, str] = {"validation": "validator", "mutation": "mutator", "sink": "sink"}
"""What people call an interceptor of each type."""


def _printable(name: str) -> str:
    if not name:
        raise ValueError("must not be empty")
    for character in name:
        if unicodedata.category(character) in {"Cc", "Cs"}:
            raise ValueError(f"contains the control character {character!r}")
    return name


def _int32(value: int) -> int:
    if not INT32_MIN <= value <= INT32_MAX:
        raise ValueError(f"{value} is outside int32")
    return value


def _lenient_mode(value: object) -> object:
    return "active" if value in (None, "", "enforce") else value


Sees = Literal["leaves", "arrived"]
Name = Annotated[str, AfterValidator(_printable)]
Priority = Annotated[StrictInt, AfterValidator(_int32)]


class Hook(WireModel):
    """Where an interceptor hooks in.

    Attributes:
        events: JSON-RPC methods, or globs whose `*` crosses `/`; not empty.
        phase: `request` or `response`.
    """

    events: tuple[str, ...] = Field(min_length=1)
    phase: Phase

    @field_validator("events")
    @classmethod
    def _events_are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for event in value:
            _printable(event)
        return value

    def matches(self, event: str, phase: Phase) -> bool:
        """Tell whether the hook takes messages of this event in this phase."""
        return self.phase == phase and _events.matches_any(self.events, event)


class PhasePriorities(WireModel):
    """A priority for each phase; a missing side is 0."""

    request: Priority = 0
    response: Priority = 0


class Compat(WireModel):
    """Protocol revisions an interceptor can work with, both ends included.

    Revisions are dates and compare as text. Outside the range the entry fails, so that its `failOpen` decides; were it
    skipped, a client could choose its guards by choosing its version.
    """

    min_protocol: str
    max_protocol: str | None = None

    def admits(self, version: str) -> bool:
        """Tell whether the negotiated protocol version is within the range."""
        return self.min_protocol <= version and (self.max_protocol is None or version <= self.max_protocol)


class Descriptor(WireModel):
    """An element of `interceptors/list`.

    Read leniently: `mode` may be `enforce`, empty or missing (`active`); `phase: "both"` and the older singular `hook`
    are expanded; unknown keys are ignored. Written strictly: fields at their default are left out.

    `errors` (also sees JSON-RPC errors) and `sees` (for sinks: what `leaves`, or what `arrived`) are not in the
    proposal; without them a remote interceptor would never get what the same one in this process gets.

    Raises:
        pydantic.ValidationError: for a name that is empty or has control characters, an empty hook list, a priority
            outside int32, an unknown type or phase.
    """

    name: Name
    version: str | None = None
    description: str | None = None
    type: InterceptorType
    hooks: tuple[Hook, ...] = Field(min_length=1)
    mode: Annotated[Mode, BeforeValidator(_lenient_mode)] = "active"
    fail_open: bool = False
    priority_hint: Priority | PhasePriorities = 0
    compat: Compat | None = None
    config_schema: dict[str, Any] | None = None
    errors: bool = False
    sees: Sees = "leaves"

    @model_validator(mode="before")
    @classmethod
    def _expand_older_shapes(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        given = dict(cast("Mapping[str, Any]", data))
        if "hook" in given and "hooks" not in given:
            given["hooks"] = [given.pop("hook")]
        if isinstance(given.get("hooks"), list | tuple):
            given["hooks"] = list(expand_phases(given["hooks"]))
        for key in ("priority_hint", "priorityHint"):
            if key in given and given[key] is None:
                del given[key]
        return given

    @field_validator("priority_hint")
    @classmethod
    def _no_side_is_no_hint(cls, value: int | PhasePriorities) -> int | PhasePriorities:
        return 0 if value == PhasePriorities() else value

    @field_validator("config_schema")
    @classmethod
    def _schema_is_of_an_object(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and value.get("type") != "object":
            raise ValueError('must be a JSON Schema of type "object"')
        return value

    @property
    def noun(self) -> str:
        """What people call an interceptor of its type: `validator`, `mutator` or `sink`."""
        return NOUNS[self.type]

    def priority(self, phase: Phase) -> int:
        """Return the priority in this phase; lower runs first."""
        return priority_in(self.priority_hint, phase)

    def matches(self, event: str, phase: Phase | None = None) -> bool:
        """Tell whether any hook takes messages of this event, in this phase or in any."""
        return any(
            (phase is None or hook.phase == phase) and _events.matches_any(hook.events, event) for hook in self.hooks
        )


def priority_in(hint: int | PhasePriorities, phase: Phase) -> int:
    """Return the side of a priority hint that counts in this phase."""
    if isinstance(hint, int):
        return hint
    return hint.request if phase == "request" else hint.response


def expand_phases(hooks: Iterable[object]) -> Iterable[object]:
    """Turn a hook of both phases into two; the wire knows one phase each."""
    for hook in hooks:
        if isinstance(hook, Mapping) and cast("Mapping[str, Any]", hook).get("phase") == "both":
            entry = cast("Mapping[str, Any]", hook)
            yield {**entry, "phase": "request"}
            yield {**entry, "phase": "response"}
        else:
            yield hook
