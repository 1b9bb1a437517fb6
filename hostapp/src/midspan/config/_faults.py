"""What is wrong with a table, in words: pydantic's errors as one sentence for the operator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError
from pydantic.fields import FieldInfo

from midspan.errors import did_you_mean

_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    PurePath: "path",
}
_TABLE_TYPES = frozenset({"model_type", "dict_type", "dataclass_type", "model_attributes_type"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is wrong with a table.

    Attributes:
        keys: where, from the validated table downwards.
        problem: what, and what is accepted; never the value that stands there.
    """

    keys: tuple[str | int, ...]
    problem: str


def fault_of(error: ValidationError, model: type[BaseModel]) -> Fault:
    """Say what the first fault is, and how many there are beside it."""
    first, *others = faults_of(error, model)
    return replace(first, problem=f"{first.problem} (and {len(others)} more)") if others else first


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """Say what all faults are, unknown keys first: a misspelt key is the cause of the one that is missing."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    details.sort(key=lambda detail: detail["type"] != "extra_forbidden")
    return [_fault(detail["type"], detail["msg"], detail["loc"], model) for detail in details]


def _fault(kind: str, message: str, place: tuple[str | int, ...], model: type[BaseModel]) -> Fault:
    keys = tuple(key for key in place if key != "[key]")
    return Fault(keys=keys, problem=_problem(kind, message, model, keys))


def unknown_key(model: type[BaseModel], table: Mapping[str, Any]) -> Fault | None:
    """Find a key that the model would silently ignore.

    A model that neither forbids nor allows extra keys drops them; in a config file a dropped key is a guard that does
    not do what it says.
    """
    if issubclass(model, RootModel) or model.model_config.get("extra") in ("allow", "forbid"):
        return None
    known = keys_of(model)
    for key in table:
        if key not in known:
            return Fault(keys=(key,), problem=_unknown(key, list(known)))
    return None


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the keys that a table of this model may have, and their fields."""
    known: dict[str, FieldInfo] = {}
    by_name = bool(model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name"))
    for name, field in model.model_fields.items():
        alias = field.validation_alias if isinstance(field.validation_alias, str) else field.alias
        known[alias or name] = field
        if by_name:
            known[name] = field
    return known


def type_text(annotation: object) -> str:
    """Say what a field takes, in the words of a TOML file: `list of text`, `whole number`."""
    annotation = _inner(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(json.dumps(value, default=str) for value in arguments)
    if origin in (Union, UnionType):
        texts = dict.fromkeys(type_text(argument) for argument in arguments if argument is not type(None))
        return " or ".join(texts)
    kind = origin if isinstance(origin, type) else annotation
    if not isinstance(kind, type):
        return "value"
    if issubclass(kind, BaseModel | Mapping):
        return "table"
    if issubclass(kind, list | tuple | AbstractSet):
        members = [argument for argument in arguments if argument is not Ellipsis]
        return f"list of {type_text(members[0])}" if len(set(members)) == 1 else "list"
    return next((word for known, word in _WORDS.items() if issubclass(kind, known)), kind.__name__)


def _problem(kind: str, message: str, model: type[BaseModel], keys: tuple[str | int, ...]) -> str:
    around = _model_at(model, keys[:-1]) if keys else None
    known = keys_of(around) if around is not None else {}
    if kind == "extra_forbidden":
        return _unknown(str(keys[-1]), list(known))
    if kind == "missing":
        field = known.get(str(keys[-1]))
        return f"is missing; accepted: {type_text(field.annotation)}" if field else "is missing"
    if kind in _TABLE_TYPES:
        return "must be a table"
    sentence = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return sentence.replace("Input should be", "must be").replace("Input should", "must")


def _unknown(key: str, known: list[str]) -> str:
    if not known:
        return "unknown key"
    return "unknown key" + (did_you_mean(key, known) or f"; known here: {', '.join(sorted(known))}")


def _model_at(model: type[BaseModel], keys: tuple[str | int, ...]) -> type[BaseModel] | None:
    """Follow keys through models, mappings and lists to the model that they lead to."""
    place: object = model
    for key in keys:
        if isinstance(place, type) and issubclass(place, BaseModel) and not get_args(place):
            field = keys_of(place).get(str(key))
            if field is None:
                return None
            place = _inner(field.annotation)
        elif get_origin(place) in (dict, Mapping, list, tuple, set, frozenset):
            place = _inner(get_args(place)[-1])
        else:
            return None
        place = _inner(place)
    return place if isinstance(place, type) and issubclass(place, BaseModel) else None


def _inner(annotation: object) -> object:
    """Strip `Annotated` and `| None`."""
    while hasattr(annotation, "__metadata__"):
        annotation = get_args(annotation)[0]
    arguments = [argument for argument in get_args(annotation) if argument is not type(None)]
    if type(None) in get_args(annotation) and len(arguments) == 1:
        return _inner(arguments[0])
    return annotation
