"""The decorators that turn a function into an interceptor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake

from midspan_sdk._descriptor import Descriptor, PhasePriorities, Sees
from midspan_sdk._handler import NEEDED_BY_PARAMETER, Signature, kind_of
from midspan_sdk.errors import DefinitionError
from midspan_sdk.wire import InterceptorType, Mode

P = ParamSpec("P")
R = TypeVar("R")

Need = Literal["session", "tools", "ask", "store"]
PhaseOption = Literal["request", "response", "both"]

NEEDS: tuple[Need, ...] = ("session", "tools", "ask", "store")


class Bindings:
    """What a host gives to the interceptors of one plugin instance; shared by all of them.

    Attributes:
        config: the validated config, or None.
        lifespan: what the plugin's `midspan_lifespan` yielded, or None.
    """

    __slots__ = ("config", "lifespan")

    def __init__(self, config: BaseModel | None = None, lifespan: object = None) -> None:
        self.config = config
        self.lifespan = lifespan


class Interceptor(Generic[P, R]):
    """A handler and what it says of itself. Made by `@validator`, `@mutator` and `@sink`; still callable as written.

    Attributes:
        descriptor: its element of `interceptors/list`.
        handler: the function.
        timeout: its own deadline in seconds, or None for the default.
        blocking: whether it runs in a worker thread.
        needs: what its mount must be able to give.
        config_model: the pydantic model of its config, or None.
        bindings: what a host gave it.
    """

    def __init__(
        self,
        handler: Callable[P, R],
        *,
        type: InterceptorType,  # noqa: A002 - the protocol's word
        events: Sequence[str],
        phase: PhaseOption,
        name: str | None,
        mode: Mode = "active",
        fail_open: bool = False,
        priority_hint: int | dict[str, int] | PhasePriorities = 0,
        timeout: float | None,
        blocking: bool,
        needs: Iterable[Need],
        errors: bool,
        sees: Sees = "leaves",
        compat: dict[str, str] | None = None,
        description: str | None,
        version: str | None,
    ) -> None:
        given_name = name if name is not None else getattr(handler, "__name__", "")
        self.explicit_name = name is not None
        if isinstance(events, str):
            raise DefinitionError(given_name, f"must be a list, for example [{events!r}]", field="events")
        if phase not in ("request", "response", "both"):
            raise DefinitionError(given_name, f"must be 'request', 'response' or 'both', not {phase!r}", field="phase")
        if sees not in ("leaves", "arrived"):
            raise DefinitionError(given_name, f"must be 'leaves' or 'arrived', not {sees!r}", field="sees")
        _refuse_unknown_keys(given_name, "priority_hint", priority_hint, ("request", "response"))
        _refuse_unknown_keys(given_name, "compat", compat, ("min_protocol", "max_protocol"))
        if timeout is not None and not 0 < timeout < math.inf:
            raise DefinitionError(given_name, f"must be a positive number of seconds, not {timeout!r}", field="timeout")
        self.handler: Callable[..., Any] = handler
        self.signature = Signature(given_name, handler)
        self.kind = kind_of(given_name, handler, blocking=blocking)
        self.timeout = timeout
        self.blocking = blocking
        self.config_model = self.signature.config_model
        self.bindings = Bindings()
        self.group: str | None = None
        declared = frozenset(needs)
        if unknown := sorted(declared - frozenset(NEEDS)):
            raise DefinitionError(given_name, f"unknown need {unknown[0]!r}; known: {', '.join(NEEDS)}", field="needs")
        self.needs: frozenset[str] = declared | {
            NEEDED_BY_PARAMETER[parameter] for parameter in self.signature.names if parameter in NEEDED_BY_PARAMETER
        }
        self.descriptor = _describe(
            given_name,
            type=type,
            hooks=[{"events": list(events), "phase": phase}],
            # What is the default anyway is not declared: so an entry can tell where its values come from.
            mode=None if mode == "active" else mode,
            fail_open=fail_open or None,
            priority_hint=None if priority_hint is not False and priority_hint == 0 else priority_hint,
            compat=compat,
            description=description if description is not None else _first_line(handler),
            version=version,
            config_schema=_schema_of(self.config_model),
            errors=errors or None,
            sees=None if sees == "leaves" else sees,
        )
        self._check_phases(phase)
        self.__doc__ = getattr(handler, "__doc__", None)
        self.__name__ = given_name
        self.__wrapped__ = handler

    def _check_phases(self, phase: PhaseOption) -> None:
        names = self.signature.names
        if "params" in names and phase != "request":
            raise DefinitionError(self.name, "is the typed payload of the request phase only", field="params")
        if "result" in names and phase != "response":
            raise DefinitionError(self.name, "is the typed payload of the response phase only", field="result")
        if self.errors and phase == "request":
            raise DefinitionError(self.name, "errors are seen in the response phase; hook that", field="errors")
        if "ask" in names and self.type == "sink":
            raise DefinitionError(self.name, "a sink runs when the message has left; a validator can ask", field="ask")
        if {"store", "ask"} & set(names) and self.kind not in ("awaited", "stepped"):
            wanted = "store" if "store" in names else "ask"
            raise DefinitionError(self.name, "is asynchronous; make the handler an `async def`", field=wanted)

    @property
    def name(self) -> str:
        """The wire name."""
        return self.descriptor.name

    @property
    def type(self) -> InterceptorType:
        """`validation`, `mutation` or `sink`."""
        return self.descriptor.type

    @property
    def errors(self) -> bool:
        """Whether it also wants JSON-RPC errors, in the response phase."""
        return self.descriptor.errors

    @property
    def sees(self) -> Sees:
        """For sinks in a gateway: the payload that `leaves`, or the one that `arrived`."""
        return self.descriptor.sees

    @property
    def state_group(self) -> str:
        """Whose state it shares: its plugin instance's, else its object's, else of all with its name's prefix."""
        return self.group if self.group is not None else self.name.rpartition(".")[0] or self.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the handler itself, as a unit test does."""
        return cast("R", self.handler(*args, **kwargs))

    def __repr__(self) -> str:
        return f"<{self.type} interceptor {self.name!r}>"

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Interceptor[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Interceptor[..., R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Interceptor[..., R]:
        """Bind a decorated method to its object."""
        if instance is None or not self.signature.is_method:
            return self  # on the class, or a decorated function that only lives in a class body
        bound = self._clone()
        bound.handler = self.handler.__get__(instance, owner)
        if bound.group is None:
            bound.group = type(instance).__qualname__
        bound.signature = copy(self.signature)
        bound.signature.is_method = False
        return bound

    def _clone(self) -> Interceptor[P, R]:
        return copy(self)

    def bound(
        self,
        *,
        name: str | None = None,
        group: str | None = None,
        bindings: Bindings | None = None,
        config_model: type[BaseModel] | None = None,
    ) -> Interceptor[P, R]:
        """Return a copy under another wire name, with what a host gives to its plugin.

        Args:
            name: the wire name; None keeps it.
            group: whose state it shares; None derives it from the name.
            bindings: config and lifespan of the plugin instance.
            config_model: the plugin's config model, from which `configSchema` is generated.

        Raises:
            DefinitionError: the name is not acceptable.
        """
        clone = self._clone()
        fields = self.descriptor.model_dump(exclude_unset=True)
        if name is not None:
            fields["name"] = name
        if config_model is not None:
            clone.config_model = config_model
            fields["config_schema"] = _schema_of(config_model)
        clone.descriptor = _describe(fields.pop("name"), **fields)
        clone.group = group if group is not None else self.group
        if bindings is not None:
            clone.bindings = bindings
        return clone


def _first_line(handler: Callable[..., Any]) -> str | None:
    return next(iter((getattr(handler, "__doc__", None) or "").strip().splitlines()), None) or None


def _schema_of(model: type[BaseModel] | None) -> dict[str, Any] | None:
    return model.model_json_schema(by_alias=True) if model is not None else None


def _refuse_unknown_keys(name: str, field: str, given: object, known: tuple[str, ...]) -> None:
    # A peer's descriptor may have keys of a later revision; an author's may not, since they would be typing errors.
    if not isinstance(given, Mapping):
        return
    if unknown := [key for key in cast("Mapping[object, object]", given) if key not in known]:
        raise DefinitionError(name, f"unknown key {unknown[0]!r}; known: {', '.join(known)}", field=field)


def _describe(name: str, **fields: Any) -> Descriptor:
    given = {key: value for key, value in fields.items() if value is not None}
    try:
        return Descriptor.model_validate({"name": name, **given})
    except ValidationError as error:
        raise definition_error(name, error) from error


def definition_error(name: str, error: ValidationError) -> DefinitionError:
    """Say in one sentence what a descriptor's first fault is."""
    errors = error.errors()
    # Of a union the alternative that was meant is the one whose own check failed.
    first = next((one for one in errors if one["type"] == "value_error"), errors[0])
    field = str(first["loc"][0]) if first["loc"] else None
    problem = first["msg"].removeprefix("Value error, ")
    if first["type"] in ("too_short", "missing") and field == "hooks":
        problem = "needs at least one event"
    elif first["type"] == "too_short":
        problem = "must not be empty"
    elif first["type"] == "missing" and len(first["loc"]) > 1:
        problem = f"needs {to_snake(str(first['loc'][-1]))!r}"
    return DefinitionError(name, problem, field=_author_word(field, first["loc"]))


def _author_word(field: str | None, location: tuple[int | str, ...]) -> str | None:
    if field == "hooks" and len(location) > 2:
        return str(location[2])
    return field


def validator(
    *,
    events: Sequence[str],
    phase: PhaseOption,
    name: str | None = None,
    mode: Mode = "active",
    fail_open: bool = False,
    timeout: float | None = None,
    blocking: bool = False,
    needs: Iterable[Need] = (),
    errors: bool = False,
    compat: dict[str, str] | None = None,
    description: str | None = None,
    version: str | None = None,
) -> Callable[[Callable[P, R]], Interceptor[P, R]]:
    """Make a function a validator: it checks a message and may deny it, but never changes it.

    The handler may return None or True (allowed), False (denied), a reason (denied) or a `ValidationResult`.

    Args:
        events: JSON-RPC methods, or globs whose `*` crosses `/`.
        phase: `request`, `response` or `both`.
        name: the wire name; in a plugin the default is `<instance>.<function>`.
        mode: `audit` records the verdict and never blocks.
        fail_open: let the message pass when the handler fails; the default is to block.
        timeout: deadline in seconds; the default is the invoker's (1 s in process).
        blocking: run a plain `def` in a worker thread.
        needs: what the mount must be able to give: `session`, `tools`, `ask`, `store`.
        errors: also see JSON-RPC errors, as `{"error": {...}}` in the response phase.
        compat: `{"min_protocol": ..., "max_protocol": ...}`; outside it the entry fails.
        description: one line for listings; the default is the docstring's first.
        version: the interceptor's own version.

    Raises:
        DefinitionError: the function or an option is not acceptable; names the field.
    """

    def decorate(handler: Callable[P, R]) -> Interceptor[P, R]:
        return Interceptor(
            handler,
            type="validation",
            events=events,
            phase=phase,
            name=name,
            mode=mode,
            fail_open=fail_open,
            timeout=timeout,
            blocking=blocking,
            needs=needs,
            errors=errors,
            compat=compat,
            description=description,
            version=version,
        )

    return decorate


def mutator(
    *,
    events: Sequence[str],
    phase: PhaseOption,
    name: str | None = None,
    priority_hint: int | dict[str, int] | PhasePriorities = 0,
    mode: Mode = "active",
    fail_open: bool = False,
    timeout: float | None = None,
    blocking: bool = False,
    needs: Iterable[Need] = (),
    errors: bool = False,
    compat: dict[str, str] | None = None,
    description: str | None = None,
    version: str | None = None,
) -> Callable[[Callable[P, R]], Interceptor[P, R]]:
    """Make a function a mutator: it may return another payload, or in the request phase an `Answer`.

    The handler gets a copy of its own and may edit it, but must return what it wants to apply. None means unchanged.

    `priority_hint` is an int32, lower runs first; `{"request": 5}` differs by phase; ties go by name. All other
    arguments are those of `validator`.

    Raises:
        DefinitionError: the function or an option is not acceptable; names the field.
    """

    def decorate(handler: Callable[P, R]) -> Interceptor[P, R]:
        return Interceptor(
            handler,
            type="mutation",
            events=events,
            phase=phase,
            name=name,
            mode=mode,
            fail_open=fail_open,
            priority_hint=priority_hint,
            timeout=timeout,
            blocking=blocking,
            needs=needs,
            errors=errors,
            compat=compat,
            description=description,
            version=version,
        )

    return decorate


def sink(
    *,
    events: Sequence[str],
    phase: PhaseOption,
    name: str | None = None,
    timeout: float | None = None,
    blocking: bool = False,
    needs: Iterable[Need] = (),
    errors: bool = False,
    sees: Sees = "leaves",
    compat: dict[str, str] | None = None,
    description: str | None = None,
    version: str | None = None,
) -> Callable[[Callable[P, R]], Interceptor[P, R]]:
    """Make a function a sink: it observes messages in the background and can neither delay nor change them.

    A sink has no mode, no `fail_open` and no priority. The handler may return None or True (recorded), False, or a
    `SinkResult`.

    `sees` chooses, in a gateway, the payload that `leaves` (after redaction) or the one that `arrived`. All other
    arguments are those of `validator`.

    Raises:
        DefinitionError: the function or an option is not acceptable; names the field.
    """

    def decorate(handler: Callable[P, R]) -> Interceptor[P, R]:
        return Interceptor(
            handler,
            type="sink",
            events=events,
            phase=phase,
            name=name,
            timeout=timeout,
            blocking=blocking,
            needs=needs,
            errors=errors,
            sees=sees,
            compat=compat,
            description=description,
            version=version,
        )

    return decorate


def interceptors_of(contribution: object) -> list[Interceptor[..., Any]]:
    """Return the interceptors that an object contributes: itself, or its decorated methods in order of definition.

    Raises:
        DefinitionError: it contributes none, is an unbound decorated method, or hides one of a base class.
    """
    if isinstance(contribution, Interceptor):
        interceptor = cast("Interceptor[..., Any]", contribution)
        if interceptor.signature.is_method:
            raise DefinitionError(interceptor.name, "is a method; contribute an instance of its class")
        return [interceptor]
    found: dict[str, None] = {}
    for owner in reversed(type(contribution).__mro__):
        found.update(dict.fromkeys(key for key, value in vars(owner).items() if isinstance(value, Interceptor)))
    interceptors: list[Interceptor[..., Any]] = []
    for key in found:
        value: object = getattr(contribution, key)
        if isinstance(value, Interceptor):
            interceptors.append(cast("Interceptor[..., Any]", value))
        elif value is not None:  # a guard must not vanish because somebody forgot a line
            raise DefinitionError(
                type(contribution).__name__,
                "replaces a decorated method by one that is not; decorate it, or set it to None to leave it out",
                field=key,
            )
    if not interceptors:
        raise DefinitionError(
            type(contribution).__name__,
            "is no interceptor and has no decorated methods; decorate with @validator, @mutator or @sink",
        )
    return interceptors
