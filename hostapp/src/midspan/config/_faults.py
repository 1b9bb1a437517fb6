"""What is wrong with a table, in words: pydantic's errors as one sentence each for the operator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import UnionType
from typing import Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, RootModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from midspan.config._wording import (
    KINDS_OF_LISTS,
    KINDS_OF_LITERALS,
    KINDS_OF_MISSING,
    KINDS_OF_UNKNOWN,
    LIST,
    MISSING,
    TABLE,
    UNKNOWN,
    in_words,
)
from midspan.errors import did_you_mean

Keys = tuple[str | int, ...]

_WORDS: dict[type, tuple[str, str]] = {
    bool: ("true or false", "true or false"),
    int: ("whole number", "whole numbers"),
    float: ("number", "numbers"),
    str: ("text", "texts"),
    PurePath: ("path", "paths"),
}
_MUST_BE: Final = "must be "
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One thing that is wrong with a table.

    Attributes:
        keys: where, from the validated table downwards.
        problem: what, and what is accepted; never the value that stands there.
    """

    keys: Keys
    problem: str


def fault_of(error: ValidationError, model: type[BaseModel], data: object = None) -> Fault:
    """Say what the first fault is, and how many there are beside it."""
    first, *others = faults_of(error, model, data)
    return replace(first, problem=f"{first.problem} (and {len(others)} more)") if others else first


def faults_of(error: ValidationError, model: type[BaseModel], data: object = None) -> list[Fault]:
    """Say what all faults are, unknown keys first: a misspelt key is the cause of the one that is missing.

    Args:
        error: what pydantic raised.
        model: what was to be validated.
        data: the table that was validated. With it a value that may be of several types is one fault, which names them
            all; without, pydantic's names of the types are taken for keys.
    """
    details = error.errors(include_url=False)
    details.sort(key=lambda detail: detail["type"] not in KINDS_OF_UNKNOWN)
    faults: list[Fault] = []
    for keys, group in _by_place(details, data).items():
        alternatives = _nearest_alternative(group)
        if all(one.depth == 0 for one in alternatives):
            faults.append(Fault(keys=keys, problem=_joined(_problem(one.detail, model) for one in alternatives)))
        else:
            faults += [Fault(keys=one.keys, problem=_problem(one.detail, model)) for one in alternatives]
    return list(dict.fromkeys(faults))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """An error of pydantic's.

    Attributes:
        detail: the error.
        keys: where, as the file has it.
        alternative: which type of a value that may be of several it was held to; None when there is one only.
        depth: how many keys below that value it is.
    """

    detail: ErrorDetails
    keys: Keys
    alternative: str | int | None
    depth: int


def _by_place(details: Iterable[ErrorDetails], data: object) -> dict[Keys, list[_Found]]:
    """Group errors by where they are; those below a value that may be of several types by where that value is."""
    groups: dict[Keys, list[_Found]] = {}
    for detail in details:
        found, place = _found(detail, data)
        groups.setdefault(place, []).append(found)
    return groups


def _found(detail: ErrorDetails, data: object) -> tuple[_Found, Keys]:
    parts = tuple(part for part in detail["loc"] if part != "[key]")
    if data is None:
        return _Found(detail=detail, keys=parts, alternative=None, depth=0), parts
    keys: Keys = ()
    place: Keys | None = None
    alternative: str | int | None = None
    for index, part in enumerate(parts):
        is_there, inner = _step(data, part)
        is_last = index == len(parts) - 1
        if is_there or (is_last and detail["type"] in KINDS_OF_MISSING):
            keys, data = (*keys, part), inner
        elif place is None:
            # What is no key of the file is pydantic's name for a type that the value may be of.
            place, alternative = keys, part
    place = keys if place is None else place
    return _Found(detail=detail, keys=keys, alternative=alternative, depth=len(keys) - len(place)), place


def _step(data: object, part: str | int) -> tuple[bool, object]:
    if isinstance(data, Mapping):
        table = cast("Mapping[str | int, object]", data)
        return part in table, table.get(part)
    if isinstance(data, list | tuple) and isinstance(part, int):
        elements = cast("Sequence[object]", data)
        return part < len(elements), elements[part] if part < len(elements) else None
    return False, None


def _nearest_alternative(group: Sequence[_Found]) -> Sequence[_Found]:
    """Choose among the types that a value may be of the one that it nearly is, if any: the fault is deeper inside."""
    alternatives: dict[str | int | None, list[_Found]] = {}
    for one in group:
        alternatives.setdefault(one.alternative, []).append(one)
    if len(alternatives) == 1:
        return group
    inside = [found for found in alternatives.values() if all(one.depth > 0 for one in found)]
    return min(inside, key=len) if inside else [one for one in group if one.depth == 0]


def _joined(problems: Iterable[str]) -> str:
    first, *others = dict.fromkeys(problems)
    return " or ".join([first, *(other.removeprefix(_MUST_BE) for other in others)])


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
    """Say what a field takes, in the words of a TOML file: `list of texts`, `whole number`."""
    return _type_text(annotation, many=False)


def _type_text(annotation: object, *, many: bool) -> str:
    annotation = _inner(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(json.dumps(value, default=str) for value in arguments)
    if origin in (Union, UnionType):
        texts = dict.fromkeys(_type_text(one, many=many) for one in arguments if one is not type(None))
        return " or ".join(texts)
    kind = origin if isinstance(origin, type) else annotation
    if not isinstance(kind, type):
        return "values" if many else "value"
    if issubclass(kind, BaseModel | Mapping):
        return "tables" if many else "table"
    if issubclass(kind, list | tuple | AbstractSet):
        members = [argument for argument in arguments if argument is not Ellipsis]
        word = "lists" if many else "list"
        return f"{word} of {_type_text(members[0], many=True)}" if len(set(members)) == 1 else word
    one, several = next((words for known, words in _WORDS.items() if issubclass(kind, known)), (kind.__name__,) * 2)
    return several if many else one


def _problem(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, keys = detail["type"], tuple(part for part in detail["loc"] if part != "[key]")
    around = _model_at(model, keys[:-1]) if keys else None
    known = keys_of(around) if around is not None else {}
    field = known.get(str(keys[-1])) if keys else None
    if kind in KINDS_OF_UNKNOWN:
        return _unknown(str(keys[-1]), list(known))
    if kind in KINDS_OF_MISSING:
        return f"{MISSING}; accepted: {type_text(field.annotation)}" if field else MISSING
    if kind in KINDS_OF_LISTS:
        accepted = type_text(field.annotation) if field else "list"
        return f"{_MUST_BE}a {accepted}" if accepted.startswith("list") else LIST
    if kind == "dict_type" and field is not None and _holds_tables(field.annotation):
        return f"{TABLE}: [{keys[-1]}.<name>]" if len(keys) == 1 else f"{TABLE} of tables"
    sentence = in_words(kind, detail["msg"], detail.get("ctx", _NOTHING))
    if kind in KINDS_OF_LITERALS:
        return sentence + _nearest(detail["input"], sentence)
    return sentence


def _holds_tables(annotation: object) -> bool:
    inner = _inner(annotation)
    value = _inner(get_args(inner)[-1]) if get_origin(inner) is dict else None
    return isinstance(value, type) and issubclass(value, BaseModel)


def _nearest(value: object, sentence: str) -> str:
    # Names what is accepted, never the value.
    accepted = sentence.removeprefix(_MUST_BE).replace(" or ", ", ").split(", ")
    return did_you_mean(value, [one.strip("'") for one in accepted]) if isinstance(value, str) else ""


def _unknown(key: str, known: list[str]) -> str:
    if not known:
        return UNKNOWN
    return UNKNOWN + (did_you_mean(key, known) or f"; known here: {', '.join(sorted(known))}")


def _model_at(model: type[BaseModel], keys: Keys) -> type[BaseModel] | None:
    """Follow keys through models, mappings and lists to the model that they lead to."""
    place: object = model
    for key in keys:
        if isinstance(place, type) and issubclass(place, BaseModel) and not get_args(place):
            field = keys_of(place).get(str(key))
            if field is None:
                return None
            place = _inner(field.annotation)
        elif get_origin(place) in (dict, Mapping, list, tuple, set, frozenset):
            place = _inner(get_args(place)[-1] if get_args(place)[-1] is not Ellipsis else get_args(place)[0])
        elif get_origin(place) in (Union, UnionType):
            place = next((one for one in get_args(place) if getattr(one, "__name__", None) == key), None)
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
