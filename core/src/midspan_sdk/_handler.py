"""Handlers: which parameters they take, whether they can suspend, and what their return values mean."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from midspan_sdk._descriptor import NOUNS
from midspan_sdk._model import faulty_fields
from midspan_sdk._plain import NotPlainError, plain_object, same
from midspan_sdk._results import (
    ALLOWED,
    Answer,
    MutationResult,
    SinkResult,
    ValidationResult,
    deny,
)
from midspan_sdk._typed import apply_typed_change
from midspan_sdk.errors import DefinitionError, InvalidInvocationError
from midspan_sdk.wire import InterceptorType

PARAMETERS = (
    "payload",
    "params",
    "result",
    "request",
    "event",
    "phase",
    "config",
    "context",
    "state",
    "session_state",
    "store",
    "lifespan",
    "tools",
    "ask",
    "invocation",
)
"""Every name a handler's parameter may have; `params` and `result` are the typed payload."""

NEEDED_BY_PARAMETER = {"session_state": "session", "store": "store", "tools": "tools", "ask": "ask"}

_TYPED = ("params", "result")
_SUSPENDING = frozenset({"GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "SEND", "YIELD_VALUE", "YIELD_FROM"})

Kind = Literal["plain", "stepped", "awaited", "blocking"]
"""How a handler is called: a `def` inline; an `async def` that cannot suspend, stepped once; one that can, awaited
with a deadline; a `def` declared blocking, in a worker thread."""


class Signature:
    """What a handler asks for.

    Attributes:
        names: its parameters, in order.
        keyword_only: those that must be given by keyword.
        typed: the pydantic model of `params` or `result`, or None.
        config_model: the pydantic model that annotates `config`, or None.
        is_method: whether the first parameter is `self`, so that the handler must be bound first.
    """

    __slots__ = ("config_model", "is_method", "keyword_only", "names", "typed")

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise DefinitionError(name, f"its signature cannot be read: {error}") from error
        self.is_method = bool(parameters) and parameters[0].name == "self"
        if self.is_method:
            parameters = parameters[1:]
        for parameter in parameters:
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
                raise DefinitionError(
                    name, f"takes {stars}{parameter.name}; name the parameters it needs", field="handler"
                )
            if parameter.name not in PARAMETERS:
                raise DefinitionError(
                    name,
                    f"unknown parameter {parameter.name!r}; a handler may take {', '.join(PARAMETERS)}",
                    field="handler",
                )
        self.names = tuple(parameter.name for parameter in parameters)
        self.keyword_only = frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        if "params" in self.names and "result" in self.names:
            raise DefinitionError(name, "takes both 'params' and 'result'; a message has one of them", field="handler")
        by_name = {parameter.name: parameter for parameter in parameters}
        typed_name = next((typed for typed in _TYPED if typed in by_name), None)
        self.typed = _model_of(name, function, by_name[typed_name], required=True) if typed_name else None
        self.config_model = (
            _model_of(name, function, by_name["config"], required=False) if "config" in by_name else None
        )


def _model_of(
    name: str, function: Callable[..., Any], parameter: inspect.Parameter, *, required: bool
) -> type[BaseModel] | None:
    annotation: object = parameter.annotation
    if isinstance(annotation, str):
        target = inspect.unwrap(function)
        target = getattr(target, "__func__", target)
        scope = {**getattr(target, "__globals__", {}), **inspect.getclosurevars(target).nonlocals}
        try:
            annotation = eval(annotation, scope)  # noqa: S307 - the author's own annotation
        except Exception as error:
            raise DefinitionError(
                name,
                f"the annotation {annotation!r} cannot be resolved ({error}); import it at run time",
                field=parameter.name,
            ) from error
    if not required and get_origin(annotation) in (Union, UnionType):
        members = [member for member in get_args(annotation) if member is not NoneType]
        annotation = members[0] if len(members) == 1 else annotation  # `Model | None` is `Model`
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if required:
        raise DefinitionError(name, "must be annotated with a pydantic model", field=parameter.name)
    return None


def kind_of(name: str, function: Callable[..., Any], *, blocking: bool) -> Kind:
    """Find out, once, how a handler is to be called.

    Raises:
        DefinitionError: it is a generator, or an `async def` declared blocking.
    """
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(name, "is a generator; return one value instead of yielding", field="handler")
    if inspect.iscoroutinefunction(function):
        if blocking:
            raise DefinitionError(name, "only a plain `def` can be blocking; this one is async", field="blocking")
        return "awaited" if _can_suspend(function) else "stepped"
    if inspect.isfunction(function) or inspect.ismethod(function):
        return "blocking" if blocking else "plain"
    if inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return "awaited"
    return "blocking" if blocking else "plain"


def _can_suspend(function: Callable[..., Any]) -> bool:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or any(instruction.opname in _SUSPENDING for instruction in dis.get_instructions(code))


def typed_payload(name: str, model: type[BaseModel], payload: Mapping[str, Any]) -> BaseModel:
    """Read a payload into the handler's model.

    Raises:
        InvalidInvocationError: it does not fit; the reason names the fields, never their values.
    """
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        fields = faulty_fields(error, whole="payload")
        raise InvalidInvocationError(name, f"the payload does not fit {model.__name__}: {fields}") from error


class WrongReturnError(TypeError):
    """A handler returned what its kind may not return."""


def _wrong(kind: str, value: object, accepted: str) -> WrongReturnError:
    if inspect.iscoroutine(value):
        value.close()  # nobody will await it; Python would warn of that somewhere else, later
    return WrongReturnError(f"a {kind} may return {accepted}; this one returned {type(value).__name__}")


def validation_of(value: object) -> ValidationResult:
    """Turn what a validator returned into its result.

    Raises:
        WrongReturnError: it returned what a validator may not.
    """
    if value is None or value is True:
        return ALLOWED
    if value is False:
        return deny("denied")
    if isinstance(value, str):
        return deny(value or "denied")
    if isinstance(value, ValidationResult):
        return value
    raise _wrong("validator", value, "None, True, False, a reason (str) or a ValidationResult")


class Mutation:
    """What a mutator returned, made plain.

    Attributes:
        modified: whether the payload is another one.
        payload: the new payload, owned by nobody else; None when not modified.
        answer: the answer in place of the other side's, or None.
        info: what a result object carried beside.
    """

    __slots__ = ("answer", "info", "modified", "payload")

    def __init__(
        self,
        payload: dict[str, Any] | None = None,
        *,
        answer: dict[str, Any] | None = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        self.modified = payload is not None
        self.payload = payload
        self.answer = answer
        self.info = info


UNCHANGED = Mutation()


def mutation_of(value: object, *, given: dict[str, Any], original: dict[str, Any]) -> Mutation:
    """Turn what a mutator returned into its mutation.

    Args:
        value: what it returned.
        given: the copy it was given, which it may have edited.
        original: the payload that copy was made of.

    Raises:
        WrongReturnError: it returned what a mutator may not, or edited its copy and returned None.
        NotPlainError: the payload it returned is not JSON.
    """
    if value is None:
        if given != original:
            raise WrongReturnError("a mutator that edits its payload must return it; this one edited and returned None")
        return UNCHANGED
    if isinstance(value, Answer):
        return Mutation(answer=plain_object(value.result))
    if isinstance(value, MutationResult):
        answer = plain_object(value.answer) if value.answer is not None else None
        if not value.modified:
            return Mutation(answer=answer, info=value.info)
        return Mutation(plain_object(value.payload), answer=answer, info=value.info)
    if isinstance(value, BaseModel) and not isinstance(value, ValidationResult | SinkResult):
        payload = apply_typed_change(original, value)
    elif isinstance(value, Mapping):
        payload = plain_object(cast("Mapping[str, Any]", value))
    else:
        raise _wrong(
            "mutator", value, "None, the new payload (a mapping or typed model), an Answer or a MutationResult"
        )
    return UNCHANGED if payload == original and same(payload, original) else Mutation(payload)


def sink_of(value: object) -> SinkResult:
    """Turn what a sink returned into its result.

    Raises:
        WrongReturnError: it returned what a sink may not.
    """
    if value is None or value is True:
        return RECORDED
    if value is False:
        return SinkResult(recorded=False)
    if isinstance(value, SinkResult):
        return value
    raise _wrong("sink", value, "None, True, False or a SinkResult")


RECORDED = SinkResult(recorded=True)


def reason_of(error: BaseException, kind: InterceptorType) -> str:
    """Return a generic reason for a failure: fit for a peer, with no payload value, traceback or path in it."""
    if isinstance(error, WrongReturnError):
        return f"the {NOUNS[kind]} returned the wrong type"
    if isinstance(error, NotPlainError) or _is_of_no_json(error):
        return f"the {NOUNS[kind]} returned something that is not JSON"
    return f"the {NOUNS[kind]} raised {type(error).__name__}"


def _is_of_no_json(error: BaseException) -> bool:
    # A result object refuses what is not JSON when the handler makes it.
    return isinstance(error, ValidationError) and any(
        isinstance(one.get("ctx", {}).get("error"), NotPlainError) for one in error.errors()
    )
